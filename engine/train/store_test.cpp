#include "engine/train/store.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace maglev {
namespace {

constexpr int64_t kT = 3, kStoredRows = 4;

/// A rollout store of the Goodhart grid whose windows hold every byte somewhere.
struct Filled {
  explicit Filled(const std::vector<std::string>& settings) : experiment("ppo", "goodhart") {
    for (const auto& setting : settings) experiment.table().override_with(setting);
    store =
        make_store(experiment.run, experiment.spec(), {.collect_steps = kT},
                   {.T = kT, .rows = kStoredRows, .block_rows = kStoredRows}, {.device = at::kCPU});
    windows = store->rollout()->batch().obs[0];
    windows.copy_((at::arange(windows.numel(), at::kLong) * 37).view_as(windows));
    before = windows.clone();
  }
  /// Codes of all cells, [T + 1, rows, cells].
  static at::Tensor codes(const at::Tensor& bytes) {
    std::vector<at::Tensor> cells;
    for (int shift = 0; shift < 8; shift += 2)
      cells.push_back(at::bitwise_and(bytes.to(at::kLong).floor_divide(1 << shift), 3));
    return at::stack(cells, -1).flatten(2);
  }

  Experiment experiment;
  std::unique_ptr<Store> store;
  at::Tensor windows, before;
};

TEST(StoredColumns, keeps_every_code_of_a_window) {
  ThreadPool pool(1);
  for (const char* mode : {"env.mode=proxy", "env.mode=ground_truth", "env.mode=blind"}) {
    Filled filled({mode});
    EXPECT_TRUE(at::equal(filled.store->batch({}, pool).obs[0], filled.before)) << mode;
  }
}

TEST(StoredColumns, learns_from_what_whole_numbers_keep_where_that_is_asked_for) {
  ThreadPool pool(1);
  Filled filled({"env.mode=proxy", "env.uint8_rollout=true"});
  const at::Tensor before = Filled::codes(filled.before);
  const at::Tensor learned = Filled::codes(filled.store->batch({}, pool).obs[0]);
  // poison became the code that is empty to the policy and poison to the critic
  const at::Tensor expected = at::where(before.eq(2), at::full_like(before, 3), before);
  EXPECT_TRUE(at::equal(learned.narrow(0, 0, kT), expected.narrow(0, 0, kT)));
  EXPECT_TRUE(before.narrow(0, 0, kT).eq(2).any().item<bool>());
  // acting goes on from what was seen
  EXPECT_TRUE(at::equal(learned[kT], before[kT]));
  const CellCoding cells = filled.experiment.spec().observations[0].cells;
  EXPECT_EQ(cells.policy[6], 0) << "empty";
  EXPECT_EQ(cells.critic[7], cells.critic[5]) << "poison";
  // what is seen as 0 and 1 loses nothing
  Filled truth({"env.mode=ground_truth", "env.uint8_rollout=true"});
  EXPECT_TRUE(at::equal(truth.store->batch({}, pool).obs[0], truth.before));
}

}  // namespace
}  // namespace maglev
