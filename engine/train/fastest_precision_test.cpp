#include "engine/train/fastest_precision.h"

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "engine/train/trainer.h"
#include "tests/errors.h"

namespace maglev {
namespace {

std::unique_ptr<Experiment> small() {
  claim_threads();
  auto experiment = std::make_unique<Experiment>("ppo", "cartpole");
  for (const char* setting : {"env.count=8", "ppo.rollout=8", "ppo.network.hidden=[8]"})
    experiment->table().override_with(setting);
  return experiment;
}

TEST(Precision, auto_is_fp32_on_a_processor_and_a_resumed_run_keeps_it) {
  auto experiment = small();
  const Placement placement = settle_precision(*experiment, place("cpu", 1));
  EXPECT_EQ(placement.precision, Precision::fp32);
  EXPECT_EQ(experiment->run.precision, Precision::fp32);
}

TEST(Precision, another_is_taken_only_where_it_is_worthwhile) {
  const auto taken = [](double fp32, double bf16, double fp16) {
    return fastest_of({{Precision::fp32, fp32}, {Precision::bf16, bf16}, {Precision::fp16, fp16}});
  };
  EXPECT_EQ(fastest_of({{Precision::fp32, 1}}), Precision::fp32);
  EXPECT_EQ(taken(1, 0.92, 0.95), Precision::fp32);
  EXPECT_EQ(taken(1, 0.9, 1), Precision::bf16);
  // each beside the one that is taken so far
  EXPECT_EQ(taken(1, 0.8, 0.75), Precision::bf16);
  EXPECT_EQ(taken(1, 0.8, 0.72), Precision::fp16);
  EXPECT_EQ(taken(1, 0.95, 0.9), Precision::fp16);
}

std::unique_ptr<Experiment> world_model() {
  claim_threads();
  auto experiment = std::make_unique<Experiment>("tdmpc2", "pendulum");
  for (const auto& setting : experiment->algo().small.settings)
    experiment->table().override_with(setting);
  return experiment;
}

TEST(Precision, one_that_the_algorithm_does_not_offer_is_refused_and_never_measured) {
  auto experiment = world_model();
  Placement placement = place("cpu", 1);
  std::string why;
  // all that a GPU computes; the world model has no loss scaling
  fastest_precision(*experiment, placement, {Precision::fp32, Precision::bf16, Precision::fp16},
                    why);
  for (const char* name : {"fp32", "bf16"}) EXPECT_TRUE(contains(why, name)) << why;
  EXPECT_FALSE(contains(why, "fp16")) << why;
  placement.precision = Precision::fp16;
  const std::string error = error_of([&] { Trainer(*experiment, placement); });
  EXPECT_TRUE(
      contains(error, "train.precision=fp16 is not offered by tdmpc2, which has fp32, bf16"))
      << error;
}

TEST(Precision, is_measured_behind_seeding_on_iterations_that_learn) {
  const auto experiment = world_model();
  Trainer trainer(*experiment, place("cpu", 1));
  const ReplayPlan plan = *trainer.algorithm().plan().replay;
  ASSERT_GT(plan.first_updates, 10) << "as many at once would take long";
  reach_steady(trainer);
  EXPECT_GE(trainer.step(), plan.first_steps);
  const int64_t before = trainer.updates();
  EXPECT_EQ(before, updates_due(plan, trainer.step()));
  trainer.iterate();
  EXPECT_EQ(trainer.updates(), updates_due(plan, trainer.step()));
  EXPECT_GT(trainer.updates(), before);
}

TEST(Precision, what_the_device_does_not_compute_is_refused_with_what_it_does) {
  try {
    place("cpu", 1, Precision::fp16);
    FAIL() << "was accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("it has fp32, bf16"), std::string::npos) << e.what();
  }
  EXPECT_EQ(place("cpu", 1, Precision::bf16).precision, Precision::bf16);
}

}  // namespace
}  // namespace maglev
