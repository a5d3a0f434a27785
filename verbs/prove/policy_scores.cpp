#include "verbs/prove/policy_scores.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/trace/span.h"

namespace maglev::verbs::prove {
namespace {

constexpr int64_t kMostRows = 128;

const Kg::Params& params_of(const Experiment& experiment) {
  if (std::string(experiment.env().name) != "kg")
    throw Error("[prove] --search policy needs a run of environment kg, got one of " +
                std::string(experiment.env().name));
  return *static_cast<const Kg::Params*>(experiment.env_params());
}

}  // namespace

PolicyScores::PolicyScores(const Experiment& experiment, Policy& policy, at::Device device)
    : experiment_(experiment),
      policy_(policy),
      params_(params_of(experiment)),
      spec_(experiment.spec()),
      constants_(int32_t(spec_.observations[0].vocabulary[1]) - 2 * params_.atoms - 1),
      predicates_(int32_t(spec_.observations[0].vocabulary[0]) - 4),
      step_(spec_, {}, std::min(policy.block_rows(), kMostRows), device) {}

std::vector<int32_t> PolicyScores::show(const datalog::Expansion& expansion, int64_t row) {
  using datalog::Atom;
  const TimeStep& step = step_.host();
  const int32_t A = params_.atoms, S = int32_t(spec_.action.categories());
  auto* state = static_cast<Atom*>(step.obs[0].data_ptr()) + row * A;
  auto* successors = static_cast<Atom*>(step.obs[1].data_ptr()) + row * S * A;
  uint8_t* mask = step.mask.data_ptr<uint8_t>() + row * S;
  std::fill(state, state + A, Atom{});
  std::fill(successors, successors + S * A, Atom{});
  std::fill(mask, mask + S, uint8_t(0));

  // goals as the environment shows them: their variables by the order in which they occur
  const auto put = [&](std::span<const Atom> goal, Atom* to) {
    Atom renamed[datalog::kMaxAtoms];
    std::copy(goal.begin(), goal.end(), renamed);
    datalog::rename_variables(renamed, int32_t(goal.size()), constants_);
    std::copy(renamed, renamed + std::min(goal.size(), size_t(A)), to);
  };
  put(expansion.goal, state);
  const int32_t room = S - (params_.end_action ? 1 : 0);
  std::vector<int32_t> places;
  int32_t next = 0;
  for (const auto& child : expansion.children) {
    const bool fits = next < room && int32_t(child.size()) <= A;
    places.push_back(fits ? next : -1);
    if (!fits) continue;
    put(child, successors + next * A);
    mask[next++] = 1;
  }
  // the way out that it also has
  if (params_.end_action || next == 0) {
    successors[next * A] = {predicates_ + Kg::kEnd, 0, 0};
    mask[next] = 1;
  }
  return places;
}

void PolicyScores::operator()(std::span<const datalog::Expansion> expansions,
                              std::span<float> scores) {
  const auto rows = size_t(step_.rows());
  size_t next = 0;
  for (size_t begin = 0; begin < expansions.size(); begin += rows) {
    const size_t count = std::min(expansions.size() - begin, rows);
    std::vector<std::vector<int32_t>> places;
    {
      const auto span = maglev::trace::stage("show");
      for (size_t i = 0; i < count; ++i) places.push_back(show(expansions[begin + i], int64_t(i)));
    }
    const auto span = maglev::trace::stage("act");
    at::Tensor all = policy_.log_probs(step_.shown(int64_t(count)));
    if (!all.defined())
      throw Error("[prove] " + std::string(experiment_.algo().name) +
                  " does not tell how likely its actions are; take a run of ppo");
    all = all.cpu();
    const float* log_probs = all.const_data_ptr<float>();
    for (size_t i = 0; i < count; ++i)
      for (int32_t place : places[i])
        scores[next++] = place < 0 ? kUnseen : log_probs[int64_t(i) * all.size(1) + place];
  }
}

}  // namespace maglev::verbs::prove
