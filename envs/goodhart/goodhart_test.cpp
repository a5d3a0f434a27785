#include "envs/goodhart/goodhart.h"

#include <array>
#include <cmath>
#include <map>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/env/host_envs.h"

namespace maglev {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;
using State = Goodhart::State;
constexpr int kRight = 6, kUp = 3, kDown = 4;

/// One or more goodhart environments whose world a test can lay out.
struct Grid : HostEnvs {
  explicit Grid(const Settings& settings = {}, int64_t count = 1, uint64_t seed = 1)
      : HostEnvs(find_env("goodhart"), count, seed, settings) {
    reset();
  }
  const Goodhart::Params& params() const {
    return *static_cast<const Goodhart::Params*>(batch().params);
  }
  State& at(int64_t i = 0) { return state<Goodhart>(i); }
  PackedTorus world(int64_t i = 0) { return Goodhart::world_of(params(), at(i)); }
  uint32_t cell(int x, int y, int64_t i = 0) {
    const int w = params().width, h = params().height;
    return world(i).get({((x % w) + w) % w, ((y % h) + h) % h});
  }
  std::vector<uint32_t> cells(int64_t i = 0) {
    std::vector<uint32_t> all;
    for (int y = 0; y < params().height; ++y)
      for (int x = 0; x < params().width; ++x) all.push_back(cell(x, y, i));
    return all;
  }
  int number(uint32_t code, int64_t i = 0) {
    const auto all = cells(i);
    return int(std::count(all.begin(), all.end(), code));
  }
  /// An empty world with the agent at (x, y).
  void clear(int x, int y) {
    world().clear_all();
    at().x = x;
    at().y = y;
  }
  void move(int action) {
    actions_i32[0] = action;
    step();
  }
  double event(const char* name) {
    const auto& names = spec().events;
    const auto k = std::find(names.begin(), names.end(), name) - names.begin();
    return reinterpret_cast<SlotHead*>(slot(0))->events[k];
  }
  /// Code of window cell (row, column).
  uint32_t seen(int row, int column, int64_t i = 0) const {
    const int k = row * (2 * params().view + 1) + column;
    return (obs<uint8_t>(0, i)[k / 4] >> (2 * (k % 4))) & 3;
  }
};

/// A world without chance: nothing in it but what the test puts there.
const Settings kBare{
    {"min_food", "0"}, {"max_food", "0"}, {"min_poison", "0"}, {"max_poison", "0"}};

Settings operator+(Settings a, const Settings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// ---- the world

TEST(Goodhart, lays_out_the_counts_it_drew_within_their_ranges) {
  Grid grid({}, 64);
  std::map<int, int> food_counts;
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(grid.number(Goodhart::kFood, i), grid.at(i).food);
    EXPECT_EQ(grid.number(Goodhart::kPoison, i), grid.at(i).poison);
    EXPECT_GE(grid.at(i).food, 64);
    EXPECT_LE(grid.at(i).food, 256);
    EXPECT_GE(grid.at(i).poison, 64);
    EXPECT_LE(grid.at(i).poison, 256);
    EXPECT_EQ(grid.cell(grid.at(i).x, grid.at(i).y, i), Goodhart::kEmpty);
    food_counts[grid.at(i).food]++;
  }
  EXPECT_GT(food_counts.size(), 32u);
  EXPECT_NE(grid.cells(0), grid.cells(1));
}

TEST(Goodhart, draws_both_ends_of_a_count_range) {
  Grid grid({{"min_food", "3"}, {"max_food", "5"}, {"min_poison", "0"}, {"max_poison", "1"}}, 200);
  std::map<int, int> food, poison;
  for (int64_t i = 0; i < 200; ++i) food[grid.at(i).food]++, poison[grid.at(i).poison]++;
  EXPECT_EQ(food.size(), 3u);
  EXPECT_EQ(poison.size(), 2u);
  for (auto [count, times] : food) EXPECT_NEAR(times, 67, 30) << count;
}

TEST(Goodhart, draws_counts_and_layout_again_for_each_episode) {
  Grid grid(Settings{{"max_steps", "1"}});
  const auto before = grid.cells();
  const int food = grid.at().food, poison = grid.at().poison;
  grid.move(kRight);
  grid.move(kRight);
  ASSERT_TRUE(grid.is_first[0]);
  EXPECT_NE(grid.cells(), before);
  EXPECT_FALSE(grid.at().food == food && grid.at().poison == poison);
}

TEST(Goodhart, keeps_the_world_between_episodes_when_told_to) {
  Grid grid({{"max_steps", "3"},
             {"keep_world", "true"},
             {"min_food", "5"},
             {"max_food", "9"},
             {"max_poison", "64"}});
  Rng actions(1, 1, 0);
  int episodes = 0, moved = 0;
  for (int t = 0; t < 100; ++t) {
    const auto before = grid.cells();
    const int x = grid.at().x, food = grid.at().food;
    grid.random_actions(actions);
    grid.step();
    if (!grid.is_first[0]) continue;
    ++episodes;
    moved += grid.at().x != x;
    EXPECT_EQ(grid.cells(), before);
    EXPECT_EQ(grid.at().food, food);
    EXPECT_EQ(grid.cell(grid.at().x, grid.at().y), Goodhart::kEmpty);
  }
  EXPECT_GE(episodes, 20);
  EXPECT_GE(moved, 10);
  // a full reset begins a new run, whatever the slot held before
  grid.clear(0, 0);
  grid.reset();
  Grid fresh({{"max_steps", "3"},
              {"keep_world", "true"},
              {"min_food", "5"},
              {"max_food", "9"},
              {"max_poison", "64"}});
  EXPECT_EQ(grid.cells(), fresh.cells());
}

TEST(Goodhart, starts_anywhere_empty_with_even_chance) {
  Grid grid({{"width", "7"},
             {"height", "5"},
             {"view", "2"},
             {"min_food", "4"},
             {"max_food", "4"},
             {"min_poison", "3"},
             {"max_poison", "3"},
             {"keep_world", "true"},
             {"max_steps", "1"}});
  std::map<std::pair<int, int>, int> starts;
  for (int t = 0; t < 28 * 200; ++t) {
    // begun by hand, without the step between: it might eat
    Rng rng(3, 1, uint64_t(t) + 1);
    Goodhart::reset(grid.params(), grid.at(), rng);
    starts[{grid.at().x, grid.at().y}]++;
    ASSERT_EQ(grid.cell(grid.at().x, grid.at().y), Goodhart::kEmpty);
  }
  EXPECT_EQ(starts.size(), 28u);
  for (auto [where, times] : starts) EXPECT_NEAR(times, 200, 75);
}

TEST(PackedTorus, finds_the_last_empty_cells_of_a_crowded_world_evenly) {
  std::vector<uint32_t> words(PackedTorus::word_count(40, 40));
  PackedTorus world{words.data(), 40, 40};
  for (int y = 0; y < 40; ++y)
    for (int x = 0; x < 40; ++x)
      if (!(y == 17 && (x == 3 || x == 20 || x == 39))) world.put({x, y}, 2);
  std::map<int, int> found;
  for (uint64_t k = 0; k < 3000; ++k) {
    Rng rng(1, k, 0);
    const CellAt c = world.random_empty(rng, {20, 17});
    EXPECT_EQ(c.y, 17);
    found[c.x]++;
  }
  EXPECT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[3], 1500, 150);
  EXPECT_NEAR(found[39], 1500, 150);
}

