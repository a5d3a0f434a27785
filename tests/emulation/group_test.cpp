// Processes with an emulated device each add and gather through NcclGroup, by a stand-in for NCCL
// (tests/fakes/nccl.cpp). A case starts this program once a process, with what each of them does as
// a disabled test; who it is comes through its standard input.

#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/other_program.h"
#include "engine/data/all_rows.h"
#include "engine/device/side_stream.h"
#include "engine/device/step_graph.h"
#include "engine/group/nccl_group.h"
#include "engine/host/machine.h"
#include "engine/train/trainer.h"
#include "kernels/noise/noise_op.h"
#include "tests/emulation/device.h"
#include "tests/errors.h"
#include "tests/places.h"

namespace maglev {
namespace {

const at::Device kGpu("cuda:0");
const std::string kNccl = fake_library("nccl");

// what stands in the environment while it lives
struct Variable {
  Variable(const char* name, const char* value) : name(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name); }
  const char* name;
};

// what a process is told
struct Place {
  int rank = 0, size = 1;
  NcclId id;

  NcclGroup group() const { return NcclGroup(rank, size, kGpu, id, kNccl); }
};

struct Ended {
  bool content;
  std::string how, said;
};

// GroupProcess.DISABLED_<work> in `processes` processes of a group of `size`
std::vector<Ended> run_in(int processes, int size, const std::string& work) {
  const NcclId id = NcclGroup::make_id(kNccl);
  std::deque<OtherProgram> all;
  for (int rank = 0; rank < processes; ++rank) {
    all.emplace_back("/proc/self/exe",
                     std::vector<std::string>{"--gtest_also_run_disabled_tests",
                                              "--gtest_filter=GroupProcess.DISABLED_" + work},
                     "[test] ");
    const Place place{.rank = rank, .size = size, .id = id};
    EXPECT_TRUE(all.back().send(&place, sizeof place));
  }
  std::vector<Ended> ended;
  for (OtherProgram& one : all) {
    const bool content = one.end();
    ended.push_back({content, one.ending(), one.said(4000)});
  }
  return ended;
}

void expect_content(int processes, int size, const std::string& work) {
  for (const Ended& one : run_in(processes, size, work)) {
    EXPECT_TRUE(one.content) << one.how << ": " << one.said;
    EXPECT_TRUE(contains(one.said, "[  PASSED  ] 1 test")) << one.said;
  }
}

// of the process that runs, as it was told
Place place() {
  Place told;
  for (size_t have = 0; have < sizeof told;) {
    const ssize_t some =
        ::read(STDIN_FILENO, reinterpret_cast<char*>(&told) + have, sizeof told - have);
    if (some <= 0) throw Error("[test] nobody said which process this is");
    have += size_t(some);
  }
  return told;
}

at::Tensor numbers_of(int rank, at::ScalarType dtype, int64_t count) {
  auto random = at::detail::createCPUGenerator(uint64_t(rank) + 1);
  return at::randn({count}, random).to(dtype);
}

// added as a group does: by rank, bf16 in f32
at::Tensor added(int size, at::ScalarType dtype, int64_t count, double scale = 1) {
  const bool narrow = dtype == at::kBFloat16;
  at::Tensor sum;
  for (int rank = 0; rank < size; ++rank) {
    at::Tensor one = numbers_of(rank, dtype, count).mul(scale);
    if (narrow) one = one.to(at::kFloat);
    sum = sum.defined() ? sum + one : one;
  }
  return sum.to(dtype);
}

// more than the stand-in exchanges at once
constexpr int64_t kMany = (1 << 18) + 3;
constexpr at::ScalarType kAdded[] = {at::kFloat, at::kDouble, at::kBFloat16};

TEST(GroupProcess, DISABLED_adds) {
  const Place here = place();
  NcclGroup group = here.group();
  for (const at::ScalarType dtype : kAdded) {
    for (const int64_t count : {int64_t(1), kMany}) {
      const at::Tensor x = numbers_of(here.rank, dtype, count).to(kGpu);
      group.sum(x);
      EXPECT_TRUE(at::equal(x.cpu(), added(here.size, dtype, count))) << dtype << " " << count;
    }
  }
  const at::Tensor none = at::empty({0}, at::TensorOptions(at::kFloat).device(kGpu));
  group.sum(none);
  group.check();
}
TEST(EmulatedGroup, adds_by_rank_in_place) {
  expect_content(2, 2, "adds");
  expect_content(3, 3, "adds");
}

TEST(GroupProcess, DISABLED_gathers) {
  const Place here = place();
  NcclGroup group = here.group();
  for (const at::ScalarType dtype : {at::kByte, at::kFloat, at::kInt, at::kBool}) {
    const auto of = [&](int rank) { return (at::arange(6).view({2, 3}) + 10 * rank).to(dtype); };
    const at::Tensor all = group.gather(of(here.rank).to(kGpu)).cpu();
    ASSERT_EQ(all.sizes(), at::IntArrayRef({here.size, 2, 3}));
    EXPECT_EQ(all.scalar_type(), dtype);
    for (int rank = 0; rank < here.size; ++rank) EXPECT_TRUE(at::equal(all[rank], of(rank)));
  }
  EXPECT_EQ(group.gather(at::zeros({}, at::TensorOptions(at::kFloat).device(kGpu))).dim(), 1);
  group.check();
}
TEST(EmulatedGroup, gathers_by_rank_whatever_the_type) { expect_content(2, 2, "gathers"); }

TEST(GroupProcess, DISABLED_replays) {
  const Place here = place();
  NcclGroup group = here.group();
  GraphPool pool(kGpu);
  std::deque<StepGraph> graphs;
  for (const at::ScalarType dtype : kAdded) {
    const at::Tensor x = numbers_of(here.rank, dtype, 8).to(kGpu);
    at::Tensor sum = at::zeros_like(x), all = at::zeros({here.size, 8}, x.options());
    const auto stage = [&] {
      sum.copy_(x);
      group.sum(sum);
      all.copy_(group.gather(x));
      all.add_(sum);
    };
    StepGraph& graph = graphs.emplace_back("stage");
    pool.on_side_stream([&] {
      stage();
      graph.capture(pool, stage);
      // what one replay leaves the next does not read
      for (const double scale : {1., -2., 4.}) {
        x.copy_(numbers_of(here.rank, dtype, 8).mul(scale).to(kGpu));
        graph.run([] {});
        const at::Tensor expected = added(here.size, dtype, 8, scale);
        EXPECT_TRUE(at::equal(sum.cpu(), expected)) << dtype << " " << scale;
        for (int rank = 0; rank < here.size; ++rank)
          EXPECT_TRUE(
              at::equal(all[rank].cpu(), numbers_of(rank, dtype, 8).mul(scale).add(expected)));
      }
    });
  }
  group.check();
}
TEST(EmulatedGroup, captured_adds_and_gathers_in_every_replay) { expect_content(2, 2, "replays"); }

TEST(GroupProcess, DISABLED_captures_what_others_do_not) {
  const Place here = place();
  NcclGroup group = here.group();
  GraphPool pool(kGpu);
  StepGraph graph("stage");
  const at::Tensor x = numbers_of(here.rank, at::kFloat, 8).to(kGpu);
  if (here.rank == 1)
    pool.on_side_stream([&] { graph.capture(pool, [&] { group.sum(x.view({2, 4})); }); });
  group.sum(x);
  group.check();
  EXPECT_TRUE(at::equal(x.cpu(), added(here.size, at::kFloat, 8)));
}
TEST(EmulatedGroup, exchanges_nothing_in_a_capture) {
  expect_content(2, 2, "captures_what_others_do_not");
}

TEST(GroupProcess, DISABLED_adds_as_many_as_its_rank) {
  const Place here = place();
  NcclGroup group = here.group();
  const at::Tensor x = at::ones({4 + here.rank}, at::TensorOptions(at::kFloat).device(kGpu));
  group.sum(x);
  // the device found it, so the next call tells
  const std::string error = error_of([&] { group.sum(x); });
  EXPECT_TRUE(contains(error, "[group] NCCL 2.27.3 failed in what it was given before: the proc"))
      << error;
  EXPECT_EQ(error_of([&] { group.check(); }), error);
}
TEST(EmulatedGroup, tells_that_processes_add_different_shapes) {
  expect_content(2, 2, "adds_as_many_as_its_rank");
}

TEST(GroupProcess, DISABLED_comes_alone) {
  const Place here = place();
  const std::string error = error_of([&] { here.group(); });
  EXPECT_TRUE(contains(error, "[group] NCCL 2.27.3 failed in ncclCommInitRank: another proc"))
      << error;
}
TEST(EmulatedGroup, ends_with_an_error_where_a_process_never_comes) {
  const Variable soon("MAGLEV_FAKE_NCCL_TIMEOUT_S", "0.2");
  expect_content(1, 2, "comes_alone");
}

TEST(GroupProcess, DISABLED_is_left) {
  const Place here = place();
  std::optional<NcclGroup> group(std::in_place, here.rank, here.size, kGpu, here.id, kNccl);
  const at::Tensor x = at::ones({4}, at::TensorOptions(at::kFloat).device(kGpu));
  group->sum(x);
  if (here.rank == 1) return;
  group->sum(x);
  EXPECT_TRUE(contains(error_of([&] { group->check(); }), "another process is gone"));
}
TEST(EmulatedGroup, ends_with_an_error_where_a_process_leaves) { expect_content(2, 2, "is_left"); }

TEST(GroupProcess, DISABLED_outlives_its_group) {
  const Place here = place();
  std::optional<NcclGroup> group(std::in_place, here.rank, here.size, kGpu, here.id, kNccl);
  const at::Tensor x = at::ones({4}, at::TensorOptions(at::kFloat).device(kGpu));
  GraphPool pool(kGpu);
  StepGraph graph("stage");
  pool.on_side_stream([&] { graph.capture(pool, [&] { group->sum(x); }); });
  group.reset();
}
TEST(EmulatedGroup, that_goes_before_a_graph_of_its_work_is_found) {
  const Ended ended = run_in(1, 1, "outlives_its_group").at(0);
  EXPECT_TRUE(contains(ended.how, "signal 6")) << ended.how;
  EXPECT_TRUE(contains(ended.said, "ncclCommAbort: a graph that holds work")) << ended.said;
}

TEST(EmulatedGroup, says_what_nccl_refuses) {
  EXPECT_EQ(error_of([] { NcclGroup(0, 1, kGpu, NcclId{}, kNccl); }),
            "[group] NCCL 2.27.3 failed in ncclCommInitRank: invalid argument; with "
            "NCCL_DEBUG=WARN it says more");
  const Variable old("MAGLEV_FAKE_NCCL_VERSION", "2804");
  EXPECT_TRUE(contains(error_of([] { NcclGroup::make_id(kNccl); }), "is NCCL 2.8.4, and several"));
}

TEST(EmulatedGroup, takes_tensors_of_its_device_alone) {
  NcclGroup group(0, 1, kGpu, NcclGroup::make_id(kNccl), kNccl);
  EXPECT_TRUE(contains(error_of([&] { group.sum(at::ones({2})); }),
                       "[group] needs its tensors on one device"));
  EXPECT_NE(error_of([&] { group.gather(at::ones({2})); }), "");
}

TEST(EmulatedGroup, adds_on_the_stream_that_is_the_current_one) {
  NcclGroup group(0, 1, kGpu, NcclGroup::make_id(kNccl), kNccl);
  GraphPool pool(kGpu);
  SideStream side(kGpu);
  at::Tensor x = at::ones({4}, at::TensorOptions(at::kFloat).device(kGpu));
  const auto draw = [&] {
    noise_uniform_(x, {.seed = 1, .stream = 0, .first = 0, .rows = 1, .count = 0});
  };
  StepGraph graph("stage");
  std::string error;
  pool.on_side_stream([&] {
    error = error_of([&] {
      graph.capture(pool, [&] {
        draw();
        side.fork([&] { group.sum(x); });
      });
    });
    side.join();
  });
  EXPECT_TRUE(contains(error, "that the captured one does not wait for")) << error;
  if (!emulation::checks_memory()) GTEST_SKIP() << "this build does not check memory";
  side.fork([&] { group.sum(x); });
  EXPECT_NE(error_of(draw), "") << "it may still be added";
  side.join();
  EXPECT_EQ(error_of(draw), "");
}

// what a run knows after some iterations, replayed as graphs where they can be
struct Learned {
  std::map<std::string, at::Tensor> state;
  MetricRow row;
  bool captured = false;
};
constexpr int kRollouts = 4;
// updates of which some were replayed
constexpr int64_t kBeforeReplay = 4;

class Copies : public PartialVisitor {
 public:
  std::map<std::string, at::Tensor> tensors;

