#include "base/core/error.h"

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(Error, names_are_near_whatever_their_case_and_version) {
  const std::vector<std::string> known{"acrobot", "cartpole", "mountain_car", "pendulum", "hockey"};
  const std::pair<const char*, const char*> answers[] = {{"CartPole-v1", "cartpole"},
                                                         {"MountainCar-v0", "mountain_car"},
                                                         {"Pendulum-v1", "pendulum"},
                                                         {"Acrobot-v1", "acrobot"},
                                                         {"HOCKEY", "hockey"}};
  for (const auto& [given, meant] : answers) {
    const auto near = near_names(given, known);
    ASSERT_FALSE(near.empty()) << given;
    EXPECT_EQ(near[0], meant) << given;
  }
  EXPECT_EQ(near_names("TD-MPC2", {"ppo", "tdmpc2"}), std::vector<std::string>{"tdmpc2"});
}

}  // namespace
}  // namespace maglev
