#include "engine/play/host_step.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/algo/experiment.h"

namespace maglev {
namespace {

// on a device: tests/train_proving_test.cpp
TEST(HostStep, shows_a_policy_on_a_processor_the_rows_themselves) {
  HostStep step(Experiment("ppo", "cartpole").spec(), {{.name = "log_prob"}}, 5, at::kCPU);
  EXPECT_EQ(step.rows(), 5);
  step.host().obs[0].fill_(7);
  TimeStep shown = step.shown(3);
  EXPECT_EQ(shown.rows(), 3);
  EXPECT_EQ(shown.obs[0].min().item<float>(), 7);
  shown.action.fill_(1), shown.extra[0].fill_(-2);
  step.bring_back(3);
  EXPECT_EQ(step.host().action.sum().item<int64_t>(), 3);
  EXPECT_EQ(step.host().extra[0].sum().item<float>(), -6);
}

}  // namespace
}  // namespace maglev
