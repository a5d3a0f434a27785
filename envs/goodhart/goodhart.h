#pragma once
// The Goodhart grid: an agent forages on a torus where food gives energy and poison takes it, and
// the mode says whether it sees, and is rewarded for, the truth or an "interestingness" that both
// share. Starving or eating poison kills.
//
// A step costs O(window + events): nothing walks the world but a reset, which clears its packed
// words. Observation columns: `window`, the 2-bit cell codes of the view (what the policy makes of
// them is the mode's palette; the critic's palette is the truth), and `density` for the critic: how
// much food and poison this world holds. Both are written for the same state, so the privileged
// view never lags.

#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/env/env.h"
#include "envs/goodhart/packed_torus.h"
#include "envs/goodhart/paint.h"
#include "envs/goodhart/seekers.h"

namespace maglev {

struct Goodhart {
  static constexpr const char* kSummary =
      "forage on a torus with true or proxy observations and rewards";

  /// Observation and reward of each mode:
  ///   ground_truth           truth                       energy
  ///   ground_truth_blinded   interestingness             energy
  ///   proxy_mortal           interestingness             interestingness
  ///   proxy                  interestingness             the same; energy frozen, no deaths
  ///   ground_truth_handhold  truth                       shaped towards the nearest food
  ///   blind                  food and poison look alike  energy
  enum class Mode : int32_t { truth, blinded, proxy_mortal, proxy, handhold, blind };
  friend constexpr auto names_of(Mode) {
    return std::array{"ground_truth", "ground_truth_blinded",  "proxy_mortal",
                      "proxy",        "ground_truth_handhold", "blind"};
  }
  enum class Energy : int32_t { by_mode, live, frozen };
  friend constexpr auto names_of(Energy) { return std::array{"by_mode", "live", "frozen"}; }
  /// kLost: poison as it is learned from with uint8_rollout; never in a world.
  enum Cell : uint32_t { kEmpty, kFood, kPoison, kLost };

  struct Params {
    Mode mode = Mode::truth;
    int32_t width = 128, height = 128;
    int32_t view = 5, max_move = 1, max_steps = 512;
    int32_t min_food = 64, max_food = 256, min_poison = 64, max_poison = 256;
    bool respawn = true, keep_world = false, privileged = true, privileged_always = false;
    bool uint8_rollout = false;
    Energy energy = Energy::by_mode;
    float energy_start = 1.f, move_cost = 0.01f, food_energy = 1.f, poison_energy = -2.f;
    float food_interest = 1.f, poison_interest = 0.5f;
    float death_penalty_ratio = 4.f, reward_limit = 20.f;
    float handhold_food = 1.f, handhold_poison = -1.f, handhold_death = -2.f;
    float shaping_gamma = 0.99f, shaping_scale = 0.5f, shaping_offset = 0.5f;

