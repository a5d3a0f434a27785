#include "kernels/ppo_loss/ppo_scalars_op.h"

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"

namespace maglev {
namespace {

template <class T>
T* at_start(const at::Tensor& t) {
  return reinterpret_cast<T*>(t.data_ptr());
}

constexpr PpoSchedules kSchedules{
    .lr = {3e-4, 0.1}, .clip = {0.2, 1}, .entropy = {0.01, 0}, .rows = 1000, .total = 5000};

// the same by ATen, into a state of its own
PpoState ppo_scalars_reference(const PpoState& s, const PpoNumbers& n,
                               const at::Tensor& lane_figures) {
  auto one = [&](double x) { return at::full({}, x, s.clip.options()); };
  PpoState out = s;
  // schedules, as they are at the update's end
  out.steps_done = s.steps_done + double(kSchedules.rows);
  auto share = at::clamp_max(out.steps_done / double(kSchedules.total), 1.0);
  auto scheduled = [&](const Schedule& x) {
    return (x.start * (1 + (x.end_share - 1) * share)).to(at::kFloat);
  };
  out.lr = scheduled(kSchedules.lr), out.clip = scheduled(kSchedules.clip);
  out.entropy_coef = scheduled(kSchedules.entropy);
  // what the loss reads; below the floor entropy weighs more
  const auto& statistics = s.statistics;
  auto coef = at::where(s.last_entropy < n.entropy_floor,
                        out.entropy_coef + n.entropy_floor_penalty, out.entropy_coef);
  out.scalars = at::stack({n.normalize ? statistics[0] : one(0),
                           n.normalize ? statistics[1] : one(1), statistics[2], out.clip, coef});
  // figures over the lanes, and whether the policy has gone too far
  out.figures = lane_figures.sum(0).to(at::kFloat);
  const bool stops = n.target_kl > 0;
  out.stop = stops ? at::logical_or(s.stop != 0, out.figures[kPpoApproxKl] > 1.5 * n.target_kl)
                         .to(at::kFloat)
                   : s.stop;
  out.last_entropy = out.figures[kPpoEntropy];
  return out;
}

Tensors outputs(const PpoState& s) {
  return {s.steps_done, s.lr, s.scalars, s.figures, s.stop, s.last_entropy};
}

}  // namespace

std::vector<KernelCase> ppo_scalar_cases(at::Device device) {
  std::vector<KernelCase> list;
  const PpoNumbers plain{.normalize = true};
  PpoNumbers floor = plain, kl = plain;
  // the entropies below are at most 1, so the floor of 2 is always missed
  floor.entropy_floor = 2, floor.entropy_floor_penalty = 0.05f, floor.normalize = false;
  kl.target_kl = 0.01f;
  for (const auto& [name, numbers] : {std::pair<const char*, PpoNumbers>{"plain", plain},
                                      {"entropy floor", floor},
                                      {"target KL", kl}})
    for (int64_t lanes : {1, 16}) {
      auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(lanes));
      auto some = [&](std::vector<int64_t> sizes) { return at::rand(sizes, gen).to(device); };
      // steps may lie behind the schedules' end
      PpoState state{.steps_done = some({}).to(at::kDouble) * 6000,
                     .lr = some({}),
                     .statistics = some({3}),
                     .clip = some({}),
                     .entropy_coef = some({}),
                     .last_entropy = some({}),
                     .stop = at::zeros({}, device),
                     .scalars = some({5}),
                     .figures = some({int64_t(kPpoFigures)})};
      auto lane_figures = some({lanes, int64_t(kPpoFigures)}).to(at::kDouble);
      auto run = [=] {
        // every call begins at the same state
        PpoState s = state;
        for (auto* t : {&s.steps_done, &s.lr, &s.clip, &s.entropy_coef, &s.last_entropy, &s.stop,
                        &s.scalars, &s.figures})
          *t = t->clone();
        ppo_update_(s, kSchedules);
        ppo_begin_(s, numbers);
        ppo_end_(s, numbers, lane_figures);
        return outputs(s);
      };
      list.push_back({.name = "scalars: " + std::string(name) + " lanes=" + std::to_string(lanes),
                      .reference =
                          [=](const Tensors&) {
                            return outputs(ppo_scalars_reference(state, numbers, lane_figures));
                          },
                      .fused = [=](const Tensors&) { return run(); },
                      .tolerance = 1e-6,
                      .bytes = 8 * lanes * kPpoFigures + 4 * 24,
                      .flops = lanes * kPpoFigures});
    }
  return list;
}

void ppo_update_(PpoState& s, const PpoSchedules& schedules) {
  const PpoUpdate update{.lr = schedules.lr,
                         .clip = schedules.clip,
                         .entropy = schedules.entropy,
                         .rows = double(schedules.rows),
                         .total = double(schedules.total),
                         .steps_done = at_start<double>(s.steps_done),
                         .lr_now = at_start<float>(s.lr),
                         .clip_now = at_start<float>(s.clip),
                         .entropy_now = at_start<float>(s.entropy_coef),
                         .stop = at_start<float>(s.stop)};
  launch<ppo_update_cuda>("ppo_update", s.lr.device(), ppo_update, update);
}

void ppo_begin_(PpoState& s, const PpoNumbers& numbers) {
  const PpoBegin begin{.numbers = numbers,
                       .statistics = at_start<AdvantageStatistics>(s.statistics),
                       .clip = at_start<float>(s.clip),
                       .entropy_coef = at_start<float>(s.entropy_coef),
                       .last_entropy = at_start<float>(s.last_entropy),
                       .scalars = at_start<PpoLossScalars>(s.scalars)};
  launch<ppo_begin_cuda>("ppo_begin", s.scalars.device(), ppo_begin, begin);
}

void ppo_end_(PpoState& s, const PpoNumbers& numbers, const at::Tensor& lane_figures) {
  MAGLEV_ASSERT(lane_figures.is_contiguous() && lane_figures.size(1) == kPpoFigures,
                "[lanes, figures] f64");
  const PpoEnd end{.numbers = numbers,
                   .lane_figures = at_start<double>(lane_figures),
                   .lanes = lane_figures.size(0),
                   .figures = at_start<float>(s.figures),
                   .stop = at_start<float>(s.stop),
                   .last_entropy = at_start<float>(s.last_entropy)};
  launch<ppo_end_cuda>("ppo_end", device_of("ppo_end", s.figures, lane_figures), ppo_end, end);
}

}  // namespace maglev
