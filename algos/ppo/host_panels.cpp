#include "algos/ppo/host_panels.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "kernels/policy/policy.h"

namespace maglev::ppo {
namespace {

ObsRows rows_of(const std::vector<at::Tensor>& columns) {
  ObsRows rows;
  for (size_t c = 0; c < columns.size(); ++c)
    rows.column[c] = static_cast<const std::byte*>(columns[c].const_data_ptr());
  return rows;
}

}  // namespace

/// A panel's memory nobody else uses. There is one a thread, so one is always free.
class HostPanels::Borrowed {
 public:
  explicit Borrowed(HostPanels& of) : of_(of) {
    for (at_ = 0; of.taken_[at_].exchange(true, std::memory_order_acquire);)
      at_ = (at_ + 1) % of.taken_.size();
  }
  ~Borrowed() { of_.taken_[at_].store(false, std::memory_order_release); }
  PanelNetwork::Panel& operator*() { return of_.memory_[at_]; }

 private:
  HostPanels& of_;
  size_t at_;
};

HostPanels::HostPanels(const ActorCritic& network, const FlatParams& params,
                       const AlgoContext& context)
    : action_(context.spec.action),
      pool_(context.pool),
      panels_(network, context.spec, params.data(), pairs_suit(context)),
      taken_(size_t(context.pool->threads())) {
  panels_.round_weights(*pool_);
  // memory of one panel a thread
  for (size_t i = 0; i < taken_.size(); ++i) memory_.emplace_back(panels_);
  // the deviations' gradient lies where they lie
  if (const auto log_std = network.log_std(); log_std.defined()) {
    log_std_ = log_std.const_data_ptr<float>();
    log_std_at_ = log_std_ - params.data().const_data_ptr<float>();
  }
}

PolicyPanel HostPanels::policy(const PanelNetwork::Panel& panel, const uint8_t* mask) const {
  return {.heads = action_.heads.data(),
          .head_count = int64_t(action_.heads.size()),
          .dims = action_.dims(),
          .logits = panel.logits(),
          .stride = panel.stride(),
          .log_std = log_std_,
          .mask = mask,
          .mask_width = action_.categories(),
          .rows = panel.rows()};
}

void HostPanels::act(TimeStep& step, ActMode mode, const ActKey& key, at::Tensor* log_prob) {
  // panel after panel: observations to logits, logits to actions
  const ObsRows obs = rows_of(step.obs);
  const int64_t R = step.rows(), dims = action_.dims(), width = action_.categories();
  Borrowed panel(*this);
  for (int64_t first = 0; first < R; first += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, R - first);
    panels_.load(*panel, obs, nullptr, first, rows);
    panels_.forward(*panel, /*policy=*/true, /*value=*/false);
    const uint8_t* mask =
        step.mask.defined() ? step.mask.const_data_ptr<uint8_t>() + first * width : nullptr;
    policy_sample_cpu(
        {.policy = policy(*panel, mask),
         .seed = key.seed,
         .purpose = key.purpose,
         .first_row = key.row_from(step.first) + first,
         .step = key.step,
         .base = key.base,
         .mean = mode == ActMode::mean,
         .action_i32 =
             action_.discrete() ? step.action.data_ptr<int32_t>() + first * dims : nullptr,
         .action_f32 = action_.discrete() ? nullptr : step.action.data_ptr<float>() + first * dims,
         .log_prob = log_prob ? log_prob->data_ptr<float>() + first : nullptr,
         .index = key.rows ? key.rows + first : nullptr});
  }
}

void HostPanels::values(const Batch& batch, at::Tensor& value) {
  const ObsRows obs = rows_of(batch.obs);
  const int64_t rows = value.numel(), panels = (rows + kPanelRows - 1) / kPanelRows;
  float* out = value.data_ptr<float>();
  // panels in any order, each writes its own rows
  pool_->run(panels, [&](int64_t p) {
    Borrowed panel(*this);
    const int64_t first = p * kPanelRows, count = std::min(kPanelRows, rows - first);
    panels_.load(*panel, obs, nullptr, first, count);
    panels_.forward(*panel, /*policy=*/false, /*value=*/true);
    std::copy_n((*panel).value(), count, out + first);
  });
}

void HostPanels::learn(const Batch& batch, const at::Tensor& index, const LossColumns& columns,
                       const PpoLossSettings& settings, const PpoLossScalars* scalars,
                       at::Tensor& grads, at::Tensor& figures) {
  const ObsRows obs = rows_of(batch.obs);
  const int64_t B = index.size(0), panels = (B + kPanelRows - 1) / kPanelRows;
  const int64_t lanes = grads.size(0), P = grads.size(1);
  float* grad = grads.data_ptr<float>();
  // where each lane's gradients go, once for all updates
  for (int64_t l = int64_t(gradients_.size()); l < lanes; ++l)
    gradients_.push_back(panels_.gradients(grad + l * P));
  const uint8_t* mask = batch.mask.defined() ? batch.mask.const_data_ptr<uint8_t>() : nullptr;
  // a lane at a time: its panels go forward, through the loss and back, one after another
  pool_->run(lanes, [&](int64_t l) {
    Borrowed panel(*this);
    std::fill_n(grad + l * P, P, 0.f);
    std::fill_n(figures.data_ptr<double>() + l * kPpoFigures, int(kPpoFigures), 0.);
    for (int64_t p = l; p < panels; p += lanes) {
      const int64_t first = p * kPanelRows, rows = std::min(kPanelRows, B - first);
      const int64_t* chosen = index.const_data_ptr<int64_t>() + first;
      panels_.load(*panel, obs, chosen, 0, rows);
      // the next panel's rows lie anywhere: they come while this one is computed
      if (const int64_t next = first + lanes * kPanelRows; next < B) {
        const int64_t* coming = index.const_data_ptr<int64_t>() + next;
        const int64_t count = std::min(kPanelRows, B - next);
        panels_.fetch(obs, coming, count);
        columns.fetch(coming, count);
      }
      panels_.forward(*panel, /*policy=*/true, /*value=*/true);
      ppo_loss_cpu(
          {.policy = policy(*panel, mask),
           .value = (*panel).value(),
           .index = chosen,
           .action_i32 = action_.discrete() ? batch.action.const_data_ptr<int32_t>() : nullptr,
           .action_f32 = action_.discrete() ? nullptr : batch.action.const_data_ptr<float>(),
           .old_log_prob = columns.old_log_prob,
           .advantage = columns.advantage,
           .target = columns.target,
           .old_value = columns.old_value,
           .valid = columns.valid,
           .settings = settings,
           .scalars = scalars,
           .d_logits = (*panel).d_logits(),
           .d_value = (*panel).d_value(),
           .d_log_std = log_std_ ? grad + l * P + log_std_at_ : nullptr,
           .figures = figures.data_ptr<double>() + l * kPpoFigures});
      panels_.backward(*panel, gradients_[size_t(l)]);
    }
  });
}

}  // namespace maglev::ppo
