#include "engine/train/store.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/processes/process_group.h"
#include "engine/device/device.h"
#include "engine/device/pinned.h"
#include "engine/train/batches.h"
#include "engine/train/dataset.h"

namespace maglev {
namespace {

// of a device's free memory that an automatic ring may take; networks and graphs want the rest
constexpr double kDeviceShare = 0.4;
// of a batch that is worth a thread or a stream: a tenth of a millisecond's copying, 20 us of a bus
constexpr int64_t kPrefetched = 1 << 20;
// updates of a dataset follow each other without steps between them
constexpr double kEndless = 1e9;

int64_t batch_bytes(const ReplayShape& shape, const EnvSpec& spec, const DataPlan& plan) {
  return (shape.length + 1) * shape.batch * Replay::row_bytes(spec, plan.columns);
}

/// What is left of each byte of packed cells when not every code is kept, [256] u8.
at::Tensor kept_bytes(const CellCoding& cells) {
  at::Tensor table = at::empty({256}, at::kByte);
  const int codes = 1 << cells.bits;
  for (int byte = 0; byte < 256; ++byte) {
    int left = 0;
    for (int shift = 0; shift < 8; shift += cells.bits)
      left |= int(cells.kept[size_t((byte >> shift) % codes)]) << shift;
    table.data_ptr<uint8_t>()[byte] = uint8_t(left);
  }
  return table;
}

class RolloutStore : public Store {
 public:
  RolloutStore(const EnvSpec& spec, const DataPlan& plan, const RolloutShape& window,
               at::Device device, const MakeColumn& observations)
      : rollout_(spec, window, plan.columns, device, observations) {
    for (size_t c = 0; c < spec.observations.size(); ++c)
      if (const CellCoding& cells = spec.observations[c].cells; !cells.kept.empty())
        lossy_.emplace_back(rollout_.batch().obs[c].narrow(0, 0, window.T),
                            kept_bytes(cells).to(device));
  }

  StepWindow& window() override { return rollout_.window(); }
  const Batch& collected() override { return rollout_.batch(); }
  int64_t due(int64_t, int64_t) override { return 1; }
  const Batch& batch(const ReplayKey&, ThreadPool&) override {
    // a time at a time: as indices they are four times what they were
    for (auto& [column, kept] : lossy_)
      for (at::Tensor step : column.unbind())
        step.copy_(kept.index_select(0, step.flatten().to(at::kInt)).view_as(step));
    return rollout_.batch();
  }
  void learned() override { rollout_.roll_over(); }
  void visit_state(StateVisitor& visitor) override {
    visitor.section("rollout", [&](StateVisitor& v) { rollout_.visit_state(v); });
  }
  void visit_ahead(StateVisitor& visitor, int64_t) override { visit_state(visitor); }
  Rollout* rollout() override { return &rollout_; }

 private:
  Rollout rollout_;
  /// Columns whose codes are not all kept, without the row acting goes on from, and what is left of
  /// each byte.
  std::vector<std::pair<at::Tensor, at::Tensor>> lossy_;
};

// sequences lie within episodes, where they may not cross their ends
void check_length(const EnvSpec& spec, const ReplayPlan& plan) {
  const int64_t longest = spec.longest_episode();
  if (longest == 0 || plan.crossing || plan.length <= longest) return;
  throw Error("[train] a sequence to learn from has " + std::to_string(plan.length) +
              " steps, and no episode has more than " + std::to_string(longest) +
              ": nothing could be learned; take shorter sequences, or longer episodes "
              "(env.max_steps)");
}

class ReplayStore : public Store {
 public:
  ReplayStore(const RunOptions& run, const EnvSpec& spec, const DataPlan& plan,
              const RolloutShape& window, const Placement& placement)
      : plan_(*plan.replay),
        save_(run.save_replay),
        cuda_(placement.device.is_cuda()),
        replay_(
            spec, replay_shape(run, plan_, window), plan.columns, placement.device,
            ring_memory(run, Replay::bytes(spec, replay_shape(run, plan_, window), plan.columns),
                        placement)),
        batches_(replay_, prefetches(run, plan_, batch_bytes(replay_.shape(), spec, plan),
                                     replay_.pinned(), updates_of(run, plan_, window), placement)) {
  }

