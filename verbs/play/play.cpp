// maglev play: shows an episode or a match in the terminal or on a page, records it, and lets a
// person take part.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <unistd.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "base/env/env_params.h"
#include "base/picture/no_picture.h"
#include "engine/host/machine.h"
#include "engine/run/run_dir.h"
#include "engine/run/several_runs.h"
#include "engine/run/stored_experiment.h"
#include "verbs/arguments.h"
#include "verbs/notes.h"
#include "verbs/play/caption.h"
#include "verbs/play/keyboard.h"
#include "verbs/play/match.h"
#include "verbs/play/screen.h"
#include "verbs/play/serve.h"
#include "verbs/play/signals.h"
#include "verbs/play/temperature.h"
#include "verbs/recording.h"
#include "verbs/table.h"
#include "verbs/train/seed_runs.h"
#include "verbs/verb.h"

namespace maglev::verbs::play {

VerbEntry entry();

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPort = 8421;  // beside watch's
constexpr int kRecordWidth = 600, kRecordHeight = 500;
constexpr int64_t kFps = 50, kMostFps = 1000;
// a GIF counts in hundredths of a second, and programs show pictures of one as of ten
constexpr int64_t kMostGifFps = 50;

Grammar grammar() {
  return {
      .flags = {{"--episodes", "N", "episodes (default 1)"},
                {"--seed", "S", "seed of the environment and of what players draw (default 1)"},
                {"--fps", "N", "steps a second (default: the environment's render_fps, else 50)"},
                {"--fast", "", "as fast as it goes"},
                {"--record", "FILE",
                 "write a moving picture: FILE.png (animated PNG), .gif, or .mp4 with ffmpeg"},
                {"--overwrite", "", "replace a recording that is there already"},
                {"--actions", "HOW", "mean (default) or sample, of trained policies"},
                {"--temperature", "T",
                 "trained policies draw from logits over T, and by deviations times T (default 1: "
                 "as they learned); says --actions sample"},
                {"--web", "", "a live page in a browser in place of the terminal"},
                {"--port", "N", "where the page is served (default 8421); 0: any that is free"},
                {"--host", "ADDRESS",
                 "who can reach the page (default 127.0.0.1, this machine alone); elsewhere the "
                 "address that is printed holds a token"}},
      .least = 1,
      .most = 65,
      .names = "<environment | run> [player ...]",
      .settings = true};
}

/// What is played: an environment with settings, and the players that were named.
struct Request {
  const EnvEntry* env;
  GivenSettings settings;
  std::vector<std::string> names;
};

/// Of several seeds the best one plays, which people are told; all else is called as it is.
std::string player_named(const std::string& name) {
  const auto seeds = train::seeds_named(name);
  if (!seeds) return name;
  const auto [run, figure] = train::best_seed(seeds->folder);
  print_notes({run + " plays" +
               (figure.empty() ? ", the first of the seeds" : ", the best seed by " + figure)});
  return seeds->checkpoint == "latest" ? run : run + "@" + seeds->checkpoint;
}

/// A run in place of an environment is played on its own one, as it was trained, by itself.
Request request_of(const Arguments& arguments) {
  Request request;
  std::vector<std::string> settings;
  std::vector<std::string> words = arguments.positional();
  const bool named =
      std::ranges::any_of(env_table(), [&](const EnvEntry& e) { return words[0] == e.name; });
  std::transform(words.begin() + named, words.end(), words.begin() + named, player_named);
  const std::string& first = words[0];
  if (named && is_run(first))
    print_notes({first + " is the environment; the run in the folder of that name is ./" + first});
  const auto run = named ? std::nullopt : run_named(first);
  if (run) {
    const auto trained = experiment_of(run->folder);
    request.env = &trained->env();
    settings = env_settings(trained->table());
    request.names.push_back(first);
  } else if (!named && (several_runs(first) || !runs_in(first).empty())) {
    throw no_run(first);
  } else if (!named && (first.find('/') != first.npos || path_exists(first))) {
    throw Error("[play] " + first + " is no run; name the folder of one, or an environment");
  } else {
    request.env = &find_env(first);
  }
  settings.insert(settings.end(), arguments.settings().begin(), arguments.settings().end());
  request.names.insert(request.names.end(), words.begin() + 1, words.end());
  request.settings = sorted_settings("play", settings, request.names);
  const EnvParams params(*request.env, request.settings.env);
  const Judging judging = judging_of(*request.env, params.get(), arguments.settings());
  for (const std::string& setting : judging.settings) request.settings.env.push_back(setting);
  if (!judging.note.empty()) print_notes({judging.note});
  // who plays twice is spoken of once
  const std::set<std::string> names(request.names.begin(), request.names.end());
  for (const std::string& name : names)
    print_notes(run && name == first ? run_notes(name, arguments.settings())
                                     : guest_notes(name, request.settings.acting, params.table()));
  return request;
}

/// One player an agent; those not named are the environment's first scripted one, or random.
std::vector<std::string> players_for(const EnvEntry& env, int agents,
                                     std::vector<std::string> names) {
  if (names.size() > size_t(agents))
    throw Error("[play] " + std::string(env.name) + " has " + counted(agents, "player") + ", got " +
                counted(int64_t(names.size()), "name"));
  if (std::count(names.begin(), names.end(), "human") > 1)
    throw Error("[play] one human has room at one keyboard; name another player besides");
  names.resize(size_t(agents), env.bots.empty() ? "random" : env.bots.front().name);
  return names;
}

std::string result_of(const Match& match) {
  std::string text =
      "episode " + std::to_string(match.episodes()) + ": " + counted(match.steps(), "step");
  for (size_t a = 0; a < match.players().size(); ++a) {
    char value[64];
    std::snprintf(value, sizeof value, "%.2f", match.returns()[a]);
    text += (a ? ", " : "; return of ") + match.players()[a]->name() + " " + value;
  }
  return text;
}

// what is counted stands last: a narrow terminal cuts it
std::string score_line(const Match& match) {
  std::string names;
  for (const std::string& name : player_names(match)) names += (names.empty() ? "" : " - ") + name;
  const std::string events = match.events();
  return names + "  step " + std::to_string(match.steps()) +
         printed(", return %.2f", match.returns()[0]) + (events.empty() ? "" : "  " + events);
}

/// How a match is played.
struct Manner {
  bool human;  ///< whether one of the players is
  ActMode actions;
  float temperature;  ///< of policies that draw
  int64_t episodes, seed;
  int64_t fps;  ///< steps a second
};

/// Steps a second where nobody asks for any.
int64_t usual_fps(const EnvSpec& spec, bool gif) {
  if (spec.render_fps <= 0) return kFps;
  const double most = double(gif ? kMostGifFps : kMostFps);
  return std::llround(std::clamp(spec.render_fps, 1., most));
}

Manner manner_of(const Arguments& arguments, const EnvSpec& spec, bool human) {
  const bool gif = arguments.value("--record").value_or("").ends_with(".gif");
  const auto temperature = temperature_given(arguments);
  const Manner manner{
      .human = human,
      .actions = arguments.choice<ActMode>("--actions")
                     .value_or(temperature ? ActMode::sample : ActMode::mean),
      .temperature = temperature.value_or(1),
      .episodes = arguments.integer("--episodes", 1, 1'000'000).value_or(1),
      .seed = arguments.integer("--seed", 0, int64_t(1) << 53).value_or(1),
      .fps = arguments.integer("--fps", 1, kMostFps).value_or(usual_fps(spec, gif))};
  expect_drawn("play", manner.actions, manner.temperature);
  if (manner.fps > kMostGifFps && gif)
    throw Error("[play] a GIF shows at most " + std::to_string(kMostGifFps) +
                " pictures a second; take --fps " + std::to_string(kMostGifFps) +
                " or less, or record a .png");
  return manner;
}

/// The likeliest action has no temperature, which a page may ask for whatever the command line says.
GivenSettings settings_in(ActMode mode, const Request& request, const Manner& manner) {
  GivenSettings settings = request.settings;
  if (mode == ActMode::sample) settings.temperature = manner.temperature;
  return settings;
}

int play_on_page(const Arguments& arguments, const Request& request,
                 const std::vector<std::string>& names, const Manner& manner) {
  const EnvEntry& env = *request.env;
  for (const char* flag : {"--episodes", "--fps", "--fast", "--record", "--overwrite"})
    if (arguments.has(flag))
      throw Error("[play] " + std::string(flag) +
                  " is for the terminal, and --web for a page; leave one out");
  if (!env.paint)
    throw Error("[play] " + std::string(env.name) +
                " has no picture to show on a page; leave out --web");
  if (manner.human) throw Error("[play] a human plays at the terminal; leave out --web");
  claim_threads();
  serve(
      [&](const GameKey& key) {
        return std::make_unique<Match>(env, settings_in(key.mode, request, manner), names, nullptr,
                                       key.mode, uint64_t(key.seed));
      },
      {.seed = manner.seed, .mode = manner.actions},
      {.host = arguments.value("--host").value_or("127.0.0.1"),
       .port = int(arguments.integer("--port", 0, 65535).value_or(kPort))});
  return 0;
}

/// A moving picture of a match, written as it is played.
struct MovingPicture {
  std::string file;
  std::unique_ptr<Animation> animation;
  int64_t fps;
  int64_t pictures = 0;

