#pragma once
// The few numbers PPO keeps beside its minibatches, where the minibatches are: what the loss needs
// before it, what the next step and the report need behind it. Nothing returns to the host.

#include "kernels/advantage/advantage.h"
#include "kernels/ppo_loss/ppo_loss.h"

namespace maglev {

/// Settings that do not change during a run.
struct PpoNumbers {
  bool normalize;               ///< advantages by this minibatch's statistics
  float entropy_floor_penalty;  ///< added to the entropy's weight below its floor
  float target_kl;              ///< in nats; 0: never stops
};

/// A linear schedule over a run: `start` at its beginning, `start * end_share` behind its last update.
struct Schedule {
  double start, end_share;
  double from = 0, until = 1;  ///< shares of the run between which it changes, from < until
};
/// Its value at a share of the run.
MAGLEV_HD double scheduled(const Schedule& s, double share) {
  const double progress = (share - s.from) / (s.until - s.from);
  return s.start * (1 + (s.end_share - 1) * (progress < 0 ? 0 : progress < 1 ? progress : 1));
}

struct PpoUpdate {
  Schedule lr, clip, value_clip, entropy, entropy_floor;
  double rows, total;  ///< environment rows of this update, of all updates
  double* steps_done;  ///< [1], rows so far; advanced
  float *lr_now, *clip_now, *value_clip_now, *entropy_now;  ///< [1] each, written
  float* entropy_floor_now;                                 ///< [1], in nats, written
  float* stop;                                              ///< [1], cleared
};
/// Before an update: what the schedules give where it begins, so that the last one still learns.
MAGLEV_HD void ppo_update(const PpoUpdate& u) {
  const double share = *u.steps_done < u.total ? *u.steps_done / u.total : 1;
  *u.steps_done += u.rows;
  *u.lr_now = float(scheduled(u.lr, share)), *u.clip_now = float(scheduled(u.clip, share));
  *u.value_clip_now = float(scheduled(u.value_clip, share));
  *u.entropy_now = float(scheduled(u.entropy, share));
  *u.entropy_floor_now = float(scheduled(u.entropy_floor, share));
  *u.stop = 0.f;
}

struct PpoBegin {
  PpoNumbers numbers;
  AdvantageStatistics* statistics;  ///< [1], of the minibatch; a device writes it first
  const float *clip, *value_clip, *entropy_coef, *entropy_floor;  ///< [1] each, this update's
  const float* last_entropy;  ///< [1], mean entropy of the last minibatch with a valid row
  PpoLossScalars* scalars;    ///< written
};
/// Before a minibatch: below the floor the mean entropy of the one before adds its penalty.
MAGLEV_HD void ppo_begin(const PpoBegin& b) {
  const PpoNumbers& n = b.numbers;
  const float penalty = *b.last_entropy < *b.entropy_floor ? n.entropy_floor_penalty : 0.f;
  *b.scalars = {.advantage_mean = n.normalize ? b.statistics->mean : 0.f,
                .advantage_scale = n.normalize ? b.statistics->scale : 1.f,
                .inverse_count = b.statistics->inverse_count,
                .clip = *b.clip,
                .value_clip = *b.value_clip,
                .entropy_coef = *b.entropy_coef + penalty};
}

struct PpoEnd {
  PpoNumbers numbers;
  const double* lane_figures;  ///< [lanes, kPpoFigures]
  int64_t lanes;
  const PpoLossScalars* scalars;  ///< as ppo_begin left them
  float* figures;  ///< [kPpoFigures], written: the lanes' sums, on a processor in order
  float* counts;   ///< [1], written: 1, or 0 where the update had stopped before this minibatch or
                   ///< none of its rows is valid
  float* stop;     ///< [1], set once the policy moved by more than 1.5 target_kl
  float* last_entropy;  ///< [1], written where a row is valid
};
/// Behind a minibatch: the step that sees the policy too far away is left out, and all behind it.
MAGLEV_HD void ppo_end(const PpoEnd& e) {
  for (int k = 0; k < kPpoFigures; ++k) {
    double sum = 0;
    for (int64_t l = 0; l < e.lanes; ++l) sum += e.lane_figures[l * kPpoFigures + k];
    e.figures[k] = float(sum);
  }
  // of rows that only reset their environments there is no mean: they say nothing. Their step is
  // made, without a gradient
  const bool empty = e.scalars->inverse_count == 0.f;
  *e.counts = *e.stop != 0.f || empty ? 0.f : 1.f;
  if (e.numbers.target_kl > 0 && e.figures[kPpoApproxKl] > 1.5f * e.numbers.target_kl)
    *e.stop = 1.f;
  if (!empty) *e.last_entropy = e.figures[kPpoEntropy];
}

/// Figures of a kind that are told together, each a sum and the sum of its weights (Metrics).
struct PpoSums {
  float *sums, *weights;
};
/// A figure of weight 0 may be NaN, which times nothing would still be NaN.
MAGLEV_HD void ppo_add(const PpoSums& to, int64_t figure, float value, float weight) {
  if (!(weight > 0)) return;
  to.sums[figure] += value * weight;
  to.weights[figure] += weight;
}

struct PpoStepReport {
  const float *figures, *counts;  ///< as ppo_end left them
  const float *norm, *lr;         ///< [1] each, of the step
  PpoSums to;                     ///< kPpoFigures, then norm and lr; added to
};
/// Behind a step: what it tells of itself.
MAGLEV_HD void ppo_report_step(const PpoStepReport& r) {
  for (int k = 0; k < kPpoFigures; ++k) ppo_add(r.to, k, r.figures[k], *r.counts);
  // a step that was left out is counted as such: its norm is none
  const bool finite = *r.norm - *r.norm == 0.f;
  ppo_add(r.to, kPpoFigures, *r.norm, finite ? *r.counts : 0.f);
  ppo_add(r.to, kPpoFigures + 1, *r.lr, *r.counts);
}

struct PpoUpdateReport {
  const float *explained, *nonfinite, *scale;  ///< [1] each
  PpoSums to;                                  ///< in this order; added to
  int64_t epochs;
  int64_t* epochs_done;  ///< [1], advanced: the next update's permutations have other numbers
};
/// Behind an update. Where targets do not vary there is nothing to explain: no figure, and no sign
/// of divergence.
MAGLEV_HD void ppo_report_update(const PpoUpdateReport& r) {
  ppo_add(r.to, 0, *r.explained, *r.explained == *r.explained ? 1.f : 0.f);
  ppo_add(r.to, 1, *r.nonfinite, 1.f);
  ppo_add(r.to, 2, *r.scale, 1.f);
  *r.epochs_done += r.epochs;
}

/// On `stream` (a cudaStream_t): one thread, but ppo_begin, which finds the statistics of `rows`
/// first, with partial [advantage_chunks(count)] as scratch. Return a cudaError_t. Only in builds
/// with device code.
int ppo_update_cuda(const PpoUpdate& update, void* stream);
int ppo_begin_cuda(const PpoBegin& begin, const AdvantageArgs& rows, AdvantagePartial* partial,
                   void* stream);
int ppo_end_cuda(const PpoEnd& end, void* stream);
int ppo_report_step_cuda(const PpoStepReport& report, void* stream);
int ppo_report_update_cuda(const PpoUpdateReport& report, void* stream);

}  // namespace maglev