  StepWindow& window() override { return replay_.window(); }
  const Batch& collected() override { return replay_.collected(); }
  void begin() override {
    if (!cuda_) batches_.drop();
    replay_.begin();
  }
  void commit() override {
    // at the device's own time, for its ring is as it was until here
    if (cuda_) batches_.drop();
    replay_.commit();
  }
  int64_t due(int64_t steps, int64_t made) override {
    const int64_t due = updates_due(plan_, steps) - made;
    if (due <= 0) return 0;
    // a device is asked until there is something, then no more: it would have to be waited for
    if (!cuda_ || !drawable_) drawable_ = replay_.drawable();
    return drawable_ ? due : 0;
  }
  const Batch& batch(const ReplayKey& key, ThreadPool& pool) override {
    return batches_.get(key, pool);
  }
  bool draws_ahead() const override { return batches_.ahead(); }
  void draw_ahead(const ReplayKey& key) override { batches_.draw_ahead(key); }
  void learned() override { batches_.put_back(); }
  void visit_state(StateVisitor& visitor) override {
    batches_.drop();
    visitor.section("replay", [&](StateVisitor& v) {
      if (save_) replay_.visit_state(v);
      else replay_.visit_ahead(v, 0);
    });
    // times whose rows no file holds
    if (!save_ && visitor.loads()) replay_.forget();
    // what was put back may hold less than it did
    drawable_ = false;
  }
  void visit_ahead(StateVisitor& visitor, int64_t steps) override {
    batches_.drop();
    visitor.section("replay", [&](StateVisitor& v) { replay_.visit_ahead(v, steps); });
    drawable_ = false;
  }
  Replay* replay() override { return &replay_; }

 private:
  ReplayPlan plan_;
  bool save_, cuda_, drawable_ = false;
  Replay replay_;
  Batches batches_;
};

// nothing is collected; the files are there, so that nothing is saved but what updates wrote back.
// Each of several processes holds all rows and wrote what it drew: of another number than there
// were, one goes on from what one of those wrote
class DatasetStore : public Store {
 public:
  DatasetStore(const RunOptions& run, const EnvSpec& spec, const DataPlan& plan,
               const Placement& placement)
      : processes_(placement.processes),
        rank_(rank_of(placement.group)),
        rewrites_(Replay::rewritten_bytes(plan.columns) > 0 || plan.replay->priorities),
        replay_(load_dataset(run, spec, plan, placement)),
        rows_(replay_->counters().now + 1),
        batches_(*replay_, prefetches(run, *plan.replay, batch_bytes(replay_->shape(), spec, plan),
                                      replay_->pinned(), kEndless, placement)) {
    if (!replay_->drawable())
      throw Error("[dataset] no episode of " + run.dataset + " has the " +
                  counted(plan.replay->length, "transition") + " of a sequence");
  }

  StepWindow& window() override { return replay_->window(); }
  const Batch& collected() override { return replay_->collected(); }
  int64_t due(int64_t, int64_t) override { return 1; }
  const Batch& batch(const ReplayKey& key, ThreadPool& pool) override {
    return batches_.get(key, pool);
  }
  bool draws_ahead() const override { return batches_.ahead(); }
  void draw_ahead(const ReplayKey& key) override { batches_.draw_ahead(key); }
  void learned() override { batches_.put_back(); }
  void visit_state(StateVisitor& visitor) override {
    if (!rewrites_) return;
    visitor.section("replay", [&](StateVisitor& v) {
      int64_t processes = processes_, rows = rows_;
      v.count("rows", rows, 1);
      if (rows != rows_)
        throw Error("[dataset] the run learned from " + std::to_string(rows) +
                    " rows, and the files of train.dataset have " + std::to_string(rows_) +
                    " now; what it wrote beside those fits no others: give it the files it began "
                    "with, or begin a new run with train.init_from");
      v.integer("processes", processes, 1, ProcessGroup::kMost);
      if (processes == processes_) replay_->visit_rewritten(v);
      else replay_->visit_rewritten_of(v, processes, rank_ % processes);
    });
  }
  void visit_ahead(StateVisitor& visitor, int64_t) override { visit_state(visitor); }
  Replay* replay() override { return replay_.get(); }

