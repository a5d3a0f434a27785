#include "engine/train/fastest_precision.h"

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "engine/train/trainer.h"

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

TEST(Precision, one_that_the_algorithm_does_not_offer_is_refused_and_never_measured) {
  auto experiment = small();
  Placement placement = place("cpu", 1);
  const bool offered = Trainer(*experiment, placement).algorithm().plan().autocast;
  std::string why;
  fastest_precision(*experiment, placement, {Precision::fp32, Precision::bf16}, why);
  EXPECT_NE(why.find("fp32"), std::string::npos);
  EXPECT_EQ(why.find("bf16") != std::string::npos, offered) << why;
  placement.precision = Precision::bf16;
  if (offered) EXPECT_NO_THROW(Trainer(*experiment, placement));
  else EXPECT_THROW(Trainer(*experiment, placement), Error);
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