 private:
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    tensors[name] = value.detach().cpu().clone();
  }
};

Learned learned(const std::string& algo, const std::string& env,
                const std::vector<std::string>& settings, int iterations, Group* group) {
  claim_threads();
  Experiment experiment(algo, env);
  for (const std::string& setting : settings) experiment.table().override_with(setting);
  experiment.run.processes = size_of(group);
  const Placement placement{
      .device = kGpu, .threads = 1, .processes = size_of(group), .group = group};
  Trainer trainer(experiment, placement);
  trainer.warm_up();
  for (int i = 0; i < iterations; ++i) trainer.iterate();
  Learned result{.row = trainer.flush(), .captured = trainer.captured()};
  Copies copies;
  trainer.visit_state(copies);
  result.state = std::move(copies.tensors);
  return result;
}

// whole rollouts are a minibatch, so that the same rows are learned from together
void expect_as_one(const std::vector<std::string>& settings) {
  const Place here = place();
  NcclGroup group = here.group();
  const Learned shared = learned("ppo", "cartpole", settings, kRollouts, &group);
  const Learned alone = learned("ppo", "cartpole", settings, kRollouts, nullptr);
  EXPECT_TRUE(shared.captured);
  EXPECT_EQ(shared.state.size(), alone.state.size());
  for (const auto& [name, value] : shared.state) {
    ASSERT_TRUE(alone.state.contains(name)) << name;
    // the states of environments are bytes
    if (value.is_floating_point()) {
      EXPECT_TRUE(at::allclose(value, alone.state.at(name), 1e-3, 1e-4)) << name;
    }
  }
  EXPECT_EQ(shared.row.episodes, alone.row.episodes);
}

