#pragma once
// The hockey game with both players as agents: two rows of each environment, each with its own
// frame, reward and actions, so that one policy can play either side, or two policies each other.

#include "envs/hockey/hockey.h"

namespace maglev {

struct HockeyDuel {
  static constexpr const char* kSummary = "air hockey of two agents, each seeing its own side";
  static constexpr int kAgents = 2;

  struct Params {
    rink::Mode mode = rink::Mode::normal;
    bool keep = true, faithful = false;
    int32_t max_steps = 0;
    rink::Shaping shaping = {};

    static void describe(OptionTable& t, Params& p) { Hockey::Params::describe_rules(t, p); }
  };

  struct State {
    rink::Game game;
  };

  static bool valid(const Params&, const State& s) { return s.game.valid(); }

  static std::span<const Bot> bots() { return rink::scripted_players(); }

  static EnvSpec spec(const Params& p) { return Hockey::spec_of(p, p.keep ? 4 : 3); }

  MAGLEV_HD static void reset(const Params& p, State& s, Rng& rng) {
    s.game.begin(p.mode, p.max_steps, {p.keep, p.faithful}, rng);
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng&, StepOut& out) {
    const int dims = p.keep ? 4 : 3;
    float moves[2 * rink::kMoves] = {};
    for (int player = 0; player < 2; ++player)
      Hockey::read_moves(p, action.continuous + player * dims, moves + player * rink::kMoves);
    rink::Outcome outcome;
    const rink::Rules rules{p.keep, p.faithful};
    s.game.play(moves, rules, outcome);
    for (int player = 0; player < 2; ++player)
      out.reward[player] = s.game.reward(player, outcome, rules, p.shaping);
    Hockey::end_step(p, outcome, out);
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int agent, const ObsOut& out) {
    s.game.observe(agent, out.as<float>(0));
  }

  static void paint(const Params&, const State& s, Canvas& canvas) {
    rink::paint_game(s.game, canvas);
  }
};

}  // namespace maglev
