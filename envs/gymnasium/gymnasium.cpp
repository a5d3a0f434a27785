#include "envs/gymnasium/gymnasium.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/core/error.h"
#include "envs/gymnasium/workers.h"

namespace maglev {
namespace {

using gymnasium::Workers;

constexpr uint32_t kSeeds = uint32_t(1) << 31;  // some environments take no larger ones

// of an episode's actions in a checkpoint: of a longer one none are kept, and it ends where it is
// loaded
constexpr int64_t kMostActionBytes = int64_t(1) << 18;

// an episode as a checkpoint holds it; what it shows lies behind, then its actions
struct Episode {
  uint32_t seed;
  int32_t steps;
  uint32_t lost, unused;
};

Workers& workers_of(const Gymnasium::Params& p) {
  return Workers::of({.id = std::string(p.id.view()),
                      .kwargs = std::string(p.kwargs.view()),
                      .python = std::string(p.python.view()),
                      .info = std::string(p.info.view()),
                      .masks = p.masks,
                      .max_steps = p.max_steps,
                      .workers = p.workers,
                      .timeout = p.timeout});
}

// agents' numbers as they are sent: categories within their heads, numbers that are numbers
void append_actions(const EnvSpec& env, const Actions& action, std::vector<std::byte>& to) {
  const ActionSpec& spec = env.action;
  for (int64_t d = 0; d < env.agents * spec.dims(); ++d) {
    std::byte number[4];
    if (spec.discrete()) {
      const int64_t most = spec.heads[size_t(d % spec.dims())] - 1;
      const int32_t category = int32_t(std::clamp<int64_t>(action.discrete[d], 0, most));
      std::memcpy(number, &category, sizeof number);
    } else {
      const float value = std::isfinite(action.continuous[d]) ? action.continuous[d] : 0.f;
      std::memcpy(number, &value, sizeof number);
    }
    to.insert(to.end(), number, number + sizeof number);
  }
}

// whether such bytes are actions that append_actions wrote
bool are_actions(const EnvSpec& env, const std::byte* from, int64_t steps) {
  const ActionSpec& spec = env.action;
  for (int64_t i = 0; i < steps * env.agents * spec.dims(); ++i) {
    const std::byte* number = from + 4 * i;
    if (spec.discrete()) {
      int32_t category;
      std::memcpy(&category, number, sizeof category);
      if (category < 0 || category >= spec.heads[size_t(i % spec.dims())]) return false;
    } else {
      float value;
      std::memcpy(&value, number, sizeof value);
      if (!std::isfinite(value)) return false;
    }
  }
  return true;
}

// of what was just shown; the run would find it too, and not know of which episode it is
void expect_finite(const Gymnasium::Params& p, const Gymnasium::State& s) {
  const EnvSpec& spec = s.workers->spec();
  for (int agent = 0; agent < spec.agents; ++agent) {
    const std::byte* from = s.remote->observation() + agent * s.workers->agent_bytes();
    for (const ObsColumn& column : spec.observations) {
      for (int64_t i = 0; column.dtype == DType::f32 && i < column.elements(); ++i) {
        float number;
        std::memcpy(&number, from + 4 * i, sizeof number);
        if (!std::isfinite(number))
          throw Error("[gymnasium] " + std::string(p.id.view()) + " showed " +
                      std::to_string(number) + " as number " + std::to_string(i) + " of " +
                      column.name + ", where finite ones are expected" + s.remote->episode());
      }
      from += column.row_bytes();
    }
  }
}

// the answer to what was asked, which is asked no more whatever it is
void take(Gymnasium::State& s) {
  s.asked = Gymnasium::State::Asked::nothing;
  s.remote->take();
}

// an answer to what is not wanted any more: another environment of its batch has failed meanwhile
void drop(Gymnasium::State& s) {
  if (s.asked == Gymnasium::State::Asked::nothing) return;
  try {
    take(s);
  } catch (const Error&) {
  }
}

// what was saved, where the episode could not be found again: its last step ends where it stood
const std::byte* shown_by(const Gymnasium::State& s) {
  return s.lost ? s.shown.data() : s.remote->observation();
}

// what an episode that was loaded has come to
void settle(const Gymnasium::State& s) {
  if (!s.replaying) return;
  s.replaying = false;
  const bool taken = s.remote->take();
  s.lost = s.lost || !taken || !std::equal(s.shown.begin(), s.shown.end(), s.remote->observation());
}

}  // namespace

Gymnasium::State::State() = default;
Gymnasium::State::~State() = default;
Gymnasium::State::State(State&&) noexcept = default;
Gymnasium::State& Gymnasium::State::operator=(State&&) noexcept = default;

void Gymnasium::check(const Params& p) {
  if (p.id.view().empty())
    throw Error(
        "[gymnasium] env.id is empty; give one that gymnasium.make takes, such as CartPole-v1");
  workers_of(p);
}

void Gymnasium::end_idle() { Workers::end_idle(); }

EnvSpec Gymnasium::spec(const Params& p) { return workers_of(p).spec(); }

void Gymnasium::begin_reset(const Params& p, State& s, Rng& rng) {
  if (s.asked == State::Asked::reset) return;
  drop(s);
  if (!s.remote) {
    s.workers = &workers_of(p);
    s.remote = s.workers->make_remote();
  }
  settle(s);
  s.seed = rng.below(kSeeds);
  s.steps = 0;
  s.lost = false;
  s.actions.clear();
  s.ends.assign(size_t(s.workers->spec().agents), AgentEnd{});
  s.remote->reset(s.seed);
  s.asked = State::Asked::reset;
}

void Gymnasium::reset(const Params& p, State& s, Rng& rng) {
  // where it has begun, what was drawn then is drawn again, for the stream to move on
  if (s.asked == State::Asked::reset) rng.below(kSeeds);
  else begin_reset(p, s, rng);
  take(s);
  expect_finite(p, s);
}

void Gymnasium::begin_step(const Params&, State& s, const Actions& action) {
  if (s.asked == State::Asked::step) return;
  drop(s);
  settle(s);
  // who played on takes this step
  const auto played_on = s.workers->played_on(shown_by(s));
  s.ends.assign(size_t(s.workers->spec().agents), AgentEnd{});
  for (size_t a = 0; a < played_on.size(); ++a) s.ends[a].waits = !played_on[a];
  // an episode that could not be found again ends here
  if (s.lost) return;
  const size_t before = s.actions.size();
  append_actions(s.workers->spec(), action, s.actions);
  s.steps += 1;
  s.remote->step({s.actions.data() + before, s.actions.size() - before});
  s.asked = State::Asked::step;
}

void Gymnasium::send_begun(const Params&, State& s) { s.workers->send_asked(); }

void Gymnasium::step(const Params& p, State& s, const Actions& action, Rng&, StepOut& out) {
  if (s.asked != State::Asked::step) begin_step(p, s, action);
  const EnvSpec& spec = s.workers->spec();
  if (!s.lost) {
    take(s);
    expect_finite(p, s);
    for (int k = 0; k < int(spec.events.size()); ++k) out.count(k, s.remote->counted(k));
  }
  // it is over when nobody plays on
  const bool cut = s.lost || s.steps >= spec.max_steps;
  const auto play_on = s.workers->played_on(shown_by(s));
  bool over = std::none_of(play_on.begin(), play_on.end(), [](uint8_t on) { return on != 0; });
  for (int a = 0; a < spec.agents; ++a) {
    AgentEnd& end = s.ends[size_t(a)];
    if (end.waits) continue;
    const gymnasium::StepEnd was = s.lost ? gymnasium::StepEnd{} : s.remote->end_of(a);
    out.reward[a] = was.reward;
    end.terminated = was.terminated != 0;
    end.truncated = was.truncated != 0 || cut;
    if (!s.workers->ends_apart()) over = end.terminated || end.truncated;
  }
  out.truncated = over || cut;
}

AgentEnd Gymnasium::end_of(const Params&, const State& s, int agent) {
  return s.ends[size_t(agent)];
}

void Gymnasium::observe(const Params&, const State& s, int agent, const ObsOut& out) {
  const EnvSpec& spec = s.workers->spec();
  const std::byte* from = shown_by(s) + agent * s.workers->agent_bytes();
  for (size_t c = 0; c < spec.observations.size(); ++c) {
    const size_t bytes = size_t(spec.observations[c].row_bytes());
    std::memcpy(out.as<std::byte>(int(c)), from, bytes);
    from += bytes;
  }
  if (out.mask) std::memcpy(out.mask, from, size_t(spec.action.categories()));
}

// what the environment draws, as large as it fits, each pixel the nearest
void Gymnasium::paint(const Params&, const State& s, Canvas& canvas) {
  canvas.fill({24, 26, 30});
  if (!s.remote) return;
  settle(s);
  const gymnasium::RgbPicture drawn = s.remote->picture(s.seed, s.actions);
  if (drawn.width < 1 || drawn.height < 1) return;
  const float scale = std::min(float(canvas.width()) / float(drawn.width),
                               float(canvas.height()) / float(drawn.height));
  const int width = std::min(canvas.width(), int(float(drawn.width) * scale)),
            height = std::min(canvas.height(), int(float(drawn.height) * scale));
  const int left = (canvas.width() - width) / 2, top = (canvas.height() - height) / 2;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const int64_t row = int64_t(y) * drawn.height / height,
                    column = int64_t(x) * drawn.width / width;
      const uint8_t* pixel = drawn.pixels.data() + (row * drawn.width + column) * 3;
      canvas.pixels()[size_t(top + y) * size_t(canvas.width()) + size_t(left + x)] = {
          pixel[0], pixel[1], pixel[2]};
    }
}

