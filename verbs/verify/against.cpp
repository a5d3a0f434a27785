#include "verbs/verify/against.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/words.h"
#include "base/metrics/rows.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/manifest.h"
#include "engine/run/run_settings.h"
#include "engine/run/stored_experiment.h"

namespace maglev::verbs::verify {
namespace {

constexpr size_t kMostTold = 8;
constexpr std::string_view kVersions[] = {"maglev",
                                          "git commit",
                                          "plug-ins",
                                          "torch",
                                          "device",
                                          "processor",
                                          "processors this process may use",
                                          "system",
                                          "kernel"};
using Texts = std::map<std::string, std::string>;

// names that have other values in the two, or are in one alone: "threads 1 and 2"
Comparison compare_texts(const char* name, const Texts& ours, const Texts& theirs) {
  std::vector<std::string> apart;
  const auto value = [](const Texts& texts, const std::string& of) {
    const auto found = texts.find(of);
    return found == texts.end() ? "none" : found->second.empty() ? "\"\"" : found->second;
  };
  Texts names = ours;
  names.insert(theirs.begin(), theirs.end());
  for (const auto& [of, unused] : names)
    if (value(ours, of) != value(theirs, of))
      apart.push_back(of + " " + value(ours, of) + " and " + value(theirs, of));
  const size_t more = apart.size() - std::min(apart.size(), kMostTold);
  apart.resize(apart.size() - more);
  std::string what;
  for (const std::string& one : apart) what += (what.empty() ? "" : "; ") + one;
  if (more > 0) what += "; and " + std::to_string(more) + " more";
  if (what.empty()) what = std::to_string(names.size()) + " are the same";
  return {name, apart.empty(), /*learned=*/false, what};
}

// as each run goes on; hardware's profile is among them by what it set
Texts settings_of(const Experiment& experiment) {
  Texts texts;
  for (auto& [name, value] : named_settings(experiment.table().yaml())) texts[name] = value;
  texts["algorithm"] = experiment.algo().name;
  texts["environment"] = experiment.env().name;
  return texts;
}

// "- torch: 2.13.0" of reproduce.md; a resume adds its own, "2.13.0, then 2.14.0"
Texts versions_of(const std::string& run) {
  Texts texts;
  const std::string file = run + "/reproduce.md";
  if (!path_exists(file)) return texts;
  read_lines(file, [&](std::string_view line) {
    const size_t colon = line.find(": ");
    if (!line.starts_with("- ") || colon == line.npos) return;
    const std::string_view name = line.substr(2, colon - 2);
    if (std::ranges::find(kVersions, name) == std::end(kVersions)) return;
    const std::string value(line.substr(colon + 2));
    std::string& all = texts[std::string(name)];
    if (all.empty()) all = value;
    else if (all != value && !all.ends_with(", then " + value)) all += ", then " + value;
  });
  return texts;
}

bool is_of_machine(std::string_view column) {
  return column == "seconds" || column == "steps_per_second" || column.starts_with("time/") ||
         column.starts_with("memory/") || column.starts_with("machine/");
}

// by step: a run that was resumed tells of a step again, and the last word holds
std::map<double, std::map<std::string, double>> figures_of(const std::string& run) {
  std::map<double, std::map<std::string, double>> rows;
  each_metric_row(run, [&](const MetricReader& row) {
    for (const auto& figure : row.figures()) {
      const std::string& column = row.columns()[figure.column];
      if (!is_of_machine(column)) rows[row.step()][column] = figure.value;
    }
  });
  return rows;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::string steps_text(double step) { return printed("step %.0f", step); }

// none: no step has a row in both
std::optional<Comparison> compare_metrics(const std::string& run, const std::string& other) {
  const auto ours = figures_of(run), theirs = figures_of(other);
  int64_t rows = 0;
  double last = 0;
  std::set<std::string> ours_alone, theirs_alone;
  for (const auto& [step, figures] : ours) {
    const auto found = theirs.find(step);
    if (found == theirs.end()) continue;
    for (const auto& [column, value] : figures) {
      const auto figure = found->second.find(column);
      if (figure == found->second.end()) {
        ours_alone.insert(column);
        continue;
      }
      if (same(value, figure->second)) continue;
      const std::string before =
          rows > 0 ? "the same up to " + steps_text(last) + "; then " : std::string();
      return Comparison{"metrics", false, /*learned=*/true,
                        before + "at " + steps_text(step) + " " + column +
                            printed(" is %.9g", value) + printed(" and %.9g", figure->second)};
    }
    for (const auto& [column, value] : found->second)
      if (!figures.contains(column)) theirs_alone.insert(column);
    rows += 1, last = step;
  }
  if (rows == 0) return std::nullopt;
  std::string what = std::to_string(rows) + " rows are the same, the last at " + steps_text(last);
  for (const auto& [whose, its] : {std::pair{"the first", &ours}, std::pair{"the other", &theirs}})
    if (its->rbegin()->first > last)
      what += std::string("; ") + whose + " goes on to " + steps_text(its->rbegin()->first);
  for (const auto& [whose, columns] :
       {std::pair{"the first", &ours_alone}, std::pair{"the other", &theirs_alone}})
    if (!columns->empty())
      what +=
          std::string("; ") + whose + " alone has " + joined({columns->begin(), columns->end()});
  return Comparison{"metrics", true, /*learned=*/true, what};
}

// how far apart the two are in their f32 numbers; "" of others
std::string distance_text(const std::string& ours, const std::string& theirs,
                          const std::string& name) {
  const auto numbers = [&](const std::string& dir) {
    const FileReader file(dir + "/" + kStateFile);
    const SafeTensors tensors = parse_safetensors(file);
    const SafeTensor* tensor = tensors.find(name);
    std::vector<float> values;
    if (!tensor || tensor->dtype != SafeDType::f32) return values;
    values.resize(tensor->bytes / sizeof(float));
    file.read(tensor->begin, std::as_writable_bytes(std::span(values)));
    return values;
  };
  const std::vector<float> a = numbers(ours), b = numbers(theirs);
  if (a.empty() || a.size() != b.size()) return "";
  size_t apart = 0, farthest = 0;
  double most = -1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i])) continue;
    apart += 1;
    const double distance = std::abs(double(a[i]) - double(b[i]));
    // what is no number is as far away as can be
    if (std::isnan(distance) || distance > most)
      most = std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance,
      farthest = i;
  }
  return " in " + std::to_string(apart) + " of " + std::to_string(a.size()) +
         printed(" numbers, most where they are %.9g", a[farthest]) +
         printed(" and %.9g", b[farthest]);
}