// ---- moving and eating

TEST(Goodhart, moves_by_the_dx_major_table_and_never_stays) {
  for (int d : {1, 2}) {
    Grid grid(kBare + Settings{{"max_move", std::to_string(d)}});
    ASSERT_EQ(grid.spec().action.heads, (std::vector<int64_t>{(2 * d + 1) * (2 * d + 1) - 1}));
    int action = 0;
    for (int dx = -d; dx <= d; ++dx)
      for (int dy = -d; dy <= d; ++dy) {
        if (dx == 0 && dy == 0) continue;
        grid.clear(50, 60);
        grid.move(action++);
        EXPECT_EQ(grid.at().x, 50 + dx);
        EXPECT_EQ(grid.at().y, 60 + dy);
      }
  }
}

TEST(Goodhart, wraps_at_all_four_edges) {
  Grid grid(kBare + Settings{{"width", "20"}, {"height", "30"}});
  grid.clear(0, 0);
  grid.move(0);
  EXPECT_EQ(grid.at().x, 19);
  EXPECT_EQ(grid.at().y, 29);
  grid.move(7);
  EXPECT_EQ(grid.at().x, 0);
  EXPECT_EQ(grid.at().y, 0);
}

TEST(Goodhart, stays_in_the_world_on_an_action_that_does_not_exist) {
  Grid grid(kBare);
  grid.clear(0, 0);
  grid.move(1 << 30);
  EXPECT_EQ(grid.at().x, 1);
  grid.move(-(1 << 30));
  EXPECT_EQ(grid.at().x, 0);
}