// takes what is saved, and gives it back where it loads
class OneTensor : public PartialVisitor {
 public:
  at::Tensor saved;
  bool loading = false;
  bool loads() const override { return loading; }

 private:
  void visit_tensor(const std::string&, at::Tensor& value) override {
    if (loading) value.copy_(saved);
    else saved = value.clone();
  }
};

TEST(GroupProcess, DISABLED_saves_rows) {
  const Place here = place();
  NcclGroup group = here.group();
  // environments that step on the host keep their states there; a replay's rows have times
  for (const at::Device device : {at::Device(at::kCPU), kGpu})
    for (const int64_t dim : {0, 1}) {
      const at::Tensor all = at::arange(48).view({4, 4, 3}).to(device);
      const at::Tensor own = all.narrow(dim, 2 * here.rank, 2).clone();
      OneTensor one;
      at::Tensor rows = own.clone();
      AllRows(one, group).rows("rows", rows, dim);
      EXPECT_TRUE(at::equal(one.saved.cpu(), all.cpu())) << device << " " << dim;
      one.loading = true, one.saved = all;
      rows.zero_();
      AllRows(one, group).rows("rows", rows, dim);
      EXPECT_TRUE(at::equal(rows.cpu(), own.cpu())) << device << " " << dim;
    }
}
TEST(EmulatedGroup, saves_the_rows_of_all_and_loads_its_own) { expect_content(2, 2, "saves_rows"); }