    static void describe(OptionTable& t, Params& p) {
      t.add("mode", p.mode, "what is seen and rewarded");
      t.add("width", p.width, "columns of the torus", {.min = 2, .max = 4096, .unit = "cells"});
      t.add("height", p.height, "rows of the torus", {.min = 2, .max = 4096, .unit = "cells"});
      t.add("view", p.view, "radius of the square view", {.min = 1, .max = 31, .unit = "cells"});
      t.add("max_move", p.max_move, "farthest move along each axis; (2d+1)^2-1 actions",
            {.min = 1, .max = 15, .unit = "cells"});
      t.add("max_steps", p.max_steps, "episode limit", {.min = 1, .max = 1e9, .unit = "steps"});
      t.add("min_food", p.min_food, "least food of an episode's world", {.min = 0, .max = 1e7});
      t.add("max_food", p.max_food, "most food of an episode's world", {.min = 0, .max = 1e7});
      t.add("min_poison", p.min_poison, "least poison of an episode's world",
            {.min = 0, .max = 1e7});
      t.add("max_poison", p.max_poison, "most poison of an episode's world",
            {.min = 0, .max = 1e7});
      t.add("respawn", p.respawn, "what is eaten appears again elsewhere");
      t.add("keep_world", p.keep_world,
            "keep counts and layout between episodes, move only the agent");
      t.add("privileged", p.privileged, "give the critic the true view and the densities");
      t.add("privileged_always", p.privileged_always,
            "give the critic the true view besides where the policy sees the truth too, as the "
            "original trainer does");
      t.add(
          "uint8_rollout", p.uint8_rollout,
          "learn from what a buffer of whole numbers would keep: poison of 0.5 is seen as 0.5 and "
          "learned from as 0, as the original trainer does");
      t.add("energy", p.energy,
            "whether energy changes and its lack kills; proxy freezes it by mode");
      t.add("energy_start", p.energy_start, "energy at the start of an episode",
            {.min = 1e-6, .max = 1e6});
      t.add("move_cost", p.move_cost, "energy of one step", {.min = 0, .max = 1e3});
      t.add("food_energy", p.food_energy, "energy gained by food", {.min = 0, .max = 1e3});
      t.add("poison_energy", p.poison_energy, "energy gained by poison", {.min = -1e3, .max = 0});
      t.add("food_interest", p.food_interest, "interestingness of food", {.min = -100, .max = 100});
      t.add("poison_interest", p.poison_interest, "interestingness of poison",
            {.min = -100, .max = 100});
      t.add("death_penalty_ratio", p.death_penalty_ratio,
            "penalty of death in the energy reward, times food_energy", {.min = 0, .max = 1e3});
      t.add("reward_limit", p.reward_limit, "rewards are clipped to plus and minus this",
            {.min = 1e-3, .max = 1e6});
      t.add("handhold_food", p.handhold_food, "shaped reward of food", {.min = -100, .max = 100});
      t.add("handhold_poison", p.handhold_poison, "shaped reward of poison",
            {.min = -100, .max = 100});
      t.add("handhold_death", p.handhold_death, "shaped reward of death",
            {.min = -100, .max = 100});
      t.add("shaping_gamma", p.shaping_gamma,
            "discount of the potential; a new run takes its algorithm's where nobody gives it",
            {.min = 0, .max = 1, .discount = true});
      t.add("shaping_scale", p.shaping_scale, "potential is scale / (distance to food + offset)",
            {.min = 0, .max = 100});
      t.add("shaping_offset", p.shaping_offset, "see shaping_scale", {.min = 1e-3, .max = 100});
    }

    static std::string idle(const Params& p, std::string_view name) {
      const bool shapes = name.starts_with("shaping_") || name.starts_with("handhold_");
      return shapes && p.mode != Mode::handhold ? "it is of env.mode=ground_truth_handhold" : "";
    }

    MAGLEV_HD bool live() const {
      return energy == Energy::live || (energy == Energy::by_mode && mode != Mode::proxy);
    }
    /// What a policy does to its energy shows where that is live.
    static std::vector<std::string> judged_with(const Params& p) {
      return p.live() ? std::vector<std::string>{} : std::vector<std::string>{"energy=live"};
    }

    static void check(const Params& p) {
      auto text = [](int64_t n) { return std::to_string(n); };
      if (p.min_food > p.max_food)
        throw Error("[env] env.min_food must be at most env.max_food = " + text(p.max_food) +
                    ", got " + text(p.min_food));
      if (p.min_poison > p.max_poison)
        throw Error("[env] env.min_poison must be at most env.max_poison = " + text(p.max_poison) +
                    ", got " + text(p.min_poison));
      const int64_t cells = int64_t(p.width) * p.height, items = int64_t(p.max_food) + p.max_poison;
      if (items + 1 > cells)
        throw Error("[env] env.max_food + env.max_poison and the agent must fit the " +
                    text(p.width) + " x " + text(p.height) + " = " + text(cells) + " cells, got " +
                    text(items) + " items; lower them or enlarge the world");
      if (p.privileged_always && !p.privileged)
        throw Error(
            "[env] env.privileged_always gives the critic more where it is given the truth at all, "
            "and env.privileged is false; leave one of them as it is");
      if (p.uint8_rollout && p.food_interest != std::trunc(p.food_interest))
        throw Error(
            "[env] env.uint8_rollout wants env.food_interest whole, so that only poison is "
            "lost, got " +
            std::to_string(p.food_interest));
      const int32_t side = p.width < p.height ? p.width : p.height;
      if (p.view >= side)
        throw Error("[env] env.view must be below the shorter side of the world, " + text(side) +
                    ", got " + text(p.view));
      if (p.max_move >= side)
        throw Error("[env] env.max_move must be below the shorter side of the world, " +
                    text(side) + ", got " + text(p.max_move));
    }
  };