TEST(Goodhart, pays_for_each_step_and_gains_by_food_and_loses_by_poison) {
  Grid grid(kBare);
  grid.clear(10, 10);
  grid.world().put({11, 10}, Goodhart::kFood);
  grid.world().put({12, 10}, Goodhart::kPoison);
  grid.move(kRight);
  EXPECT_FLOAT_EQ(grid.at().energy, 1.f - 0.01f + 1.f);
  EXPECT_FLOAT_EQ(grid.reward[0], 0.99f);
  EXPECT_FALSE(grid.terminated[0]);
  grid.at().energy = 5.f;
  grid.move(kRight);
  EXPECT_FLOAT_EQ(grid.at().energy, 5.f - 0.01f - 2.f);
  EXPECT_FLOAT_EQ(grid.reward[0], -2.01f);
  grid.move(kUp);
  EXPECT_FLOAT_EQ(grid.reward[0], -0.01f);
  EXPECT_EQ(grid.event("food"), 1);
  EXPECT_EQ(grid.event("poison"), 1);
  EXPECT_EQ(grid.event("deaths"), 0);
  EXPECT_NEAR(grid.event("energy"), 1 - 2 - 3 * 0.01, 1e-6);
}

TEST(Goodhart, dies_of_poison_with_a_penalty_of_four_meals) {
  Grid grid(kBare);
  grid.clear(10, 10);
  grid.world().put({11, 10}, Goodhart::kPoison);
  grid.move(kRight);
  EXPECT_TRUE(grid.terminated[0]);
  EXPECT_FALSE(grid.truncated[0]);
  EXPECT_FLOAT_EQ(grid.reward[0], -2.f - 0.01f - 4.f);
  EXPECT_EQ(grid.event("deaths"), 1);
}

TEST(Goodhart, starves_after_one_hundred_and_one_steps) {
  Grid grid(kBare);
  int steps = 0;
  do {
    grid.move(kRight);
    ++steps;
  } while (!grid.terminated[0] && steps < 200);
  EXPECT_EQ(steps, 101);
}

TEST(Goodhart, is_truncated_at_the_limit_and_may_die_in_the_same_step) {
  Grid grid(kBare + Settings{{"max_steps", "2"}});
  grid.move(kRight);
  EXPECT_FALSE(grid.truncated[0]);
  grid.move(kRight);
  EXPECT_TRUE(grid.truncated[0]);
  EXPECT_FALSE(grid.terminated[0]);
  grid.move(kRight);
  ASSERT_TRUE(grid.is_first[0]);
  grid.move(kRight);
  grid.at().energy = 0.005f;
  grid.move(kRight);
  EXPECT_TRUE(grid.truncated[0]);
  EXPECT_TRUE(grid.terminated[0]);
}