const std::vector<std::string> kSmallRun{"env.count=4",
                                         "ppo.rollout=8",
                                         "ppo.epochs=2",
                                         "ppo.minibatch=0",
                                         "train.steps=1000",
                                         "ppo.network.normalize_obs=true",
                                         "ppo.network.value_head=popart"};
std::vector<std::string> small_run_with(const std::string& setting) {
  auto settings = kSmallRun;
  settings.push_back(setting);
  return settings;
}

TEST(GroupProcess, DISABLED_learns) { expect_as_one(kSmallRun); }
TEST(GroupProcess, DISABLED_learns_scaled) {
  expect_as_one(small_run_with("ppo.normalize_reward=true"));
}
TEST(GroupProcess, DISABLED_learns_by_the_reference) {
  expect_as_one(small_run_with("ppo.fused=false"));
}
TEST(EmulatedGroup, learns_what_one_process_does_in_replayed_graphs) {
  for (const char* how : {"learns", "learns_scaled", "learns_by_the_reference"})
    expect_content(2, 2, how);
}

// each draws from a replay of its own: what is replayed is what is done eagerly, and all have the
// same networks
void expect_replayed_as_eager(const std::string& algo, const std::vector<std::string>& changes) {
  constexpr int kIterations = 5;
  const Place here = place();
  NcclGroup group = here.group();
  const auto& small = find_algo(algo).small;
  std::vector<std::string> settings = small.settings;
  settings.insert(settings.end(), changes.begin(), changes.end());
  settings.push_back("train.steps=100000");
  const Learned replayed = learned(algo, small.env, settings, kIterations, &group);
  settings.push_back("train.graph=false");
  const Learned eager = learned(algo, small.env, settings, kIterations, &group);
  EXPECT_TRUE(replayed.captured);
  EXPECT_FALSE(eager.captured);
  ASSERT_EQ(replayed.state.size(), eager.state.size());
  int64_t updates = 0;
  for (const auto& [name, value] : replayed.state) {
    EXPECT_TRUE(at::equal(value, eager.state.at(name))) << name;
    if (name == "algo.updates") updates = value.item<int64_t>();
    // what the others have, who see no rows
    if (!name.starts_with("algo.")) continue;
    const at::Tensor all = group.gather(value.to(kGpu)).cpu();
    EXPECT_TRUE(at::equal(all[0], all[1])) << name;
  }
  EXPECT_GT(updates, kBeforeReplay);
}

TEST(GroupProcess, DISABLED_learns_tdmpc2) {
  // of short episodes, so that there are some to draw from soon
  expect_replayed_as_eager("tdmpc2",
                           {"tdmpc2.mpc=false", "env.max_steps=10", "tdmpc2.seed_steps=240",
                            "tdmpc2.update_every=80", "tdmpc2.updates_per_step=0.05"});
}
TEST(GroupProcess, DISABLED_learns_dreamer) { expect_replayed_as_eager("dreamer", {}); }
TEST(EmulatedGroup, learns_from_replays_in_replayed_graphs) {
  for (const char* how : {"learns_tdmpc2", "learns_dreamer"}) expect_content(2, 2, how);
}

}  // namespace
}  // namespace maglev