  void add(const Match& match) {
    Canvas finer(2 * kRecordWidth, 2 * kRecordHeight);
    match.paint(finer);
    animation->add(captioned(finer.reduced(2), match), {1, int(fps)});
    ++pictures;
  }
  void finish() {
    animation->finish();
    std::printf("recorded %s: %s, %.1f s\n", file.c_str(), counted(pictures, "picture").c_str(),
                double(pictures) / double(fps));
  }
};

std::optional<MovingPicture> recording_of(const Arguments& arguments, const EnvEntry& env,
                                          int64_t fps) {
  const auto file = arguments.output("--record");
  if (!file) return std::nullopt;
  if (!env.paint)
    throw Error("[play] " + std::string(env.name) +
                " has no picture to record; leave out --record");
  return MovingPicture{.file = *file, .animation = recording_to(*file), .fps = fps};
}

/// Whether there is a picture of the match. Some find out only now that there is none: numbers are
/// left, where those will do.
bool can_be_drawn(const Match& match, bool recorded, bool human) {
  try {
    Canvas first(kRecordWidth, kRecordHeight);
    match.paint(first);
    return true;
  } catch (const NoPicture& error) {
    const std::string why = error.what();
    if (recorded) throw Error(why + "; leave out --record");
    if (human) throw Error(why + "; name another player than human");
    print_notes({why + "; it is told in numbers"});
    return false;
  }
}

/// How often a person who has not chosen is asked again.
constexpr auto kTurn = std::chrono::milliseconds(5);

/// Where a match at the terminal is seen, and who takes part. Null: nowhere, nobody.
struct Showing {
  Keyboard* keyboard;
  Screen* screen;
  MovingPicture* recording;
  bool numbers;  ///< whether steps are told in numbers
  bool fast;     ///< whether nobody waits between steps
};

/// Plays until the episodes are over, or until the human or a signal leaves. Returns what is said
/// afterwards: a line an episode that ended, and one of what was counted, which may be empty.
std::vector<std::string> play_match(Match& match, const Manner& manner, const Showing& on,
                                    const LeaveOnSignal& leave) {
  std::vector<std::string> results;
  // a picture of where it begins, then one of each step
  const auto show = [&] {
    if (on.recording) on.recording->add(match);
    if (!on.screen) return;
    Canvas canvas = on.screen->canvas();
    match.paint(canvas);
    on.screen->draw(canvas, score_line(match));
  };
  show();
  auto due = Clock::now();
  while (match.episodes() < manner.episodes && !leave.signal()) {
    if (on.keyboard) {
      on.keyboard->poll();
      if (on.keyboard->held(Key::quit)) break;
    }
    if (match.waits()) {
      std::this_thread::sleep_for(kTurn);
      due = Clock::now();
      continue;
    }
    const bool played = match.step();
    if (!on.numbers) show();
    else if (played) std::printf("%s\n", match.last_step().c_str());
    if (played && match.episode_over()) results.push_back(result_of(match));
    if (on.fast || !on.screen || match.by_turns()) continue;
    due += std::chrono::microseconds(1'000'000 / manner.fps);
    // a terminal too slow for it slows the game down instead of tearing it
    if (due < Clock::now()) due = Clock::now();
    std::this_thread::sleep_until(due);
  }
  results.push_back(match.events());
  return results;
}

int play_at_terminal(const Arguments& arguments, const Request& request,
                     const std::vector<std::string>& names, const Manner& manner) {
  const EnvEntry& env = *request.env;
  for (const char* flag : {"--port", "--host"})
    if (arguments.has(flag))
      throw Error("[play] " + std::string(flag) + " says where a page is served; add --web");
  const Terminal terminal = probe_terminal(STDOUT_FILENO);
  const bool watched = env.paint && terminal.live && terminal.colour && terminal.unicode;
  if (manner.human && (!watched || !isatty(STDIN_FILENO)))
    throw Error(
        "[play] a human needs a picture of the environment and a terminal in colour and "
        "UTF-8 for input and output; play there, or name another player");
  auto recording = recording_of(arguments, env, manner.fps);

  claim_threads();
  std::vector<std::string> results;
  LeaveOnSignal leave;
  // the terminal is as it was before results are told
  {
    std::optional<Keyboard> keyboard;
    if (manner.human) keyboard.emplace(STDIN_FILENO);
    Match match(env, settings_in(manner.actions, request, manner), names,
                keyboard ? &*keyboard : nullptr, manner.actions, uint64_t(manner.seed));
    bool pictured = env.paint;
    if (watched || recording) pictured = can_be_drawn(match, recording.has_value(), manner.human);
    std::optional<Screen> screen;
    if (watched && pictured)
      screen.emplace(STDOUT_FILENO, manner.human ? keys_text(match.spec().action) : "");
    std::fflush(stdout);
    results = play_match(match, manner,
                         {.keyboard = keyboard ? &*keyboard : nullptr,
                          .screen = screen ? &*screen : nullptr,
                          .recording = recording ? &*recording : nullptr,
                          .numbers = !pictured,
                          .fast = arguments.has("--fast")},
                         leave);
  }
  for (const std::string& line : results)
    if (!line.empty()) std::printf("%s\n", line.c_str());
  if (recording) recording->finish();
  return leave.signal() ? 128 + leave.signal() : 0;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  const Request request = request_of(arguments);
  const EnvEntry& env = *request.env;
  const EnvSpec spec = env.spec(EnvParams(env, request.settings.env).get());
  const auto names = players_for(env, spec.agents, request.names);
  // what no terminal would help comes before what is asked of the terminal
  const bool human = std::count(names.begin(), names.end(), "human") > 0;
  if (human) expect_played_by_hand(env, spec);
  const Manner manner = manner_of(arguments, spec, human);
  if (arguments.has("--temperature") && std::ranges::none_of(names, [](const std::string& name) {
        return run_named(name).has_value();
      }))
    throw Error("[play] --temperature is of trained policies, and none plays; leave it out");
  return arguments.has("--web") ? play_on_page(arguments, request, names, manner)
                                : play_at_terminal(arguments, request, names, manner);
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "play",
      .summary =
          "watch an environment or a match in the terminal or a browser, record it, or take part",
      .usage =
          "play <environment | run> [player ...] [setting=value ...]\n"
          "  a run plays on its own environment; a player is one of the environment's "
          "scripted ones, the folder of a run, random or human (by keyboard);\n"
          "  settings: env.*, threads=N, and those that say how a policy acts (\"acting\" in train "
          "--help)",
      .run = run};
}

}  // namespace maglev::verbs::play
