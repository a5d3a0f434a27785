#include "base/env/check_spec.h"

#include <functional>

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace maglev {
namespace {

EnvSpec sound() {
  return {.observations = {{.name = "vector", .shape = {3}}}, .action = {.heads = {2, 5}}};
}

TEST(CheckSpec, takes_what_fits_together) {
  check_spec(sound(), "maze");
  EnvSpec bounded = sound();
  bounded.action = {.low = {-1, 0}, .high = {1, 2}};
  check_spec(bounded, "maze");
  EnvSpec named = sound();
  named.action.names = {"a", "b", "a", "b", "c", "d", "e"};
  check_spec(named, "maze");
  EXPECT_EQ(named.action.name(0, 1), "b");
  EXPECT_EQ(named.action.name(1, 4), "e");
  EXPECT_EQ(sound().action.name(1, 4), "");
}

TEST(CheckSpec, names_environment_and_fault) {
  const auto told = [](const std::function<void(EnvSpec&)>& spoil) {
    EnvSpec spec = sound();
    spoil(spec);
    return error_of([&] { check_spec(spec, "maze"); });
  };
  const auto expect = [&](const char* said, const std::function<void(EnvSpec&)>& spoil) {
    const std::string text = told(spoil);
    EXPECT_TRUE(contains(text, "[maze] its spec: ") && contains(text, said)) << text;
  };
  expect("shows one column", [](EnvSpec& s) { s.observations.clear(); });
  expect("'vector' holds nothing", [](EnvSpec& s) { s.observations[0].shape = {3, 0}; });
  expect("called 'vector'", [](EnvSpec& s) { s.observations.push_back(s.observations[0]); });
  expect("sees nothing", [](EnvSpec& s) { s.observations[0].audience = Audience::critic; });
  expect("at most 8 events", [](EnvSpec& s) { s.events.assign(9, "e"); });
  expect("a name of its own, got 'return_mean'", [](EnvSpec& s) {
    s.events = {"e"}, s.shares = {{.name = "return_mean", .event = 0, .of = {0}}};
  });
  expect("a name of its own, got 'e'",
         [](EnvSpec& s) { s.events = {"e"}, s.shares = {{.name = "e", .event = 0, .of = {0}}}; });
  for (const EventShare& wrong : {EventShare{.name = "s", .event = 1, .of = {0}},
                                  EventShare{.name = "s", .event = 0, .of = {1}},
                                  EventShare{.name = "s", .event = 0, .of = {}}})
    expect("share 's' is of events by their places, 0 to 0",
           [&](EnvSpec& s) { s.events = {"e"}, s.shares = {wrong}; });
  expect("1 to 64 agents, got 65", [](EnvSpec& s) { s.agents = 65; });
  expect("got neither", [](EnvSpec& s) { s.action = {}; });
  expect("got both", [](EnvSpec& s) { s.action.low = {0}, s.action.high = {1}; });
  expect("got 1", [](EnvSpec& s) { s.action.heads = {2, 1}; });
  expect("are no range", [](EnvSpec& s) { s.action = {.low = {1}, .high = {1}}; });
  expect("upper bounds", [](EnvSpec& s) { s.action = {.low = {1}, .high = {}}; });
  expect("mask is of categories",
         [](EnvSpec& s) { s.action = {.low = {0}, .high = {1}, .masked = true}; });
  expect("expected 7, got 1", [](EnvSpec& s) { s.action.names = {"a"}; });
  expect("got 'a' for category 2",
         [](EnvSpec& s) { s.action.names = {"a", "b", "a", "b", "a", "d", "e"}; });
  expect("u8 of shape {31}", [](EnvSpec& s) {
    s.observations[0] = {.name = "window",
                         .dtype = DType::u8,
                         .shape = {30},
                         .cells = {.bits = 2, .grid = {11, 11}, .channels = 1}};
  });
}

}  // namespace
}  // namespace maglev
