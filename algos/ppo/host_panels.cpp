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
  PanelSequences& rows() { return of_.scratch_[at_]; }
  PanelNetwork::Panel& panel() { return rows().panel(0); }

 private:
  HostPanels& of_;
  size_t at_;
};

/// What learn was given.
struct HostPanels::Minibatch {
  const Batch& batch;
  ObsRows obs;
  const int64_t* index;
  int64_t rows;
  const LossColumns& columns;
  const PpoLossSettings& settings;
  const PpoLossScalars* scalars;
  float* grad;  ///< [lanes][parameters]
  double* figures;
  int64_t lanes, parameters;

  void clear_lane(int64_t lane) const {
    std::fill_n(grad + lane * parameters, parameters, 0.f);
    std::fill_n(figures + lane * kPpoFigures, int(kPpoFigures), 0.);
  }
};

HostPanels::HostPanels(const ActorCritic& network, const FlatParams& params,
                       const AlgoContext& context)
    : action_(context.spec.action),
      pool_(context.pool),
      network_(network, context.spec, params.data(), pairs_suit(context)),
      memory_size_(network.memory_size()),
      taken_(size_t(context.pool->threads())) {
  network_.round_weights(*pool_);
  // memory of one panel a thread
  for (size_t i = 0; i < taken_.size(); ++i) scratch_.emplace_back(network_, kPanelRows);
  // the deviations' gradient lies where they lie
  if (const auto log_std = network.log_std(); log_std.defined()) {
    log_std_ = log_std.const_data_ptr<float>();
    log_std_at_ = log_std_ - params.data().const_data_ptr<float>();
  }
}

void HostPanels::reserve(const LearningSizes& sizes) {
  sizes_ = sizes;
  // a panel after another in memory of a panel; of sequences the panels of a lane at once
  if (!remembers()) return;
  for (int64_t l = 0; l < sizes.lanes; ++l)
    shards_.push_back(
        {PanelSequences(network_, sizes.shard), std::vector<int64_t>(size_t(sizes.shard))});
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

void HostPanels::act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) {
  // panel after panel: observations to logits, logits to actions
  const ObsRows obs = rows_of(step.obs);
  const int64_t R = step.rows(), dims = action_.dims(), width = action_.categories();
  const bool learning = !step.extra.empty(), values = learning && remembers();
  const auto column = [&](Column c) { return step.extra[size_t(c)].data_ptr<float>(); };
  MAGLEV_ASSERT(!remembers() || carry.parts[0].is_contiguous(), "rows of memory lie together");
  Borrowed borrowed(*this);
  for (int64_t first = 0; first < R; first += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, R - first);
    borrowed.rows().load(obs, nullptr, first, /*L=*/1, rows);
    if (remembers()) {
      float* carried = carry.parts[0].data_ptr<float>() + first * memory_size_;
      if (learning)
        std::copy_n(carried, rows * memory_size_, column(memory_column) + first * memory_size_);
      step_cells(borrowed.rows(), rows, step.is_first.const_data_ptr<uint8_t>() + first, carried,
                 values);
    }
    PanelNetwork::Panel& panel = borrowed.panel();
    borrowed.rows().forward(0, /*policy=*/true, values);
    if (values) std::copy_n(panel.value(), rows, column(value_column) + first);
    const uint8_t* mask =
        step.mask.defined() ? step.mask.const_data_ptr<uint8_t>() + first * width : nullptr;
    policy_sample_cpu(
        {.policy = policy(panel, mask),
         .seed = key.seed,
         .purpose = key.purpose,
         .first_row = key.row_from(step.first) + first,
         .step = key.step,
         .base = key.base,
         .mean = mode == ActMode::mean,
         .action_i32 =
             action_.discrete() ? step.action.data_ptr<int32_t>() + first * dims : nullptr,
         .action_f32 = action_.discrete() ? nullptr : step.action.data_ptr<float>() + first * dims,
         .log_prob = learning ? column(log_prob_column) + first : nullptr,
         .index = key.rows ? key.rows + first : nullptr,
         .temperature = key.temperature});
  }
}

