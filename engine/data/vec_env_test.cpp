#include "engine/data/vec_env.h"

#include <cstddef>
#include <cstring>
#include <functional>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/config/options.h"
#include "engine/data/rollout.h"
#include "engine/run/checkpoint.h"
#include "engine/run/snapshot.h"
#include "tests/errors.h"

namespace maglev {
namespace {

constexpr int64_t kCount = 6, kSteps = 20;

// environments and the rows they are stepped in
struct Played {
  explicit Played(const char* name, const std::string& setting = "")
      : entry(find_env(name)), params(entry.params_bytes / sizeof(std::max_align_t) + 1) {
    entry.make_params(params.data());
    OptionTable table;
    table.section("env", [&](OptionTable& t) { entry.describe(t, params.data()); });
    if (!setting.empty()) table.override_with(setting);
    envs = std::make_unique<VecEnv>(entry, params.data(), kCount, 7, at::kCPU, pool);
    rows = std::make_unique<Rollout>(
        envs->spec(), RolloutShape{.T = kSteps, .rows = envs->rows(), .block_rows = 64},
        std::vector<ExtraColumn>{}, at::kCPU);
  }

  using Step = std::function<void(const StepIo&)>;
  void reset() { envs->reset(rows->first_io()); }
  // with the same actions each time
  void play(const Step& step) {
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(3));
    for (int64_t t = 0; t < kSteps; ++t) {
      at::Tensor& action = rows->step(t).action;
      if (envs->spec().action.discrete())
        action.copy_(at::randint(0, envs->spec().action.heads[0], action.sizes(), gen));
      else action.copy_(at::randn(action.sizes(), gen));
      step(rows->io(t));
    }
  }
  void play() {
    play([this](const StepIo& io) { envs->step(io); });
  }
  void visit(StateVisitor& v) { envs->visit_state(v); }
  std::string hash() {
    return state_hash([this](StateVisitor& v) { visit(v); });
  }

  const EnvEntry& entry;
  std::vector<std::max_align_t> params;
  ThreadPool pool{2};
  std::unique_ptr<VecEnv> envs;
  std::unique_ptr<Rollout> rows;
};

// writes a word of environment 2's state
class Forger : public PartialVisitor {
 public:
  Forger(size_t byte, int32_t value) : byte_(byte), value_(value) {}
  bool loads() const override { return true; }

 private:
  void visit_tensor(const std::string&, at::Tensor& slots) override {
    std::memcpy(static_cast<std::byte*>(slots[2].data_ptr()) + kSlotHead + byte_, &value_, 4);
  }

  size_t byte_;
  int32_t value_;
};

TEST(VecEnv, every_environment_continues_from_what_was_saved) {
  for (const EnvEntry& entry : env_table()) {
    Played played(entry.name);
    played.reset();
    played.play();
    const auto visit = [&](StateVisitor& v) { played.visit(v); };
    const StateSnapshot saved(visit);
    const std::string before = played.hash();
    played.play();
    const std::string after = played.hash();
    EXPECT_NE(before, after) << entry.name;
    saved.restore(visit);
    EXPECT_EQ(played.hash(), before) << entry.name;
    played.play();
    EXPECT_EQ(played.hash(), after) << entry.name;
  }
}

TEST(VecEnv, a_state_of_other_assets_is_refused) {
  Played played("maze", "env.map=1"), other("maze", "env.map=2");
  played.reset(), other.reset();
  const StateSnapshot saved([&](StateVisitor& v) { played.visit(v); });
  const std::string error =
      error_of([&] { saved.restore([&](StateVisitor& v) { other.visit(v); }); });
  EXPECT_TRUE(contains(error, "[env] maze has other assets than the run was saved with")) << error;
}

TEST(VecEnv, a_forged_slot_is_refused) {
  struct Case {
    const char* env;
    size_t byte;
    int32_t value;
  };
  for (const Case& c : {Case{"maze", 0, 81},
                        {"goodhart", 4, -1},
                        {"dispatch", 4, 1 << 20},
                        {"corridor", 0, 1 << 20},
                        {"points", 16, 3}}) {
    Played played(c.env);
    played.reset();
    Forger forger(c.byte, c.value);
    const std::string error = error_of([&] { played.visit(forger); });
    EXPECT_TRUE(contains(error, "[env] the saved state of environment 2 is none that "))
        << c.env << ": " << error;
  }
}

// transfers are plain copies here; on a device the same calls enqueue them
TEST(HostColumns, a_step_through_host_memory_leaves_the_rows_of_one_without) {
  // the last block has fewer
  for (const int64_t block : {kCount, kCount - 2})
    for (const char* name : {"dispatch", "corridor", "pendulum", "hockey_duel"}) {
      Played direct(name), through(name);
      HostColumns columns(through.envs->spec(), through.envs->rows(),
                          block * through.envs->agents(), 0, at::kCPU);
      direct.reset();
      if (block == kCount) {
        through.envs->reset(columns.of(through.rows->first_io(), 0));
        columns.send(through.rows->first_io(), 0, HostColumns::Part::observed);
      } else {
        through.reset();
      }
      direct.play();
      through.play([&](const StepIo& io) {
        for (int64_t first = 0; first < kCount; first += block) {
          through.envs->step(columns.bring_actions(io, first / block), first,
                             std::min(kCount, first + block));
          columns.send(io, first / block, HostColumns::Part::all);
        }
      });
      const Batch &a = direct.rows->batch(), &b = through.rows->batch();
      for (size_t c = 0; c < a.obs.size(); ++c) EXPECT_TRUE(at::equal(a.obs[c], b.obs[c])) << name;
      for (auto [x, y] : {std::pair{a.reward, b.reward},
                          {a.terminated, b.terminated},
                          {a.truncated, b.truncated},
                          {a.is_first, b.is_first}})
        EXPECT_TRUE(at::equal(x, y)) << name;
      if (a.mask.defined()) {
        EXPECT_TRUE(at::equal(a.mask, b.mask)) << name;
      }
    }
}

}  // namespace
}  // namespace maglev