  /// The packed world follows.
  struct State {
    int32_t x, y;
    float energy;
    float potential;  ///< of this state, for shaping
    int32_t steps;
    int32_t food, poison;  ///< drawn for this world
  };

  static size_t state_bytes(const Params& p) {
    return sizeof(State) + sizeof(uint32_t) * PackedTorus::word_count(p.width, p.height);
  }

  /// The agent is in the world, which has an empty cell for what appears again.
  static bool valid(const Params& p, const State& s) {
    const PackedTorus world = world_of(p, s);
    bool empty = false;
    for (int32_t y = 0; y < p.height && !empty; ++y)
      for (int32_t x = 0; x < p.width && !empty; ++x) empty = world.get({x, y}) == kEmpty;
    return s.x >= 0 && s.x < p.width && s.y >= 0 && s.y < p.height && empty;
  }

  static EnvSpec spec(const Params& p) {
    const int64_t side = 2 * p.view + 1;
    // [codes, channels]; code 3 does not occur
    std::vector<float> truth{0, 0, 1, 0, 0, 1, 0, 0};
    std::vector<float> interest{
        0, 0, p.food_interest, p.food_interest, p.poison_interest, p.poison_interest, 0, 0};
    const std::vector<float> alike{0, 0, 1, 1, 1, 1, 0, 0};
    const bool sees_truth = p.mode == Mode::truth || p.mode == Mode::handhold;
    // where the policy sees it too it tells the critic nothing, and makes its network alike
    const bool shows_truth = p.privileged && (p.privileged_always || !sees_truth);
    // unless poison is learned from as something else than was seen; what is 0 or 1 loses nothing
    const bool loses = p.uint8_rollout && !sees_truth && p.mode != Mode::blind;
    if (loses) {
      interest[6] = interest[7] = std::trunc(p.poison_interest);
      truth[7] = 1;
    }

    EnvSpec spec;
    spec.observations.push_back(
        {.name = "window",
         .dtype = DType::u8,
         .shape = {(2 * side * side + 7) / 8},
         .cells = {.bits = 2,
                   .grid = {side, side},
                   .channels = 2,
                   .policy = sees_truth              ? truth
                             : p.mode == Mode::blind ? alike
                                                     : interest,
                   .critic = shows_truth ? truth : std::vector<float>{},
                   .kept = loses ? std::vector<uint8_t>{kEmpty, kFood, kLost, kLost}
                                 : std::vector<uint8_t>{}}});
    if (p.privileged)
      spec.observations.push_back(
          {.name = "density", .dtype = DType::f32, .shape = {2}, .audience = Audience::critic});
    const int64_t moves = 2 * p.max_move + 1;
    spec.action = {.heads = {moves * moves - 1}, .names = move_names(p.max_move)};
    spec.max_steps = p.max_steps;
    spec.events = {"food", "poison", "deaths", "energy"};
    spec.shares = {{.name = "efficiency", .event = 0, .of = {0, 1}}};
    return spec;
  }

