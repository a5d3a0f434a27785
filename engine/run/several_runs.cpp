#include "engine/run/several_runs.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/core/file.h"
#include "base/core/printed.h"
#include "engine/run/run_dir.h"

namespace maglev {
namespace {

constexpr const char *kSweep = "/sweep.json", *kSeeds = "/seeds.json";
constexpr size_t kMaxScoresBytes = size_t(16) << 20;
constexpr size_t kMostNamed = 5;

struct Scored {
  std::string run;
  double score = NAN;    // none is known
  bool at_rung = false;  // it was stopped early
};

// null where it is missing or damaged: what a run came to is then not known, and there it lies
nlohmann::json json_at(const std::string& path) {
  if (!path_exists(path)) return {};
  return nlohmann::json::parse(read_file(path, kMaxScoresBytes), nullptr,
                               /*allow_exceptions=*/false);
}

double number_in(const nlohmann::json& json, const char* name) {
  if (!json.is_object() || !json.contains(name) || !json[name].is_number()) return NAN;
  return json[name].get<double>();
}

std::vector<Scored> trials_of(const std::string& folder) {
  std::vector<Scored> trials;
  for (const std::string& number : list_dir(folder + "/trials")) {
    const std::string trial = folder + "/trials/" + number, run = trial + "/run";
    // each may be several seeds
    if (!is_run(run) && !is_seeds(run)) continue;
    const nlohmann::json json = json_at(trial + "/trial.json");
    trials.push_back(
        {.run = run,
         .score = number_in(json, "score"),
         .at_rung = json.is_object() && json.value("state", nlohmann::json()) == "stopped"});
  }
  return trials;
}

std::vector<Scored> seeds_of(const std::string& folder) {
  const nlohmann::json group = json_at(folder + kSeeds);
  if (!group.is_object() || !group.contains("seeds") || !group["seeds"].is_array()) return {};
  const nlohmann::json& rows = group["seeds"];
  // as seeds are summed up: by what evaluations said where there are any
  const bool evaluated = std::ranges::any_of(
      rows, [](const auto& row) { return !std::isnan(number_in(row, "evaluation")); });
  std::vector<Scored> seeds;
  for (const auto& row : rows) {
    if (!row.is_object() || !row.contains("seed")) continue;
    const std::string run = folder + "/seed-" + row["seed"].dump();
    if (is_run(run)) seeds.push_back({run, number_in(row, evaluated ? "evaluation" : "return")});
  }
  return seeds;
}

// "runs/s/trials/3/run (16.2), runs/s/trials/0/run (11.9) and 4 more"
std::string best_first(std::vector<Scored> runs) {
  std::ranges::stable_sort(runs, [](const Scored& a, const Scored& b) {
    if (std::isnan(a.score) || std::isnan(b.score))
      return !std::isnan(a.score) && std::isnan(b.score);
    return a.at_rung == b.at_rung ? a.score > b.score : b.at_rung;
  });
  std::string text;
  for (size_t i = 0; i < std::min(runs.size(), kMostNamed); ++i)
    text += (i > 0 ? ", " : "") + runs[i].run +
            (std::isnan(runs[i].score)
                 ? ""
                 : printed(runs[i].at_rung ? " (%.4g, stopped early)" : " (%.4g)", runs[i].score));
  if (runs.size() > kMostNamed)
    text += " and " + std::to_string(runs.size() - kMostNamed) + " more";
  return text;
}

Error several(const std::string& folder, const char* what, const char* each,
              const std::vector<Scored>& runs) {
  const std::string begin = "[" + folder + "] is " + what;
  if (runs.empty()) return Error(begin + ", and none of its " + each + " has a run yet");
  return Error(begin + "; name one of its " + each +
               " in its place, best first, with their scores: " + best_first(runs));
}

}  // namespace

bool is_sweep(const std::string& folder) { return path_exists(folder + kSweep); }
bool is_seeds(const std::string& folder) { return path_exists(folder + kSeeds); }

std::optional<Error> several_runs(const std::string& name) {
  for (const std::string& meant : {name, name.substr(0, name.rfind('@'))}) {
    const std::string folder = without_slashes(meant);
    if (is_sweep(folder)) return several(folder, "a sweep", "trials", trials_of(folder));
    if (is_seeds(folder)) return several(folder, "several seeds", "runs", seeds_of(folder));
  }
  return std::nullopt;
}

}  // namespace maglev