size_t Gymnasium::program_bytes(const Params& p, int64_t count) {
  return workers_of(p).program_bytes(count);
}

size_t Gymnasium::state_bytes(const Params& p) {
  const Workers& workers = workers_of(p);
  const int64_t actions = workers.spec().max_steps * workers.action_bytes();
  return sizeof(Episode) + size_t(workers.shown_bytes() + std::min(actions, kMostActionBytes));
}

void Gymnasium::save(const Params&, const State& s, std::byte* to) {
  if (!s.remote) return;
  settle(s);
  const bool fits = int64_t(s.actions.size()) <= kMostActionBytes;
  const Episode episode{s.seed, fits ? s.steps : 0, s.lost || !fits, 0};
  std::memcpy(to, &episode, sizeof episode);
  to = std::copy_n(shown_by(s), s.workers->shown_bytes(), to + sizeof episode);
  if (fits) std::copy(s.actions.begin(), s.actions.end(), to);
}

bool Gymnasium::load(const Params& p, State& s, const std::byte* from) {
  Workers& workers = workers_of(p);
  const EnvSpec& spec = workers.spec();
  Episode episode;
  std::memcpy(&episode, from, sizeof episode);
  const std::byte* shown = from + sizeof episode;
  const std::byte* actions = shown + workers.shown_bytes();
  if (episode.lost > 1 || episode.seed >= kSeeds || episode.steps < 0 ||
      episode.steps > spec.max_steps || episode.steps * workers.action_bytes() > kMostActionBytes ||
      !are_actions(spec, actions, episode.steps))
    return false;
  s = {};
  s.seed = episode.seed, s.steps = episode.steps, s.lost = episode.lost != 0;
  s.shown.assign(shown, actions);
  s.actions.assign(actions, actions + episode.steps * workers.action_bytes());
  s.workers = &workers;
  s.remote = workers.make_remote();
  // all environments are asked before any is waited for
  s.remote->replay(s.seed, s.actions);
  s.replaying = true;
  return true;
}

}  // namespace maglev
