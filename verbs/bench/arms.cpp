#include "verbs/bench/arms.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <sstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/split.h"
#include "base/core/words.h"
#include "engine/host/system.h"
#include "engine/train/idle_settings.h"
#include "verbs/bench/run_child.h"
#include "verbs/table.h"

namespace maglev::verbs::bench {
namespace {

// of a run that is only measured nothing is written, judged or watched
constexpr std::string_view kLeftOut[] = {
    "train.steps",         "train.log_every",   "train.monitor_every", "train.save_every",
    "train.eval_every",    "train.eval_env",    "train.eval_episodes", "train.until_return",
    "train.on_divergence", "train.save_replay", "train.retry_save",    "train.keep",
    "train.init_from",     "train.stall",       "train.stall_end",     "train.price",
    "env.timeout"};
constexpr std::string_view kTraces = "trace.";

std::string speed_text(double steps_per_second) { return printed("%.0f", steps_per_second); }

std::string memory_text(int64_t bytes) { return bytes > 0 ? bytes_text(bytes) : "-"; }

std::string ratio_text(double ratio) { return printed("%.3f", ratio); }

}  // namespace

std::string Arm::name() const { return changes.empty() ? "as given" : joined(changes, " "); }

Timing Arm::step() const {
  Timing step{.suite = "run", .name = "step"};
  for (const RunSpeed& round : rounds)
    step.seconds.insert(step.seconds.end(), round.step.seconds.begin(), round.step.seconds.end());
  return step;
}

RunSpeed Arm::speed() const {
  RunSpeed all = rounds.back();
  all.step = step();
  for (const RunSpeed& round : rounds) {
    all.peak_bytes = std::max(all.peak_bytes, round.peak_bytes);
    all.device_peak_bytes = std::max(all.device_peak_bytes, round.device_peak_bytes);
  }
  return all;
}

bool unmeasured(std::string_view setting) {
  return setting.starts_with(kTraces) || std::ranges::find(kLeftOut, setting) != std::end(kLeftOut);
}

std::vector<std::string> changes_of(const std::string& against) {
  std::istringstream text(against);
  std::vector<std::string> changes;
  for (std::string word; text >> word;) {
    if (word.find('=') == word.npos)
      throw Error("[bench] --against takes name=value, several by spaces, got '" + word + "' in '" +
                  against + "'; lists have no spaces: [64,64]");
    if (unmeasured(name_part(word)))
      throw Error("[bench] --against " + word +
                  " changes nothing that is measured: bench run trains in memory alone, as long as "
                  "--seconds says; leave it out");
    changes.push_back(std::move(word));
  }
  if (changes.empty())
    throw Error("[bench] --against takes name=value, several by spaces, got '" + against + "'");
  return changes;
}

std::vector<std::string> settle_arm(Arm& arm, const Experiment& experiment,
                                    const std::vector<Arm>& before) {
  for (const Field& field : experiment.table().fields())
    arm.settings.emplace_back(field.name, field.text());
  for (const Arm& other : before)
    if (other.settings == arm.settings)
      throw Error("[bench] --against '" + arm.name() + "' is what '" + other.name() +
                  "' is already; give another value");
  if (before.empty()) return {};

  // what differs and does not matter
  const RunOptions& run = experiment.run;
  const IdleSettings idle(experiment, place(run.device, run.threads, run.precision));
  std::vector<std::string> lines;
  size_t differing = 0;
  for (size_t i = 0; i < arm.settings.size(); ++i) {
    const auto& [name, value] = arm.settings[i];
    if (before[0].settings[i].second == value) continue;
    ++differing;
    if (const std::string why = idle.why(name); !why.empty())
      lines.push_back(name + "=" + value + " changes nothing here: " + why);
  }
  if (lines.size() == differing)
    throw Error("[bench] --against '" + arm.name() + "': " + joined(lines, "; ") +
                "; give what changes something");
  return lines;
}

void measure_in_turn(std::vector<Arm>& arms, int rounds, double seconds) {
  for (int round = 0; round < rounds; ++round)
    for (size_t turn = 0; turn < arms.size(); ++turn) {
      // there and back: what an arm leaves behind does not always meet the same one
      Arm& arm = arms[round % 2 ? arms.size() - 1 - turn : turn];
      std::string said;
      try {
        said = measure_round(arm.words, seconds);
      } catch (const Error& failed) {
        throw Error(arm.name() + ": " + failed.what());
      }
      arm.rounds.push_back(speed_of_line(said));
      std::fprintf(stderr, "%s: %s steps/s\n", arm.name().c_str(),
                   speed_text(1 / arm.rounds.back().step.seconds[0]).c_str());
    }
}

ArmComparison beside(const Arm& arm, const Arm& first, double threshold) {
  const Timing ours = arm.step(), theirs = first.step();
  ArmComparison found{.ratios = {}, .ratio = 0, .interval = {}, .verdict = Verdict::same};
  for (size_t i = 0; i < std::min(ours.seconds.size(), theirs.seconds.size()); ++i)
    found.ratios.push_back(theirs.seconds[i] / ours.seconds[i]);
  const TimingSummary summary = summary_of({.suite = "", .name = "", .seconds = found.ratios});
  found.ratio = summary.median, found.interval = summary.interval;
  if (summary.is_range) found.verdict = Verdict::too_few;
  else if (found.interval.low > 1 && found.ratio > 1 + threshold) found.verdict = Verdict::faster;
  else if (found.interval.high < 1 && 1 / found.ratio > 1 + threshold)
    found.verdict = Verdict::slower;
  return found;
}

std::string arms_text(const std::vector<Arm>& arms, double threshold, const Terminal& terminal) {
  const std::string interval = interval_name(summary_of(arms[0].step()));
  Table table({"settings", ">steps/s", ">" + interval, ">iteration", ">peak memory", ">on the GPU",
               ">x first", ">" + interval, "verdict"});
  std::string by_round;
  for (const Arm& arm : arms) {
    const RunSpeed speed = arm.speed();
    const TimingSummary step = summary_of(speed.step);
    // the longest step is the lowest speed
    std::vector<std::string> cells = {
        arm.name(),
        speed_text(1 / step.median),
        speed_text(1 / step.interval.high) + " to " + speed_text(1 / step.interval.low),
        seconds_text(step.median * double(speed.steps_per_iteration)),
        memory_text(speed.peak_bytes),
        memory_text(speed.device_peak_bytes)};
    if (arm.changes.empty()) {
      cells.insert(cells.end(), {"-", "-", "-"});
    } else {
      const ArmComparison found = beside(arm, arms[0], threshold);
      cells.insert(cells.end(),
                   {ratio_text(found.ratio),
                    ratio_text(found.interval.low) + " to " + ratio_text(found.interval.high),
                    name_of(found.verdict)});
      by_round += arm.name() + ", round by round:";
      for (const double ratio : found.ratios) by_round += " " + ratio_text(ratio);
      by_round += "\n";
    }
    table.add(std::move(cells));
  }
  return table.text(terminal) + by_round;
}

std::string arms_json(const std::vector<Arm>& arms, double threshold, const std::string& machine) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const Arm& arm : arms) {
    const RunSpeed speed = arm.speed();
    const TimingSummary summary = summary_of(speed.step);
    Json settings = Json::object();
    for (const auto& [name, value] : arm.settings) settings[name] = value;
    Json one = {{"changes", arm.changes},
                {"settings", settings},
                {"device", speed.device},
                {"seconds", speed.step.seconds},
                {"steps_per_second", 1 / summary.median},
                {"low", 1 / summary.interval.high},
                {"high", 1 / summary.interval.low},
                {"steps_per_iteration", speed.steps_per_iteration},
                {"seconds_per_iteration", summary.median * double(speed.steps_per_iteration)},
                {"peak_mib", mib(speed.peak_bytes)}};
    if (speed.device_peak_bytes > 0) one["device_peak_mib"] = mib(speed.device_peak_bytes);
    if (!arm.changes.empty()) {
      const ArmComparison found = beside(arm, arms[0], threshold);
      one["ratios"] = found.ratios;
      one["ratio"] = found.ratio;
      one["ratio_low"] = found.interval.low, one["ratio_high"] = found.interval.high;
      one["verdict"] = name_of(found.verdict);
    }
    all.push_back(std::move(one));
  }
  return Json{{"machine", machine}, {"arms", all}}.dump(2) + "\n";
}

std::string line_of(const RunSpeed& speed) {
  return nlohmann::ordered_json{{"name", speed.step.name},
                                {"seconds", speed.step.seconds},
                                {"steps_per_iteration", speed.steps_per_iteration},
                                {"warmup_seconds", speed.warmup_s},
                                {"peak_bytes", speed.peak_bytes},
                                {"device_peak_bytes", speed.device_peak_bytes},
                                {"device", speed.device}}
             .dump() +
         "\n";
}

RunSpeed speed_of_line(const std::string& line) {
  try {
    const auto json = nlohmann::json::parse(line);
    return {.step = {.suite = "run", .name = json.at("name"), .seconds = json.at("seconds")},
            .warmup_s = json.at("warmup_seconds"),
            .steps_per_iteration = json.at("steps_per_iteration"),
            .peak_bytes = json.at("peak_bytes"),
            .device_peak_bytes = json.at("device_peak_bytes"),
            .device = json.at("device")};
  } catch (const nlohmann::json::exception&) {
    throw Error("[bench] a run must end with its figures as --lines prints them, got '" + line +
                "'");
  }
}

}  // namespace maglev::verbs::bench
