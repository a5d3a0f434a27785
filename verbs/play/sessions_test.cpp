#include "verbs/play/sessions.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/errors.h"

namespace maglev::verbs::play {
namespace {

std::unique_ptr<Match> cartpole(const GameKey& key) {
  return std::make_unique<Match>(find_env("cartpole"), GivenSettings{.env = {"env.max_steps=8"}},
                                 std::vector<std::string>{"random"}, nullptr, key.mode,
                                 uint64_t(key.seed));
}

nlohmann::json frames(PlaySessions& sessions, int64_t seed, int64_t from, int64_t count) {
  return nlohmann::json::parse(sessions.frames_json({.seed = seed}, from, count));
}

TEST(PlaySessions, a_step_is_the_same_whoever_asks_and_however) {
  PlaySessions one(cartpole), two(cartpole);
  nlohmann::json at_once = nlohmann::json::array(), singly = at_once;
  for (int64_t next = 0; next < 20;) {
    const auto answer = frames(one, 3, next, 20 - next);
    for (const auto& frame : answer["frames"]) at_once.push_back(frame);
    next = answer["next"];
  }
  for (int64_t n = 0; n < 20; ++n) singly.push_back(frames(two, 3, n, 1)["frames"][0]);
  EXPECT_EQ(at_once, singly);
  for (int64_t n = 0; n < 20; ++n) EXPECT_EQ(at_once[size_t(n)]["n"], n);
  EXPECT_EQ(frames(one, 3, 5, 1)["frames"][0], at_once[5]);
  EXPECT_NE(frames(one, 4, 5, 1)["frames"][0], at_once[5]);
}

TEST(PlaySessions, a_game_goes_step_by_step_as_a_match_does) {
  PlaySessions sessions(cartpole);
  const auto match = cartpole({.seed = 7});
  double sum = 0;
  bool ended = false;
  for (int64_t n = 0; n < 20; ++n) {
    const auto frame = frames(sessions, 7, n, 1)["frames"][0];
    const bool played = match->step();
    EXPECT_EQ(frame["acted"], played) << n;
    EXPECT_EQ(frame["acted"], !ended) << "who was at an episode's end acts no more";
    if (played) {
      sum += double(match->rewards()[0]);
      EXPECT_EQ(frame["action"][0], match->action()[0]);
      EXPECT_EQ(frame["step"], match->steps());
    }
    EXPECT_EQ(frame["returns"][0], sum) << n;
    ended = frame["over"];
    EXPECT_EQ(ended, played && match->episode_over());
    if (!played) sum = 0;
    EXPECT_TRUE(contains(frame["picture"], "data:image/png;base64,iVBORw0KGgo"));
    EXPECT_FALSE(frame.contains("probs")) << "who is no policy tells nothing";
  }
}

TEST(PlaySessions, the_last_steps_are_kept) {
  RunningGame game(cartpole({.seed = 1}), 5);
  for (int n = 0; n < 12; ++n) game.advance();
  EXPECT_EQ(game.first(), 7);
  EXPECT_EQ(game.frame(7).number, 7);
  EXPECT_EQ(error_of([&] { game.frame(6); }), "[play] step 6 is not kept; kept are 7 to 11");
  EXPECT_EQ(error_of([&] { game.frame(12); }), "[play] step 12 is not kept; kept are 7 to 11");
}

TEST(PlaySessions, more_than_an_answer_holds_is_not_computed) {
  PlaySessions sessions(cartpole);
  const auto answer = frames(sessions, 1, 1'000'000'000, 1'000'000'000);
  EXPECT_EQ(answer["frames"][0]["n"], 0) << "the next one comes first";
  EXPECT_LE(answer["frames"].size(), size_t(PlaySessions::kMostSteps));
}

TEST(PlaySessions, the_game_that_was_asked_for_longest_ago_makes_room) {
  PlaySessions sessions(cartpole);
  const int64_t first = frames(sessions, 0, 0, 3)["game"];
  for (int64_t seed = 1; seed < int64_t(PlaySessions::kMostGames); ++seed)
    frames(sessions, seed, 0, 1);
  EXPECT_EQ(frames(sessions, 0, 0, 1)["game"], first);
  for (int64_t seed = 1; seed <= int64_t(PlaySessions::kMostGames); ++seed)
    frames(sessions, seed, 0, 1);
  EXPECT_NE(frames(sessions, 0, 0, 1)["game"], first) << "begun anew";
}

}  // namespace
}  // namespace maglev::verbs::play