void HostPanels::step_cells(PanelSequences& rows, int64_t count, const uint8_t* is_first,
                            float* carried, bool value) const {
  for (int64_t r = 0; r < count; ++r) rows.keep()[r] = is_first[r] ? 0.f : 1.f;
  // what only the value remembers stays as it is where none is asked for
  const size_t cells = value ? network_.cells().size() : 1;
  for (size_t c = 0; c < cells; ++c) {
    const int64_t H = network_.cells()[c].units;
    for (int64_t r = 0; r < count; ++r)
      std::copy_n(carried + r * memory_size_, H, rows.state(c) + r * H);
    rows.forward_cell(c);
    for (int64_t r = 0; r < count; ++r)
      std::copy_n(rows.behind(c, 0) + r * H, H, carried + r * memory_size_);
    carried += H;
  }
}

void HostPanels::values(const Batch& batch, at::Tensor& value) {
  const int64_t R = value.size(1);
  float* out = value.data_ptr<float>();
  if (remembers()) {
    // what is left are the rows behind the rollout, two steps of each in a panel
    constexpr int64_t kRows = kPanelRows / 2;
    out += value.numel() - R;
    return pool_->run((R + kRows - 1) / kRows, [&](int64_t p) {
      last_values(batch, p * kRows, std::min(kRows, R - p * kRows), out + p * kRows);
    });
  }
  const ObsRows obs = rows_of(batch.obs);
  const int64_t rows = value.numel(), panels = (rows + kPanelRows - 1) / kPanelRows;
  // panels in any order, each writes its own rows
  pool_->run(panels, [&](int64_t p) {
    Borrowed borrowed(*this);
    const int64_t first = p * kPanelRows, count = std::min(kPanelRows, rows - first);
    borrowed.rows().load(obs, nullptr, first, /*L=*/1, count);
    borrowed.rows().forward(0, /*policy=*/false, /*value=*/true);
    std::copy_n(borrowed.panel().value(), count, out + first);
  });
}

void HostPanels::last_values(const Batch& batch, int64_t first, int64_t count, float* value) {
  // the second of two steps, behind what the first was acted with
  const at::Tensor& memory = batch.extra[memory_column];
  const int64_t T = memory.size(0), R = memory.size(1);
  int64_t index[kPanelRows];
  for (int64_t r = 0; r < 2 * count; ++r) index[r] = (T - 1 + r / count) * R + first + r % count;
  Borrowed borrowed(*this);
  PanelSequences& rows = borrowed.rows();
  rows.load(rows_of(batch.obs), index, 0, /*L=*/2, count);
  const uint8_t* is_first = batch.is_first.const_data_ptr<uint8_t>();
  for (int64_t r = 0; r < 2 * count; ++r) rows.keep()[r] = is_first[index[r]] ? 0.f : 1.f;
  // by the value's cell, the last one
  const size_t c = network_.cells().size() - 1;
  const int64_t H = network_.cells()[c].units;
  const float* states = memory.const_data_ptr<float>() + memory_size_ - H;
  for (int64_t r = 0; r < count; ++r)
    std::copy_n(states + index[r] * memory_size_, H, rows.state(c) + r * H);
  rows.forward_cell(c);
  rows.forward(0, /*policy=*/false, /*value=*/true);
  std::copy_n(borrowed.panel().value() + count, count, value);
}

void HostPanels::learn(const Batch& batch, const at::Tensor& index, const LossColumns& columns,
                       const PpoLossSettings& settings, const PpoLossScalars* scalars,
                       at::Tensor& grads, at::Tensor& figures) {
  const Minibatch from{.batch = batch,
                       .obs = rows_of(batch.obs),
                       .index = index.const_data_ptr<int64_t>(),
                       .rows = index.size(0),
                       .columns = columns,
                       .settings = settings,
                       .scalars = scalars,
                       .grad = grads.data_ptr<float>(),
                       .figures = figures.data_ptr<double>(),
                       .lanes = grads.size(0),
                       .parameters = grads.size(1)};
  // where each lane's gradients go, once for all updates
  for (int64_t l = int64_t(gradients_.size()); l < from.lanes; ++l)
    gradients_.push_back(network_.gradients(from.grad + l * from.parameters));
  if (remembers()) learn_sequences(from);
  else learn_panels(from);
}