  static std::span<const Bot> bots() {
    static constexpr Bot table[] = {
        {.name = "omniscient_seeker",
         .summary = "knows the truth: to the nearest food, around poison",
         .state_bytes = 0,
         .begin = nullptr,
         .act =
             [](const BotTurn& turn) {
               const auto& p = *static_cast<const Params*>(turn.params);
               turn.discrete[0] = goodhart::move_by(
                   goodhart::omniscient_step(seen_by(turn), kFood, kPoison, turn.rng), p.max_move);
             }},
        {.name = "proxy_seeker",
         .summary = "follows the proxy: to what is most interesting",
         .state_bytes = 0,
         .begin = nullptr,
         .act = [](const BotTurn& turn) {
           const auto& p = *static_cast<const Params*>(turn.params);
           turn.discrete[0] = goodhart::move_by(
               goodhart::proxy_step(seen_by(turn), {0, p.food_interest, p.poison_interest, 0},
                                    turn.rng),
               p.max_move);
         }}};
    return table;
  }

  MAGLEV_HD static void reset(const Params& p, State& s, Rng& rng) {
    const PackedTorus world = world_of(p, s);
    // a slot's first episode begins its stream; only then is there no world to keep
    if (!p.keep_world || rng.counter() == 0) {
      world.clear_all();
      s.food = p.min_food + int32_t(rng.below(uint32_t(p.max_food - p.min_food) + 1));
      s.poison = p.min_poison + int32_t(rng.below(uint32_t(p.max_poison - p.min_poison) + 1));
      for (int32_t i = 0; i < s.food; ++i) world.put(world.random_empty(rng, kNowhere), kFood);
      for (int32_t i = 0; i < s.poison; ++i) world.put(world.random_empty(rng, kNowhere), kPoison);
    }
    const CellAt start = world.random_empty(rng, kNowhere);
    s.x = start.x;
    s.y = start.y;
    s.energy = p.energy_start;
    s.steps = 0;
    s.potential = p.mode == Mode::handhold ? potential(p, s) : 0.f;
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    const PackedTorus world = world_of(p, s);
    // moves in the order dx, then dy, without the one that stays
    // an index out of range takes the nearest, so that no sampler, however broken, reaches other
    // memory
    const int32_t side = 2 * p.max_move + 1, middle = side * side / 2, last = side * side - 2;
    const int32_t given = action.discrete[0], a = given < 0 ? 0 : given > last ? last : given;
    const int32_t k = a + (a >= middle);
    s.x = PackedTorus::wrap(s.x + k / side - p.max_move, p.width);
    s.y = PackedTorus::wrap(s.y + k % side - p.max_move, p.height);

    const uint32_t cell = world.get({s.x, s.y});
    const bool live = p.live();
    float gained = -p.move_cost;
    if (live) s.energy -= p.move_cost;
    if (cell != kEmpty) {
      const float meal = cell == kFood ? p.food_energy : p.poison_energy;
      gained += meal;
      if (live) s.energy += meal;
      world.clear({s.x, s.y});
      if (p.respawn) world.put(world.random_empty(rng, {s.x, s.y}), cell);
      out.count(cell == kFood ? 0 : 1, 1.f);
    }
    s.steps += 1;
    out.terminated = s.energy <= 0.f;
    out.truncated = s.steps >= p.max_steps;
    if (out.terminated) out.count(2, 1.f);
    out.count(3, gained);

    float reward = 0.f;
    if (p.mode == Mode::proxy || p.mode == Mode::proxy_mortal) {
      reward = cell == kFood ? p.food_interest : cell == kPoison ? p.poison_interest : 0.f;
    } else if (p.mode == Mode::handhold) {
      reward = (cell == kFood     ? p.handhold_food
                : cell == kPoison ? p.handhold_poison
                                  : 0.f) -
               p.move_cost;
      // potential-based: gamma * after - before; death has no potential, a time limit keeps that of
      // its last state
      const float before = s.potential;
      s.potential = potential(p, s);
      reward += p.shaping_gamma * (out.terminated ? 0.f : s.potential) - before;
      if (out.terminated) reward += p.handhold_death;
    } else {
      reward = gained - (out.terminated ? p.death_penalty_ratio * p.food_energy : 0.f);
    }
    out.reward[0] = reward < -p.reward_limit  ? -p.reward_limit
                    : reward > p.reward_limit ? p.reward_limit
                                              : reward;
  }