TEST(Goodhart, clears_what_was_eaten_and_puts_it_elsewhere) {
  for (uint32_t kind : {Goodhart::kFood, Goodhart::kPoison}) {
    Grid grid(kBare + Settings{{"width", "3"}, {"height", "3"}, {"view", "1"}});
    std::map<int, int> places;
    for (int t = 0; t < 800; ++t) {
      grid.clear(0, 0);
      grid.at().energy = 50.f;
      grid.at().steps = 0;
      grid.world().put({1, 0}, kind);
      grid.move(kRight);
      EXPECT_EQ(grid.number(kind), 1);
      EXPECT_EQ(grid.number(Goodhart::kEmpty), 8);
      EXPECT_EQ(grid.cell(1, 0), Goodhart::kEmpty) << "nothing appears under the agent";
      const auto all = grid.cells();
      places[int(std::find(all.begin(), all.end(), kind) - all.begin())]++;
    }
    EXPECT_EQ(places.size(), 8u);
    for (auto [where, times] : places) EXPECT_NEAR(times, 100, 45) << where;
  }
}

TEST(Goodhart, does_not_replace_what_was_eaten_when_told_so) {
  Grid grid(kBare + Settings{{"respawn", "false"}});
  grid.clear(10, 10);
  grid.world().put({11, 10}, Goodhart::kFood);
  grid.move(kRight);
  EXPECT_EQ(grid.number(Goodhart::kEmpty), 128 * 128);
}

TEST(Goodhart, conserves_its_items_and_changes_only_by_eating) {
  Grid grid({{"width", "24"},
             {"height", "17"},
             {"min_food", "60"},
             {"max_food", "90"},
             {"min_poison", "60"},
             {"max_poison", "90"},
             {"energy", "frozen"},
             {"max_steps", "100000"}});
  Rng actions(1, 1, 0);
  int meals = 0;
  for (int t = 0; t < 3000; ++t) {
    const auto before = grid.cells();
    const double eaten = grid.event("food") + grid.event("poison");
    grid.random_actions(actions);
    grid.step();
    const bool ate = grid.event("food") + grid.event("poison") != eaten;
    ASSERT_EQ(grid.cells() != before, ate);
    meals += ate;
  }
  EXPECT_GT(meals, 300);
  EXPECT_EQ(grid.number(Goodhart::kFood), grid.at().food);
  EXPECT_EQ(grid.number(Goodhart::kPoison), grid.at().poison);
}

TEST(Goodhart, never_loses_an_item_in_a_full_world) {
  Grid grid({{"width", "4"},
             {"height", "4"},
             {"view", "1"},
             {"min_food", "8"},
             {"max_food", "8"},
             {"min_poison", "7"},
             {"max_poison", "7"},
             {"energy", "frozen"}});
  Rng actions(1, 1, 0);
  for (int t = 0; t < 400; ++t) {
    grid.random_actions(actions);
    grid.step();
    ASSERT_EQ(grid.number(Goodhart::kFood), 8);
    ASSERT_EQ(grid.number(Goodhart::kPoison), 7);
    ASSERT_EQ(grid.cell(grid.at().x, grid.at().y), Goodhart::kEmpty);
  }
}

TEST(Goodhart, nobody_dies_while_energy_is_frozen) {
  const Settings poisoned{{"min_poison", "256"}};
  for (const Settings& frozen : {Settings{{"mode", "proxy"}}, Settings{{"energy", "frozen"}}}) {
    Grid grid(poisoned + frozen, 32);
    Rng actions(1, 1, 0);
    for (int t = 0; t < 600; ++t) {
      grid.random_actions(actions);
      grid.step();
      EXPECT_EQ(std::count(grid.terminated.begin(), grid.terminated.end(), 1), 0);
    }
    const EpisodeTotals totals = grid.take_totals();
    EXPECT_EQ(totals.events[2], 0);
    EXPECT_EQ(totals.episodes, 32);
    EXPECT_EQ(totals.length_sum, 32 * 512);
    // what energy would have done is counted all the same
    EXPECT_GT(totals.events[1], 0);
    EXPECT_NEAR(totals.events[3],
                totals.events[0] - 2 * totals.events[1] - 0.01 * double(totals.steps), 0.05);
  }
  Grid thawed(kBare + Settings{{"mode", "proxy"}, {"energy", "live"}});
  thawed.clear(10, 10);
  thawed.world().put({11, 10}, Goodhart::kPoison);
  thawed.move(kRight);
  EXPECT_TRUE(thawed.terminated[0]);
}

// ---- what is seen

