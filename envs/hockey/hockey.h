#pragma once
// Two-player air hockey after the game of the University of Tübingen's reinforcement-learning
// course (github.com/martius-lab/hockey-env): the player learns against a scripted opponent, or
// both players are one agent. docs/hockey.md states rules and differences.
//
// Observation: `vector` [18], see rink::Game::observe. Actions in [-1, 1]: x (towards the other
// goal), y, turn, and with `keep` shoot (above 0.5).

#include <string>
#include <string_view>

#include "base/core/error.h"
#include "base/env/env.h"
#include "envs/hockey/paint.h"
#include "envs/hockey/players.h"

namespace maglev {

struct Hockey {
  static constexpr const char* kSummary = "air hockey against a scripted opponent";

  enum class Opponent : int32_t { weak, strong, mixed, none };
  friend constexpr auto names_of(Opponent) { return std::array{"weak", "strong", "mixed", "none"}; }
  enum class Players : int32_t { one, both };
  friend constexpr auto names_of(Players) { return std::array{"one", "both"}; }

  struct Params {
    rink::Mode mode = rink::Mode::normal;
    Opponent opponent = Opponent::weak;
    Players players = Players::one;
    bool keep = true, faithful = false;
    int32_t max_steps = 0, action_repeat = 1;
    rink::Shaping shaping = {};

    static void describe(OptionTable& t, Params& p) {
      describe_rules(t, p);
      t.add("action_repeat", p.action_repeat,
            "steps of the game that an action is held for; their rewards are added up, and the "
            "scripted opponent acts in each",
            {.min = 1, .max = 100, .unit = "steps of the game"});
      t.add("opponent", p.opponent,
            "who plays on the other side; mixed: weak or strong, drawn "
            "anew each game; none: it stands still");
      t.add("players", p.players, "whose actions are given: one, or both side by side");
    }
    static std::string idle(const Params& p, std::string_view name) {
      const bool taken = name == "opponent" && p.players == Players::both;
      return taken ? "env.players=both plays the other side too" : "";
    }
    /// Settings that every hockey environment has.
    template <class P>
    static void describe_rules(OptionTable& t, P& p) {
      t.add("mode", p.mode,
            "what a game begins with: the puck in one half, before player one (shooting), or "
            "flying at player one's goal (defense); mixed: drawn anew each game");
      t.add("keep", p.keep, "rackets catch the puck and can shoot it: a fourth action");
      t.add("faithful", p.faithful,
            "the original's quirks: one step more than the limit, running out of time "
            "terminates, a kept puck survives the end of a game");
      t.add("max_steps", p.max_steps, "episode limit; 0: 250, or 80 in shooting and defense",
            {.min = 0, .max = 1e9, .unit = "steps"});
      t.add(
          "touch_reward", p.shaping.touch,
          "paid besides for each time that the racket catches the puck (without keep: touches it)",
          {.min = -100, .max = 100});
      t.add("direction_reward", p.shaping.direction,
            "paid besides, over a game, where the puck always flies at 25 m/s towards the other "
            "goal; by its speed along x in each step, less than nothing towards the own goal",
            {.min = -100, .max = 100});
    }
  };

  struct State {
    rink::Game game;
    rink::Opponent opponent;
    int32_t strong;
  };

  static bool valid(const Params&, const State& s) { return s.game.valid(); }

  static std::span<const Bot> bots() { return rink::scripted_players(); }

  static EnvSpec spec(const Params& p) {
    EnvSpec spec = spec_of(p, (p.keep ? 4 : 3) * (p.players == Players::both ? 2 : 1));
    // steps of an episode are decisions, of which the last may be shorter
    spec.max_steps = (spec.max_steps + p.action_repeat - 1) / p.action_repeat;
    spec.render_fps = 50. / p.action_repeat;
    return spec;
  }
  template <class P>
  static EnvSpec spec_of(const P& p, int dims) {
    const auto n = size_t(dims);
    return {
        .observations = {{.name = "vector", .dtype = DType::f32, .shape = {rink::kObservation}}},
        .action = {.low = std::vector<float>(n, -1.f), .high = std::vector<float>(n, 1.f)},
        .max_steps = p.max_steps ? p.max_steps : rink::mode_steps(p.mode),
        .events = {"goals", "conceded", "timeouts", "touches", "shots"},
        .shares = {{.name = "win_rate", .event = 0, .of = {0, 1, 2}},
                   {.name = "win_rate_decided", .event = 0, .of = {0, 1}}},
        .games = GameEvents{.won = 0, .drawn = 2, .lost = 1}};
  }

  MAGLEV_HD static void reset(const Params& p, State& s, Rng& rng) {
    s.game.begin(p.mode, p.max_steps, {p.keep, p.faithful}, rng);
    s.strong =
        p.opponent == Opponent::mixed ? int32_t(rng.below(2)) : p.opponent == Opponent::strong;
    s.opponent.begin(rng);
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    float moves[2 * rink::kMoves] = {};
    read_moves(p, action.continuous, moves);
    if (p.players == Players::both)
      read_moves(p, action.continuous + (p.keep ? 4 : 3), moves + rink::kMoves);
    for (int32_t i = 0; i < p.action_repeat; ++i) {
      if (p.players == Players::one && p.opponent != Opponent::none) {
        float seen[rink::kObservation];
        s.game.observe(rink::kPlayerTwo, seen);
        s.opponent.act(s.strong, seen, rng, moves + rink::kMoves);
      }
      rink::Outcome outcome;
      const rink::Rules rules{p.keep, p.faithful};
      s.game.play(moves, rules, outcome);
      const float reward = s.game.reward(rink::kPlayerOne, outcome, rules, p.shaping);
      out.reward[0] = i == 0 ? reward : out.reward[0] + reward;
      end_step(p, outcome, out);
      if (out.terminated || out.truncated) return;
    }
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    s.game.observe(rink::kPlayerOne, out.as<float>(0));
  }

  static void paint(const Params&, const State& s, Canvas& canvas) {
    rink::paint_game(s.game, canvas);
  }

  /// One player's actions, clipped.
  template <class P>
  MAGLEV_HD static void read_moves(const P& p, const float* given, float* moves) {
    // comparisons, not fminf: an action that is not a number stays one
    for (int k = 0; k < (p.keep ? 4 : 3); ++k)
      moves[k] = given[k] < -1.f ? -1.f : given[k] > 1.f ? 1.f : given[k];
  }
  /// Flags and events of a step of the game, as player one sees it.
  template <class P>
  MAGLEV_HD static void end_step(const P& p, const rink::Outcome& outcome, StepOut& out) {
    const bool late = outcome.out_of_time;
    out.terminated = outcome.winner != 0 || (late && p.faithful);
    out.truncated = late && !p.faithful;
    out.count(0, outcome.winner > 0);
    out.count(1, outcome.winner < 0);
    out.count(2, late && outcome.winner == 0);
    out.count(3, outcome.touched[0]);
    out.count(4, outcome.shot[0]);
  }
};

}  // namespace maglev
