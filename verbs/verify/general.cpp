#include <algorithm>
#include <cstdio>

#include <ATen/ATen.h>

#include "base/core/printed.h"
#include "base/statistics/samples.h"
#include "engine/play/evaluate.h"
#include "engine/play/record.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/manifest.h"
#include "engine/run/stored_experiment.h"
#include "verbs/verify/checks.h"

namespace maglev::verbs::verify {
namespace {

constexpr int64_t kPlayedSteps = 64, kPlayedEnvs = 16, kJudgedEpisodes = 64;
constexpr uint64_t kPlayedSeed = 1'000'003;
// log-probabilities of a head add up to 1 within the rounding of a few f32 operations
constexpr double kMassError = 1e-4;

Batch played(Subject& s, Policy& policy, uint64_t seed = kPlayedSeed) {
  return record_play(
      policy, s.run.experiment(), s.run.placement(), s.run.pool(),
      {.steps = kPlayedSteps, .envs = kPlayedEnvs, .seed = seed, .mode = ActMode::sample});
}

bool same_play(const Batch& a, const Batch& b) {
  bool same = at::equal(a.action, b.action) && at::equal(a.reward, b.reward) &&
              at::equal(a.is_first, b.is_first);
  for (size_t c = 0; c < a.obs.size(); ++c) same &= at::equal(a.obs[c], b.obs[c]);
  return same;
}

std::string hash_of_policy(Policy& policy) {
  return state_hash([&](StateVisitor& v) { policy.visit_state(v); });
}

Finding checkpoint_is_whole(Subject& s) {
  verify_checkpoint(s.run.checkpoint());
  // newer ones that are damaged were passed over to reach it
  std::string skipped;
  CheckpointStore(s.folder, 0).newest_verified([&](const std::string& note) {
    skipped += (skipped.empty() ? "" : "; ") + note;
  });
  if (!skipped.empty()) return found(false, skipped);
  return found(true, "every byte of the checkpoint is as it was written");
}

Finding environment_is_what_it_was_trained_on(Subject& s) {
  const std::string changed = changed_files(*experiment_of(s.folder), s.folder, {});
  if (!changed.empty()) return found(false, changed + " holds something else than in training");
  return found(true, "nothing that the environment is made from is known to have changed");
}

Finding loaded_twice_is_the_same(Subject& s) {
  RunPolicy again(s.folder, s.run.checkpoint());
  const bool state = hash_of_policy(again.policy()) == hash_of_policy(s.run.policy());
  const bool acts = same_play(played(s, s.run.policy()), played(s, again.policy()));
  if (!state) return found(false, "a second load has other parameters");
  return found(acts, acts ? "a second load has the same parameters and does the same"
                          : "a second load has the same parameters and does something else");
}

Finding same_seed_same_play(Subject& s) {
  const Batch first = played(s, s.run.policy());
  if (!same_play(first, played(s, s.run.policy())))
    return found(false, "the same seed gave other steps the second time");
  const bool other = !same_play(first, played(s, s.run.policy(), kPlayedSeed + 1));
  return found(other, other ? "the same seed gives the same steps, another seed others"
                            : "another seed gives the same steps: seeds change nothing");
}

/// What is wrong with a stored column; empty: nothing.
std::string fault_of(const ObsColumn& column, const at::Tensor& stored) {
  if (column.dtype == DType::f32)
    return at::isfinite(stored).all().item<bool>() ? "" : column.name + " is not finite";
  for (size_t k = 0; k < column.vocabulary.size(); ++k) {
    const at::Tensor tokens = stored.select(-1, int64_t(k));
    if (tokens.min().item<int64_t>() < 0 || tokens.max().item<int64_t>() >= column.vocabulary[k])
      return column.name + " holds tokens beyond its vocabulary";
  }
  return "";
}

Finding observations_are_in_range(Subject& s) {
  const Batch batch = played(s, s.run.policy());
  for (size_t c = 0; c < batch.obs.size(); ++c)
    if (const std::string fault = fault_of(s.spec().observations[c], batch.obs[c]); !fault.empty())
      return found(false, fault);
  if (!at::isfinite(batch.reward).all().item<bool>()) return found(false, "a reward is not finite");
  return found(true, std::to_string(batch.is_first.numel()) +
                         " rows: finite, and within what the environment declares");
}

/// The share of bytes' codes that a rollout would not keep.
Finding what_is_seen_is_what_is_learned(Subject& s) {
  const Batch batch = played(s, s.run.policy());
  for (size_t c = 0; c < batch.obs.size(); ++c) {
    const CellCoding& cells = s.spec().observations[c].cells;
    if (cells.kept.empty()) continue;
    const at::Tensor bytes = batch.obs[c].flatten().cpu().contiguous();
    int64_t seen = 0, lost = 0;
    const int codes = 8 / cells.bits;
    for (const uint8_t byte : std::span(bytes.const_data_ptr<uint8_t>(), size_t(bytes.numel())))
      for (int i = 0; i < codes; ++i) {
        const size_t code = size_t(byte >> (i * cells.bits)) & ((size_t(1) << cells.bits) - 1);
        seen += code != 0, lost += cells.kept[code] != code;
      }
    if (lost > 0)
      return found(false, printed("%.1f %% of what is seen in %s is learned from as something else",
                                  seen ? 100. * double(lost) / double(seen) : 0.,
                                  s.spec().observations[c].name.c_str()));
  }
  return found(true, "a rollout keeps every observation to the bit");
}

Finding outputs_are_sound(Subject& s) {
  const Batch batch = played(s, s.run.policy());
  const ActionSpec& action = s.spec().action;
  if (!action.discrete())
    return found(at::isfinite(batch.action).all().item<bool>(), "actions are finite");
  for (int64_t d = 0; d < action.dims(); ++d) {
    const at::Tensor chosen = batch.action.select(-1, d);
    if (chosen.min().item<int64_t>() < 0 || chosen.max().item<int64_t>() >= action.heads[size_t(d)])
      return found(false, "an action is none of the categories");
  }
  double worst = 0;
  for (int64_t t = 0; t < batch.action.size(0); ++t) {
    TimeStep step;
    for (const auto& column : batch.obs) step.obs.push_back(column[t]);
    if (batch.mask.defined()) step.mask = batch.mask[t];
    step.is_first = batch.is_first[t];
    const at::Tensor all = s.run.policy().log_probs(step);
    if (!all.defined()) return found(true, "actions are among the categories");
    int64_t begin = 0;
    for (const int64_t K : action.heads) {
      const double off = (all.narrow(1, begin, K).exp().sum(1) - 1).abs().max().item<double>();
      // what is not a number is not below anything
      if (!(off < kMassError))
        return found(false, "probabilities of actions are not numbers that add up to 1");
      worst = std::max(worst, off), begin += K;
    }
  }
  return found(true, printed("probabilities of actions add up to 1 within %.1g", worst));
}

Finding better_than_random(Subject& s) {
  RandomPlayer random(s.spec());
  PolicyPlayer policy(s.run.policy(), s.folder, ActMode::sample);
  EvalOptions options{.episodes = kJudgedEpisodes, .seed = kPlayedSeed};
  if (s.game.spec.agents == 2) options.against = &random;
  const EvalResult ours = evaluate(policy, s.game, options),
                   theirs = evaluate(random, s.game, options);
  if (ours.returns.size() < 2 || theirs.returns.size() < 2)
    return {Outcome::skipped, "no episodes ended"};
  const WelchTest test = welch_test(ours.returns, theirs.returns);
  return found(
      test.difference > 0 && (test.interval.low > 0 || test.p < 0.05),
      printed("return %.4g, at random %.4g; the difference is %.4g to %.4g (95 %%)",
              ours.return_mean, theirs.return_mean, test.interval.low, test.interval.high));
}

}  // namespace

std::span<const Check> general_checks() {
  static constexpr Check table[] = {{"checkpoint", checkpoint_is_whole},
                                    {"environment", environment_is_what_it_was_trained_on},
                                    {"reload", loaded_twice_is_the_same},
                                    {"determinism", same_seed_same_play},
                                    {"observations", observations_are_in_range},
                                    {"stored", what_is_seen_is_what_is_learned},
                                    {"outputs", outputs_are_sound},
                                    {"better than random", better_than_random}};
  return table;
}

}  // namespace maglev::verbs::verify