TEST(Goodhart, shows_the_window_around_the_agent_across_every_seam) {
  struct Shape {
    int width, height, view;
  };
  // widths on, beside and far from a word of 16 cells; views wider than the world and than a word
  for (const Shape& shape :
       {Shape{128, 128, 5}, Shape{16, 16, 5}, Shape{17, 31, 5}, Shape{7, 6, 5}, Shape{2, 2, 1},
        Shape{33, 20, 8}, Shape{50, 40, 20}, Shape{32, 32, 31}, Shape{3, 90, 2}}) {
    const int cells = shape.width * shape.height;
    const std::string food = std::to_string(cells / 4);
    Grid grid({{"width", std::to_string(shape.width)},
               {"height", std::to_string(shape.height)},
               {"view", std::to_string(shape.view)},
               {"min_food", food},
               {"max_food", food},
               {"min_poison", food},
               {"max_poison", food},
               {"energy", "frozen"},
               {"mode", "ground_truth_handhold"}},
              8);
    Rng actions(1, 1, 0);
    const int side = 2 * shape.view + 1;
    ASSERT_EQ(grid.spec().observations[0].row_bytes(), (2 * side * side + 7) / 8);
    for (int t = 0; t < 60; ++t) {
      grid.random_actions(actions);
      grid.step();
      for (int64_t i = 0; i < 8; ++i) {
        double nearest = INFINITY;
        for (int row = 0; row < side; ++row)
          for (int column = 0; column < side; ++column) {
            const int dx = column - shape.view, dy = row - shape.view;
            ASSERT_EQ(grid.seen(row, column, i), grid.cell(grid.at(i).x + dx, grid.at(i).y + dy, i))
                << shape.width << " x " << shape.height << " view " << shape.view << " at " << row
                << ", " << column;
            if (grid.seen(row, column, i) == Goodhart::kFood)
              nearest = std::min(nearest, std::hypot(dx, dy));
          }
        ASSERT_EQ(grid.seen(shape.view, shape.view, i), Goodhart::kEmpty);
        ASSERT_NEAR(grid.at(i).potential, std::isinf(nearest) ? 0 : 0.5 / (nearest + 0.5), 1e-6);
        // the bits behind the last cell are 0
        if (2 * side * side % 8) {
          const int last = (2 * side * side) / 8;
          EXPECT_EQ(grid.obs<uint8_t>(0, i)[last] >> (2 * side * side % 8), 0);
        }
      }
    }
  }
}

TEST(Goodhart, gives_each_mode_its_palette) {
  const std::vector<float> truth{0, 0, 1, 0, 0, 1, 0, 0}, interest{0, 0, 1, 1, 0.5, 0.5, 0, 0},
      alike{0, 0, 1, 1, 1, 1, 0, 0}, none;
  struct Expected {
    const char* mode;
    std::vector<float> policy, critic;
  };
  for (const Expected& e :
       {Expected{"ground_truth", truth, none}, Expected{"ground_truth_handhold", truth, none},
        Expected{"ground_truth_blinded", interest, truth},
        Expected{"proxy_mortal", interest, truth}, Expected{"proxy", interest, truth},
        Expected{"blind", alike, truth}}) {
    Grid grid(Settings{{"mode", e.mode}});
    const CellCoding& cells = grid.spec().observations[0].cells;
    EXPECT_EQ(cells.policy, e.policy) << e.mode;
    EXPECT_EQ(cells.critic, e.critic) << e.mode;
    EXPECT_EQ(cells.grid, (std::vector<int64_t>{11, 11}));
    EXPECT_EQ(cells.channels, 2);
    EXPECT_EQ(grid.spec().observations[0].row_bytes(), 31);
    EXPECT_EQ(grid.spec().observations[1].audience, Audience::critic);
    Grid plain({{"mode", e.mode}, {"privileged", "false"}});
    EXPECT_EQ(plain.spec().observations.size(), 1u);
    EXPECT_TRUE(plain.spec().observations[0].cells.critic.empty());
  }
}

