#include "base/env/entry.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/env/check_spec.h"
#include "base/env/env_params.h"

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

TEST(EnvTable, what_is_done_has_names) {
  for (const char* env : {"goodhart", "minatar_breakout", "minatar_freeway", "cartpole", "acrobot",
                          "mountain_car", "foundry", "cartpole_pixels"}) {
    const EnvEntry& entry = find_env(env);
    const EnvSpec spec = entry.spec(EnvParams(entry, {}).get());
    EXPECT_EQ(int64_t(spec.action.names.size()), spec.action.categories()) << env;
    check_spec(spec, env);
  }
  const EnvEntry& grid = find_env("goodhart");
  const auto names = grid.spec(EnvParams(grid, {"env.max_move=2"}).get()).action.names;
  ASSERT_EQ(names.size(), 24u);
  EXPECT_EQ(names.front(), "up 2 left 2");
  EXPECT_EQ(names[11], "up");
  EXPECT_EQ(names.back(), "down 2 right 2");
}

TEST(EnvTable, who_is_judged_keeps_what_is_given) {
  const EnvEntry& grid = find_env("goodhart");
  const EnvParams proxy(grid, {"env.mode=proxy"}), truth(grid, {});
  const Judging judging = judging_of(grid, proxy.get(), {"env.width=64"});
  EXPECT_EQ(judging.settings, std::vector<std::string>{"env.energy=live"});
  EXPECT_EQ(judging.note, "judged with env.energy=live (as in training: env.energy=by_mode)");
  EXPECT_TRUE(judging_of(grid, proxy.get(), {"env.energy=by_mode"}).settings.empty());
  EXPECT_TRUE(judging_of(grid, truth.get(), {}).settings.empty());
  EXPECT_EQ(judging_of(grid, truth.get(), {}).note, "");
  const EnvEntry& pole = find_env("cartpole");
  EXPECT_TRUE(judging_of(pole, EnvParams(pole, {}).get(), {}).settings.empty());
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