 private:
  int64_t processes_, rank_;
  bool rewrites_;
  std::unique_ptr<Replay> replay_;
  int64_t rows_;  ///< held
  Batches batches_;
};

}  // namespace

int64_t updates_due(const ReplayPlan& plan, int64_t steps) {
  if (steps < plan.first_steps) return 0;
  const int64_t counted = (steps - plan.first_steps) / plan.update_every * plan.update_every;
  return plan.first_updates + int64_t(std::floor(double(counted) * plan.updates_per_step));
}

ReplayShape replay_shape(const RunOptions& run, const ReplayPlan& plan,
                         const RolloutShape& window) {
  const int64_t shares = run.processes;
  ReplayShape shape{.window = window,
                    .capacity = run.replay_capacity / shares,
                    .length = plan.length,
                    .batch = plan.batch / shares,
                    .by_start = plan.sampling == SliceSampling::start,
                    .running = plan.running,
                    .crossing = plan.crossing,
                    .priorities = plan.priorities};
  // no more rows than the run makes and the last observation of each environment, but room for a
  // sequence however short it is
  if (run.replay_capacity == 0)
    shape.capacity = std::min(
        plan.capacity / shares,
        std::max((run.steps + shares - 1) / shares + window.rows, Replay::least_capacity(shape)));
  if (run.dataset.empty()) Replay::expect_capacity(shape, shares);
  return shape;
}

RingMemory ring_memory(const RunOptions& run, int64_t bytes, const Placement& placement) {
  const at::Device device = placement.device;
  if (!device.is_cuda()) return {.folder = run.replay_folder};
  if (!run.replay_folder.empty())
    throw Error(
        "[train] train.replay_folder is for a processor, on " + device.str() +
        " a ring lies on the device or in pinned memory (train.replay_memory); leave it out");
  if (run.replay_memory) return {.pinned = *run.replay_memory == StoreMemory::pinned};
  const int64_t free = placement.device_bytes ? placement.device_bytes : free_device_bytes();
  return {.pinned = double(bytes) > kDeviceShare * double(free)};
}

bool rollout_is_pinned(const RunOptions& run, at::Device device) {
  return device.is_cuda() && run.rollout_memory == StoreMemory::pinned;
}

bool prefetches(const RunOptions& run, const ReplayPlan& plan, int64_t bytes, bool pinned,
                double updates, const Placement& placement) {
  if (plan.priorities) return false;
  const bool helps = placement.device.is_cuda() ? pinned : placement.threads > 1;
  return run.prefetch.value_or(bytes >= kPrefetched && updates > 1 && helps);
}

double updates_of(const RunOptions& run, const ReplayPlan& plan, const RolloutShape& window) {
  return plan.updates_per_step *
         double(std::max(plan.update_every, window.T * window.rows * run.processes));
}

std::unique_ptr<Store> make_store(const RunOptions& run, const EnvSpec& spec, const DataPlan& plan,
                                  const RolloutShape& window, const Placement& placement) {
  if (!plan.replay) {
    if (!run.dataset.empty())
      throw Error(
          "[train] train.dataset is for an algorithm that learns from a replay; leave it out, or "
          "choose another algorithm");
    const at::Device device = placement.device;
    MakeColumn observations;
    if (rollout_is_pinned(run, device))
      observations = [device](at::IntArrayRef sizes, at::TensorOptions options) {
        return pinned_on(device, sizes, c10::typeMetaToScalarType(options.dtype()));
      };
    return std::make_unique<RolloutStore>(spec, plan, window, device, observations);
  }
  if (!run.dataset.empty()) return std::make_unique<DatasetStore>(run, spec, plan, placement);
  check_length(spec, *plan.replay);
  return std::make_unique<ReplayStore>(run, spec, plan, window, placement);
}

}  // namespace maglev
