#include "base/env/entry.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev {
namespace {

TEST(EnvTable, lists_each_name_once_in_order) {
  std::vector<std::string> names;
  for (const auto& e : env_table()) names.emplace_back(e.name);
  ASSERT_FALSE(names.empty());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  for (const auto& name : names) EXPECT_EQ(find_env(name).name, name);
}

TEST(EnvTable, answers_an_unknown_name_with_near_ones) {
  try {
    find_env("cartpol");
    FAIL() << "an unknown name was found";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("'cartpol'"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("cartpole?"), std::string::npos) << e.what();
  }
}

TEST(EnvTable, says_how_an_environment_of_gymnasiums_is_named) {
  const auto answer = [](const char* name) -> std::string {
    try {
      find_env(name);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(answer("LunarLander-v3"),
            "[env] unknown environment 'LunarLander-v3'; as one of Gymnasium's it is two words: "
            "gymnasium env.id=LunarLander-v3");
  EXPECT_EQ(answer("CartPole-v1"),
            "[env] unknown environment 'CartPole-v1'; did you mean cartpole? As one of "
            "Gymnasium's it is two words: gymnasium env.id=CartPole-v1");
  EXPECT_EQ(answer("nothing-v").find("Gymnasium"), std::string::npos);
  EXPECT_NE(answer("pettingzoo").find("gymnasium env.id=pettingzoo:"), std::string::npos);
}

}  // namespace
}  // namespace maglev