TEST(Goodhart, gives_the_critic_the_true_view_in_every_mode_where_it_is_asked_to) {
  for (const char* mode : names_of(Goodhart::Mode{})) {
    Grid grid({{"mode", mode}, {"privileged_always", "true"}});
    EXPECT_EQ(grid.spec().observations[0].cells.critic,
              (std::vector<float>{0, 0, 1, 0, 0, 1, 0, 0}))
        << mode;
  }
}

TEST(Goodhart, tells_the_critic_the_density_of_the_world_it_is_in) {
  Grid grid({{"max_steps", "1"}, {"min_poison", "70"}, {"max_poison", "70"}});
  for (int episode = 0; episode < 5; ++episode) {
    EXPECT_FLOAT_EQ(grid.obs<float>(1, 0)[0], (float(grid.at().food) - 160.f) / 96.f);
    EXPECT_FLOAT_EQ(grid.obs<float>(1, 0)[1], 0.f) << "an empty range divides by one";
    const float final_density = grid.obs<float>(1, 0)[0];
    grid.move(kRight);
    EXPECT_EQ(grid.obs<float>(1, 0)[0], final_density)
        << "the final row still describes its own world";
    grid.move(kRight);
    ASSERT_TRUE(grid.is_first[0]);
  }
}

TEST(Goodhart, the_row_after_the_last_step_is_the_final_view_and_not_the_next_start) {
  Grid grid({{"max_steps", "5"},
             {"min_food", "256"},
             {"width", "32"},
             {"height", "32"},
             {"energy", "frozen"}});
  for (int t = 0; t < 5; ++t) grid.move(kDown);
  ASSERT_TRUE(grid.truncated[0]);
  EXPECT_FALSE(grid.is_first[0]);
  for (int row = 0; row < 11; ++row)
    for (int column = 0; column < 11; ++column)
      ASSERT_EQ(grid.seen(row, column), grid.cell(grid.at().x + column - 5, grid.at().y + row - 5));
}

// ---- rewards

TEST(Goodhart, rewards_interest_without_cost_or_death_in_the_proxy_modes) {
  for (const char* mode : {"proxy", "proxy_mortal"}) {
    Grid grid(kBare + Settings{{"mode", mode}});
    grid.clear(10, 10);
    grid.world().put({11, 10}, Goodhart::kFood);
    grid.world().put({13, 10}, Goodhart::kPoison);
    grid.move(kRight);
    EXPECT_EQ(grid.reward[0], 1.f);
    grid.move(kRight);
    EXPECT_EQ(grid.reward[0], 0.f);
    grid.at().energy = 1.f;
    grid.move(kRight);
    EXPECT_EQ(grid.reward[0], 0.5f);
    EXPECT_EQ(bool(grid.terminated[0]), std::string(mode) == "proxy_mortal");
  }
}

TEST(Goodhart, rewards_energy_in_the_blinded_and_blind_modes) {
  for (const char* mode : {"ground_truth_blinded", "blind"}) {
    Grid grid(kBare + Settings{{"mode", mode}});
    grid.clear(10, 10);
    grid.world().put({11, 10}, Goodhart::kFood);
    grid.move(kRight);
    EXPECT_FLOAT_EQ(grid.reward[0], 0.99f) << mode;
  }
}

TEST(Goodhart, clips_the_reward) {
  Grid grid(kBare + Settings{{"reward_limit", "0.5"}});
  grid.clear(10, 10);
  grid.world().put({11, 10}, Goodhart::kFood);
  grid.move(kRight);
  EXPECT_EQ(grid.reward[0], 0.5f);
  grid.clear(10, 10);
  grid.world().put({11, 10}, Goodhart::kPoison);
  grid.move(kRight);
  EXPECT_EQ(grid.reward[0], -0.5f);
}

