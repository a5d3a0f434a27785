#include "envs/goodhart/seekers.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/env/host_envs.h"
#include "envs/goodhart/goodhart.h"

namespace maglev {
namespace {

const std::vector<std::pair<std::string, std::string>> kEmptyWorld{
    {"min_food", "0"}, {"max_food", "0"}, {"min_poison", "0"}, {"max_poison", "0"}};

/// One agent in the middle of an empty world, and what lies around it.
struct Meadow : HostEnvs {
  using Settings = std::vector<std::pair<std::string, std::string>>;
  explicit Meadow(const Settings& settings = {})
      : HostEnvs(find_env("goodhart"), 1, 1, with(settings)) {
    reset();
    here().x = here().y = 20;
  }
  static Settings with(const Settings& settings) {
    auto all = kEmptyWorld;
    all.insert(all.end(), settings.begin(), settings.end());
    return all;
  }
  Goodhart::State& here() { return state<Goodhart>(0); }
  const Goodhart::Params& params() const {
    return *static_cast<const Goodhart::Params*>(batch().params);
  }
  void put(int dx, int dy, uint32_t cell) {
    Goodhart::world_of(params(), here()).put({here().x + dx, here().y + dy}, cell);
  }
  /// The step that player `name` takes, as the environment understands its action.
  CellAt step_of(const std::string& name, uint64_t draw = 0) {
    const auto bots = find_env("goodhart").bots;
    const auto bot = std::ranges::find_if(bots, [&](const Bot& b) { return b.name == name; });
    // what the environment observes now
    std::vector<uint8_t> window(size_t(spec().observations[0].row_bytes()));
    float density[2];
    std::byte* columns[] = {reinterpret_cast<std::byte*>(window.data()),
                            reinterpret_cast<std::byte*>(density)};
    const int64_t row_bytes[] = {int64_t(window.size()), sizeof density};
    Goodhart::observe(params(), here(), 0, {columns, row_bytes, 0, nullptr});
    const std::byte* obs[] = {columns[0], columns[1]};
    Rng rng(3, 0, draw);
    bot->act({.params = batch().params,
              .state = nullptr,
              .obs = obs,
              .rng = rng,
              .discrete = actions_i32.data(),
              .continuous = nullptr});
    const std::vector<std::byte> before = save();
    const CellAt from{here().x, here().y};
    step();
    const CellAt moved{here().x - from.x, here().y - from.y};
    load(before);
    return moved;
  }
};

void expect_step(const CellAt& step, int dx, int dy) {
  EXPECT_EQ(step.x, dx);
  EXPECT_EQ(step.y, dy);
}

TEST(Seekers, the_omniscient_goes_to_the_nearest_food_whatever_is_interesting) {
  Meadow meadow;
  meadow.put(-4, -3, Goodhart::kFood);
  meadow.put(3, 0, Goodhart::kFood);
  meadow.put(0, -1, Goodhart::kPoison);
  expect_step(meadow.step_of("omniscient_seeker"), 1, 0);
}

TEST(Seekers, the_proxy_goes_to_the_most_interesting_the_first_in_rows_however_far) {
  Meadow meadow;
  meadow.put(1, 1, Goodhart::kFood);
  meadow.put(-4, -3, Goodhart::kFood);
  meadow.put(1, 0, Goodhart::kPoison);
  expect_step(meadow.step_of("proxy_seeker"), -1, -1);
  Meadow poisoned;
  poisoned.put(0, 2, Goodhart::kPoison);
  expect_step(poisoned.step_of("proxy_seeker"), 0, 1);
}

TEST(Seekers, see_a_circle) {
  for (const char* name : {"omniscient_seeker", "proxy_seeker"}) {
    Meadow meadow;
    meadow.put(5, 5, Goodhart::kFood);  // in the window, outside the circle
    std::set<std::pair<int, int>> steps;
    for (uint64_t draw = 0; draw < 100; ++draw) {
      const CellAt step = meadow.step_of(name, draw);
      steps.insert({step.x, step.y});
    }
    EXPECT_EQ(steps.size(), 8u) << name << " sees nothing, and goes anywhere";
  }
}

TEST(Seekers, the_omniscient_steps_around_poison) {
  Meadow diagonal;
  diagonal.put(3, 3, Goodhart::kFood);
  diagonal.put(1, 1, Goodhart::kPoison);
  expect_step(diagonal.step_of("omniscient_seeker"), 1, 0);
  diagonal.put(1, 0, Goodhart::kPoison);
  expect_step(diagonal.step_of("omniscient_seeker"), 0, 1);
  Meadow straight;
  straight.put(0, -3, Goodhart::kFood);
  straight.put(0, -1, Goodhart::kPoison);
  const CellAt step = straight.step_of("omniscient_seeker");
  EXPECT_EQ(step.y, -1);
  EXPECT_NE(step.x, 0);
}

TEST(Seekers, the_omniscient_never_steps_on_poison_where_there_is_another_way) {
  Meadow meadow;
  for (int dx = -1; dx <= 1; ++dx)
    for (int dy = -1; dy <= 1; ++dy)
      if ((dx || dy) && !(dx == 1 && dy == -1)) meadow.put(dx, dy, Goodhart::kPoison);
  for (uint64_t draw = 0; draw < 20; ++draw)
    expect_step(meadow.step_of("omniscient_seeker", draw), 1, -1);
  meadow.put(-3, 0, Goodhart::kFood);
  expect_step(meadow.step_of("omniscient_seeker"), 1, -1);
}

TEST(Seekers, the_proxy_does_not_go_where_interest_is_below_nothing) {
  Meadow meadow(Meadow::Settings{{"poison_interest", "-2"}});
  meadow.put(0, 1, Goodhart::kPoison);
  std::set<std::pair<int, int>> steps;
  for (uint64_t draw = 0; draw < 100; ++draw) {
    const CellAt step = meadow.step_of("proxy_seeker", draw);
    steps.insert({step.x, step.y});
  }
  EXPECT_EQ(steps.size(), 8u);
}

TEST(Seekers, move_as_the_environment_does_whatever_its_farthest_move) {
  for (const char* farthest : {"1", "2", "4"}) {
    Meadow meadow({{"max_move", farthest}, {"view", "7"}});
    meadow.put(-6, 2, Goodhart::kFood);
    expect_step(meadow.step_of("omniscient_seeker"), -1, 1);
    expect_step(meadow.step_of("proxy_seeker"), -1, 1);
  }
}

}  // namespace
}  // namespace maglev