// by name, in whose order a state is saved: numbers and texts as they are, tensors by their hash
Texts values_of(const StateSummary& state) {
  Texts values;
  for (const auto& [name, value] : state.integers) values[name] = std::to_string(value);
  for (const auto& [name, value] : state.reals) values[name] = printed("%.17g", value);
  for (const auto& [name, value] : state.texts) values[name] = value;
  for (const auto& [name, tensor] : state.tensors)
    values[name] = tensor.info.shape_text() + " " + tensor.hash;
  return values;
}

Comparison compare_states(const CheckpointRow& ours, const CheckpointRow& theirs) {
  const Manifest a = read_manifest(ours.path), b = read_manifest(theirs.path);
  const Texts left = values_of(a.state), right = values_of(b.state);
  size_t apart = 0;
  std::string first, how;
  for (const auto& [name, value] : left) {
    const auto found = right.find(name);
    if (found != right.end() && found->second == value) continue;
    if (apart++ > 0) continue;
    first = name;
    if (found == right.end()) how = ", which the other lacks";
    else if (a.state.tensors.contains(name)) how = distance_text(ours.path, theirs.path, name);
    else how = ", " + value + " and " + found->second;
  }
  for (const auto& [name, value] : right)
    if (!left.contains(name) && apart++ == 0) first = name, how = ", which the first lacks";
  if (apart == 0) return {"checkpoints", true, /*learned=*/true, ""};
  return {"checkpoints", false, /*learned=*/true,
          "at " + steps_text(double(ours.identity.step)) + " " + std::to_string(apart) + " of " +
              std::to_string(left.size()) + " parts of the state differ, the first is " + first +
              how};
}

// none: no step has a checkpoint in both
std::optional<Comparison> compare_checkpoints(const std::string& run, const std::string& other) {
  std::map<int64_t, CheckpointRow> theirs;
  for (CheckpointRow& row : CheckpointStore(other, 0).list()) theirs[row.identity.step] = row;
  int64_t count = 0, last = 0;
  for (const CheckpointRow& row : CheckpointStore(run, 0).list()) {
    const auto found = theirs.find(row.identity.step);
    if (found == theirs.end()) continue;
    Comparison compared = compare_states(row, found->second);
    if (!compared.same) {
      if (count > 0)
        compared.what = "the same up to " + steps_text(double(last)) + "; then " + compared.what;
      return compared;
    }
    count += 1, last = row.identity.step;
  }
  if (count == 0) return std::nullopt;
  return Comparison{
      "checkpoints", true, /*learned=*/true,
      std::to_string(count) + " are the same, the last at " + steps_text(double(last))};
}

}  // namespace

std::vector<Comparison> compare_runs(const std::string& run, const std::string& other) {
  const auto ours = experiment_of(run), theirs = experiment_of(other);
  std::vector<Comparison> compared{
      compare_texts("settings", settings_of(*ours), settings_of(*theirs)),
      compare_texts("versions", versions_of(run), versions_of(other))};
  const auto metrics = compare_metrics(run, other);
  const auto checkpoints = compare_checkpoints(run, other);
  if (!metrics && !checkpoints)
    throw Error("[verify] " + run + " and " + other +
                " have neither a row of metrics nor a checkpoint at the same step; train both with "
                "the same train.log_every and train.save_every");
  for (const auto& one : {metrics, checkpoints})
    if (one) compared.push_back(*one);
  return compared;
}

}  // namespace maglev::verbs::verify
