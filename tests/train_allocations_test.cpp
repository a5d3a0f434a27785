// An iteration works in memory it already has: tests that a warm trainer asks the system for none,
// and counts what it asks of the heap.

#include <atomic>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <new>

#include <gtest/gtest.h>

#include "algos/tdmpc2/panels/learner.h"
#include "algos/tdmpc2/panels/planner.h"
#include "engine/host/cpu_cache.h"
#include "engine/host/machine.h"
#include "engine/train/trainer.h"

namespace {
std::atomic<int64_t> heap_allocations{0};
}

// every operator new of the program and of torch's libraries comes through here
void* operator new(std::size_t bytes) {
  heap_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace maglev {
namespace {

// one iteration of the settings below
constexpr int64_t kMostHeapAllocations = 0;

std::unique_ptr<Experiment> cartpole(std::initializer_list<const char*> more = {}) {
  claim_threads();
  auto experiment = std::make_unique<Experiment>("ppo", "cartpole");
  for (const char* setting :
       {"env.count=24", "ppo.rollout=32", "ppo.minibatch=200", "ppo.shard_rows=64"})
    experiment->table().override_with(setting);
  for (const char* setting : more) experiment->table().override_with(setting);
  return experiment;
}

// threads meet at different times from run to run; one thread shows exactly what an iteration needs

TEST(Allocations, an_iteration_asks_the_system_for_nothing_once_warm) {
  auto experiment = cartpole();
  Trainer trainer(*experiment, place("cpu", 1));
  for (int i = 0; i < 5; ++i) trainer.iterate(), trainer.flush();
  const int64_t before = cpu_cache_system_allocations();
  EXPECT_GT(before, 0);
  for (int i = 0; i < 10; ++i) trainer.iterate(), trainer.flush();
  EXPECT_EQ(cpu_cache_system_allocations(), before);
}

void expect_few_of_the_heap(const Experiment& experiment) {
  Trainer trainer(experiment, place("cpu", 1));
  for (int i = 0; i < 3; ++i) trainer.iterate();
  const int64_t heap = heap_allocations.load(), system = cpu_cache_system_allocations();
  trainer.iterate();
  const int64_t counted = heap_allocations.load() - heap;
  EXPECT_LE(counted, kMostHeapAllocations);
  EXPECT_EQ(cpu_cache_system_allocations(), system);
  testing::Test::RecordProperty("heap_allocations", std::to_string(counted));
  std::printf("%lld heap allocations an iteration\n", static_cast<long long>(counted));
}

TEST(Allocations, of_the_heap_stay_below_their_bound) { expect_few_of_the_heap(*cartpole()); }

TEST(Allocations, with_a_memory_are_as_few) {
  expect_few_of_the_heap(
      *cartpole({"ppo.network.memory=24", "ppo.sequence=8", "env.velocities=false"}));
  expect_few_of_the_heap(
      *cartpole({"ppo.network.memory=24", "ppo.minibatch=192", "ppo.network.shared=true"}));
}

TEST(Allocations, an_update_of_tdmpc2_on_panels_asks_for_nothing) {
  claim_threads();
  ThreadPool pool(1);
  tdmpc2::Options o;
  o.enc_dim = 24, o.mlp_dim = 32, o.latent_dim = 16, o.num_q = 3, o.batch = 70;
  const EnvSpec spec{.observations = {{.name = "vector", .shape = {5}}},
                     .action = {.low = {-1, -1}, .high = {1, 1}},
                     .max_steps = 100};
  const tdmpc2::LearnerOptions options{.options = o,
                                       .shape = tdmpc2::model_shape(o, spec),
                                       .seed = 1,
                                       .discount = tdmpc2::discounts(o, spec),
                                       .pool = &pool};
  tdmpc2::LearnerState state(o, options.shape, 1, at::kCPU);
  tdmpc2::PanelLearner learner(options, state);
  const tdmpc2::Sequences batch{.obs = at::zeros({o.horizon + 1, o.batch, 5}),
                                .action = at::zeros({o.horizon, o.batch, 2}),
                                .reward = at::zeros({o.horizon, o.batch}),
                                .terminated = at::zeros({o.horizon, o.batch})};
  auto figures = at::zeros({int64_t(tdmpc2::kFigures)});
  learner.update(batch, figures);
  const int64_t heap = heap_allocations.load(), system = cpu_cache_system_allocations();
  learner.update(batch, figures);
  EXPECT_EQ(heap_allocations.load(), heap);
  EXPECT_EQ(cpu_cache_system_allocations(), system);
}

TEST(Allocations, a_plan_of_tdmpc2_on_panels_asks_for_nothing) {
  claim_threads();
  tdmpc2::Options o;
  o.enc_dim = 24, o.mlp_dim = 32, o.latent_dim = 16, o.num_q = 3;
  o.samples = 90, o.elites = 10, o.episodic = true;
  const EnvSpec spec{.observations = {{.name = "vector", .shape = {5}}},
                     .action = {.low = {-1, -1}, .high = {1, 1}},
                     .max_steps = 100};
  const tdmpc2::ModelShape shape = tdmpc2::model_shape(o, spec);
  const tdmpc2::PlanOptions options = tdmpc2::plan_options(o, shape, spec, at::kCPU);
  tdmpc2::PanelPlanner planner(options, shape, Precision::fp32, 1);
  const tdmpc2::WorldModel model(shape, false, Initializer::none());
  planner.publish(model, at::zeros({model.layout().size()}));
  const tdmpc2::PlanRequest request{.latent = at::full({3, 16}, 0.125),
                                    .is_first = at::zeros({3}, at::kByte),
                                    .prev_mean = at::zeros({3, o.horizon, 2}),
                                    .explore = true};
  tdmpc2::Plan plan = planner.plan(request);
  const int64_t heap = heap_allocations.load(), system = cpu_cache_system_allocations();
  planner.plan_into(request, plan);
  EXPECT_EQ(heap_allocations.load(), heap);
  EXPECT_EQ(cpu_cache_system_allocations(), system);
}

}  // namespace
}  // namespace maglev