void HostPanels::learn_panel(const Minibatch& from, PanelSequences& rows, int64_t p,
                             const int64_t* index, int64_t lane) {
  const Batch& batch = from.batch;
  PanelNetwork::Panel& panel = rows.panel(p);
  rows.forward(p, /*policy=*/true, /*value=*/true);
  ppo_loss_cpu({.policy = policy(
                    panel, batch.mask.defined() ? batch.mask.const_data_ptr<uint8_t>() : nullptr),
                .value = panel.value(),
                .index = index,
                .action_i32 = action_.discrete() ? batch.action.const_data_ptr<int32_t>() : nullptr,
                .action_f32 = action_.discrete() ? nullptr : batch.action.const_data_ptr<float>(),
                .old_log_prob = from.columns.old_log_prob,
                .advantage = from.columns.advantage,
                .target = from.columns.target,
                .old_value = from.columns.old_value,
                .valid = from.columns.valid,
                .settings = from.settings,
                .scalars = from.scalars,
                .d_logits = panel.d_logits(),
                .d_value = panel.d_value(),
                .d_log_std = log_std_ ? from.grad + lane * from.parameters + log_std_at_ : nullptr,
                .figures = from.figures + lane * kPpoFigures});
  rows.backward(p, gradients_[size_t(lane)]);
}

void HostPanels::learn_panels(const Minibatch& from) {
  // a lane at a time: its panels go forward, through the loss and back, one after another
  const int64_t panels = (from.rows + kPanelRows - 1) / kPanelRows;
  pool_->run(from.lanes, [&](int64_t l) {
    Borrowed borrowed(*this);
    from.clear_lane(l);
    for (int64_t p = l; p < panels; p += from.lanes) {
      const int64_t first = p * kPanelRows, rows = std::min(kPanelRows, from.rows - first);
      const int64_t* chosen = from.index + first;
      network_.load(borrowed.panel(), from.obs, chosen, 0, rows);
      // the next panel's rows lie anywhere: they come while this one is computed
      if (const int64_t next = first + from.lanes * kPanelRows; next < from.rows) {
        const int64_t count = std::min(kPanelRows, from.rows - next);
        network_.fetch(from.obs, from.index + next, count);
        from.columns.fetch(from.index + next, count);
      }
      learn_panel(from, borrowed.rows(), 0, chosen, l);
    }
  });
}

void HostPanels::learn_sequences(const Minibatch& from) {
  const int64_t shards = (from.rows + sizes_.shard - 1) / sizes_.shard;
  const int64_t cells = int64_t(network_.cells().size());
  // as many shards as there are lanes at a time: few sequences are long chains of small steps, so
  // the cells of a shard run at once
  for (int64_t begin = 0; begin < shards; begin += from.lanes) {
    const int64_t count = std::min(from.lanes, shards - begin);
    pool_->run(count, [&](int64_t l) {
      if (begin == 0) from.clear_lane(l);
      load_shard(from, begin + l, shards_[size_t(l)]);
    });
    pool_->run(count * cells,
               [&](int64_t i) { shards_[size_t(i / cells)].rows.forward_cell(size_t(i % cells)); });
    pool_->run(count, [&](int64_t l) {
      Shard& shard = shards_[size_t(l)];
      for (int64_t p = 0; p < shard.rows.panels(); ++p)
        learn_panel(from, shard.rows, p, shard.index.data() + p * kPanelRows, l);
    });
    pool_->run(count * cells, [&](int64_t i) {
      const size_t l = size_t(i / cells);
      shards_[l].rows.backward_cell(size_t(i % cells), gradients_[l]);
    });
  }
}

void HostPanels::load_shard(const Minibatch& from, int64_t s, Shard& shard) const {
  // sequences one behind another to their steps, time first
  const int64_t L = sizes_.sequence, first = s * sizes_.shard;
  const int64_t B = std::min(sizes_.shard, from.rows - first) / L;
  for (int64_t l = 0; l < L; ++l)
    for (int64_t b = 0; b < B; ++b) shard.index[size_t(l * B + b)] = from.index[first + b * L + l];
  shard.rows.load(from.obs, shard.index.data(), 0, L, B);
  const uint8_t* is_first = from.batch.is_first.const_data_ptr<uint8_t>();
  for (int64_t r = 0; r < L * B; ++r)
    shard.rows.keep()[r] = is_first[shard.index[size_t(r)]] ? 0.f : 1.f;
  // each from the state it was acted with
  const float* states = from.batch.extra[memory_column].const_data_ptr<float>();
  for (size_t c = 0; c < network_.cells().size(); ++c) {
    const int64_t H = network_.cells()[c].units;
    for (int64_t b = 0; b < B; ++b)
      std::copy_n(states + shard.index[size_t(b)] * memory_size_, H, shard.rows.state(c) + b * H);
    states += H;
  }
}

}  // namespace maglev::ppo