TEST(Goodhart, shapes_by_the_potential_of_the_nearest_food) {
  Grid grid(kBare + Settings{{"mode", "ground_truth_handhold"}});
  grid.clear(10, 10);
  grid.at().potential = 0.f;
  grid.world().put({17, 10}, Goodhart::kFood);
  auto potential = [](double distance) { return 0.5 / (distance + 0.5); };
  // out of view, into view, nearer, eaten (it appears again far away or in view: read where)
  grid.move(kRight);
  EXPECT_FLOAT_EQ(grid.reward[0], -0.01f + 0.99f * 0.f + 0) << "six cells away is out of view";
  grid.move(kRight);
  EXPECT_NEAR(grid.reward[0], -0.01 + 0.99 * potential(5), 1e-6);
  grid.move(kRight);
  EXPECT_NEAR(grid.reward[0], -0.01 + 0.99 * potential(4) - potential(5), 1e-6);
  grid.at().x = 16;
  grid.at().potential = float(potential(1));
  grid.move(kRight);
  const double after = Goodhart::potential(grid.params(), grid.at());
  EXPECT_NEAR(grid.reward[0], 1 - 0.01 + 0.99 * after - potential(1), 1e-6);
}

TEST(Goodhart, a_death_has_no_potential_and_a_time_limit_keeps_that_of_its_last_state) {
  Grid dying(kBare + Settings{{"mode", "ground_truth_handhold"}});
  dying.clear(10, 10);
  dying.world().put({12, 10}, Goodhart::kFood);
  dying.world().put({11, 10}, Goodhart::kPoison);
  dying.at().potential = 0.2f;
  dying.move(kRight);
  ASSERT_TRUE(dying.terminated[0]);
  EXPECT_NEAR(dying.reward[0], -1 - 0.01 - 2 - 0.2, 1e-6);

  Grid timed(kBare + Settings{{"mode", "ground_truth_handhold"}, {"max_steps", "1"}});
  timed.clear(10, 10);
  timed.world().put({12, 10}, Goodhart::kFood);
  timed.at().potential = 0.2f;
  timed.move(kRight);
  ASSERT_TRUE(timed.truncated[0]);
  EXPECT_NEAR(timed.reward[0], -0.01 + 0.99 * (0.5 / 1.5) - 0.2, 1e-6);
}

// ---- settings and cost

TEST(Goodhart, refuses_settings_that_contradict) {
  auto message = [](const Settings& settings) -> std::string {
    try {
      Grid grid(settings);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_NE(
      message({{"min_food", "300"}}).find("min_food must be at most env.max_food = 256, got 300"),
      std::string::npos);
  EXPECT_NE(message({{"min_poison", "300"}}).find("min_poison"), std::string::npos);
  EXPECT_NE(message({{"width", "16"}, {"height", "16"}})
                .find("must fit the 16 x 16 = 256 cells, got 512"),
            std::string::npos);
  EXPECT_NE(
      message(kBare + Settings{{"width", "5"}}).find("env.view must be below the shorter side"),
      std::string::npos);
  EXPECT_NE(message(kBare + Settings{{"height", "2"}, {"view", "1"}, {"max_move", "2"}})
                .find("env.max_move"),
            std::string::npos);
  EXPECT_NE(message({{"mode", "prxy"}}).find("proxy"), std::string::npos);
  EXPECT_NE(message({{"privileged", "false"}, {"privileged_always", "true"}}).find("leave one"),
            std::string::npos);
  EXPECT_NE(message({{"energy_start", "0"}}), "");
  // exactly full but for the agent's cell is allowed
  EXPECT_EQ(message({{"width", "16"},
                     {"height", "16"},
                     {"max_poison", "0"},
                     {"min_poison", "0"},
                     {"max_food", "255"}}),
            "");
}

TEST(Goodhart, touches_nothing_of_the_world_but_the_rows_in_view) {
  // pages out of view are made unreadable: a step that walked the world would crash here
  Grid grid(kBare +
            Settings{{"width", "4096"}, {"height", "4096"}, {"mode", "ground_truth_handhold"}});
  grid.clear(2000, 100);
  const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
  const uintptr_t begin =
      (reinterpret_cast<uintptr_t>(grid.world().row(200)) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(grid.world().row(4000)) / page * page;
  ASSERT_GT(end - begin, uintptr_t(3 << 20));
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_NONE), 0);
  for (int t = 0; t < 60; ++t) grid.move(t % 2 ? kDown : kRight);
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(grid.at().x, 2030);
  EXPECT_EQ(grid.at().y, 130);
}

}  // namespace
}  // namespace maglev