  MAGLEV_HD static void observe(const Params& p, const State& s, int, const ObsOut& out) {
    // the agent's own cell is always empty: it starts on an empty one, eats what it steps on, and
    // nothing appears there
    BitWriter window(out.as<uint8_t>(0));
    world_of(p, s).visit_window(
        {s.x, s.y}, p.view,
        [&](int32_t, int32_t, uint32_t bits, int32_t n) { window.push(bits, 2 * n); });
    window.flush();
    if (p.privileged) {
      out.as<float>(1)[0] = from_middle(s.food, p.min_food, p.max_food);
      out.as<float>(1)[1] = from_middle(s.poison, p.min_poison, p.max_poison);
    }
  }

  static void paint(const Params& p, const State& s, Canvas& canvas) {
    const EnvSpec seen = spec(p);
    goodhart::paint({.world = world_of(p, s),
                     .agent = {s.x, s.y},
                     .view = p.view,
                     .sight = seen.observations[0].cells.policy,
                     .energy = s.energy,
                     .energy_start = p.energy_start,
                     .food = kFood,
                     .poison = kPoison},
                    canvas);
  }

  MAGLEV_HD static PackedTorus world_of(const Params& p, const State& s) {
    return {reinterpret_cast<uint32_t*>(const_cast<State*>(&s) + 1), p.width, p.height};
  }

  /// scale / (distance to the nearest food in view + offset), 0 with none in view.
  MAGLEV_HD static float potential(const Params& p, const State& s) {
    int32_t nearest = -1;
    world_of(p, s).visit_window(
        {s.x, s.y}, p.view, [&](int32_t i, int32_t j, uint32_t bits, int32_t n) {
          if ((bits & 0x55555555u) == 0) return;
          for (int32_t c = 0; c < n; ++c) {
            if (((bits >> (2 * c)) & 3u) != kFood) continue;
            const int32_t dy = i - p.view, dx = j + c - p.view, square = dx * dx + dy * dy;
            nearest = nearest < 0 || square < nearest ? square : nearest;
          }
        });
    return nearest < 0 ? 0.f : p.shaping_scale / (sqrtf(float(nearest)) + p.shaping_offset);
  }

 private:
  /// "up left", or "up 2 left" of farther ones, in the order of step().
  static std::vector<std::string> move_names(int32_t max_move) {
    const auto part = [&](int32_t cells, const char* less, const char* more) -> std::string {
      if (cells == 0) return "";
      const int32_t far = cells < 0 ? -cells : cells;
      return (cells < 0 ? less : more) + (far > 1 ? " " + std::to_string(far) : std::string());
    };
    std::vector<std::string> names;
    for (int32_t dx = -max_move; dx <= max_move; ++dx)
      for (int32_t dy = -max_move; dy <= max_move; ++dy) {
        if (dx == 0 && dy == 0) continue;
        const std::string upright = part(dy, "up", "down"), across = part(dx, "left", "right");
        names.push_back(upright + (dx && dy ? " " : "") + across);
      }
    return names;
  }

  static goodhart::StoredWindow seen_by(const BotTurn& turn) {
    return {reinterpret_cast<const uint8_t*>(turn.obs[0]),
            static_cast<const Params*>(turn.params)->view};
  }

  static constexpr CellAt kNowhere{-1, -1};

  /// A count within its range as -1 .. 1.
  MAGLEV_HD static float from_middle(int32_t count, int32_t least, int32_t most) {
    const float middle = 0.5f * float(least + most), half = 0.5f * float(most - least);
    return (float(count) - middle) / (half > 0.f ? half : 1.f);
  }
};

}  // namespace maglev
