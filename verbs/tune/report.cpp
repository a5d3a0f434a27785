#include "verbs/tune/report.h"

#include <algorithm>
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/core/printed.h"
#include "base/core/words.h"
#include "engine/host/system.h"
#include "verbs/table.h"

namespace maglev::verbs::tune {
namespace {

std::string times(double share) { return printed("%.2f", share); }
std::string steps(double speed) { return printed(speed < 100 ? "%.1f" : "%.0f", speed); }

constexpr const char* kStates[] = {"measured", "does not fit", "failed", "too slow", "left out"};
// before the reason of a row without a figure
constexpr const char* kWithout[] = {
    "", "not run: ", "failed: ", "too slow to measure in this budget: ", ""};
constexpr size_t kMostNamed = 8;  // of what was left out

// what was not measured, by why, in the order in which it would have been
std::string left_out_text(const Outcome& outcome) {
  std::map<std::string, std::vector<std::string>> by_why;
  for (const Row& row : outcome.rows)
    if (row.state == State::left_out) by_why[row.why].push_back(settings_text(row.candidate));
  std::string text;
  for (auto& [why, names] : by_why) {
    const size_t count = names.size();
    names.resize(std::min(count, kMostNamed));
    text += std::to_string(count) + " more not measured, " + why + ": " + joined(names) +
            (count > kMostNamed ? " and " + std::to_string(count - kMostNamed) + " more" : "") +
            "\n";
  }
  return text;
}

/// How many times as fast as the settings as they were a row is. What was measured beside them at
/// another moment is set beside the same figure, so that rows can be compared.
double times_of(const Row& row, const Outcome& outcome) {
  return row.finals.empty() ? row.gain : row.median() / outcome.rows[0].median();
}

/// How many times as fast as the settings as they were what was chosen is.
double gain_of(const Outcome& outcome) {
  return outcome.rows[outcome.chosen].median() / outcome.rows[0].median();
}

}  // namespace

std::string settings_text(const Candidate& candidate) {
  std::string text;
  for (const Setting& one : candidate)
    text += (text.empty() ? "" : " ") + one.name + "=" + one.value;
  return text.empty() ? "as they are" : text;
}

std::string table_text(const Outcome& outcome, const Terminal& terminal) {
  std::vector<const Row*> rows;
  for (const Row& row : outcome.rows)
    if (row.state != State::left_out) rows.push_back(&row);
  std::ranges::stable_sort(rows, [](const Row* a, const Row* b) {
    if (a->state != b->state) return a->state < b->state;
    // those of the finals were measured longer
    if (a->finals.empty() != b->finals.empty()) return b->finals.empty();
    return a->finals.empty() ? a->gain > b->gain : a->median() > b->median();
  });
  Table table({"settings", ">planned", ">peak", ">steps/s", ">x", "why"});
  for (const Row* row : rows) {
    const bool known = row->state == State::measured;
    const double before = outcome.rows[0].median(), gain = times_of(*row, outcome);
    table.add({settings_text(row->candidate), row->bytes ? bytes_text(row->bytes) : "-",
               row->peak_bytes ? bytes_text(row->peak_bytes) : "-",
               known ? steps(gain * before) : "-", known ? times(gain) : "-",
               kWithout[size_t(row->state)] + row->why});
  }
  return table.text(terminal) + left_out_text(outcome);
}

std::string verdict_text(const Outcome& outcome) {
  const Row &chosen = outcome.rows[outcome.chosen], &before = outcome.rows[0];
  if (outcome.chosen == 0)
    return "the settings as they are: " + steps(before.median()) + " steps/s, " + before.why;
  return settings_text(chosen.candidate) + ": " + times(gain_of(outcome)) + " times as fast, " +
         steps(before.median()) + " -> " + steps(chosen.median()) + " steps/s";
}

std::string tuned_json(const Tuned& tuned) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array(),
                         settings = nlohmann::ordered_json::object();
  for (const Row& row : tuned.outcome.rows) {
    nlohmann::ordered_json changes = nlohmann::ordered_json::object();
    for (const Setting& one : row.candidate) changes[one.name] = one.value;
    const double times = times_of(row, tuned.outcome);
    rows.push_back({{"settings", changes},
                    {"state", kStates[size_t(row.state)]},
                    {"planned_bytes", row.bytes},
                    {"peak_bytes", row.peak_bytes},
                    {"steps_per_second", times * tuned.outcome.rows[0].median()},
                    {"gain", times},
                    {"finals", row.finals},
                    {"why", row.why}});
  }
  for (const Setting& one : tuned.settings) settings[one.name] = one.value;
  return nlohmann::ordered_json{{"made", tuned.made},
                                {"settings", settings},
                                {"gain", gain_of(tuned.outcome)},
                                {"noise", tuned.outcome.noise},
                                {"seconds", tuned.outcome.seconds},
                                {"rows", rows}}
             .dump(2) +
         "\n";
}

std::string profile_yaml(const Tuned& tuned, const std::string& title) {
  std::string text = "# " + title + "\n# " + verdict_text(tuned.outcome) + "\n";
  // dotted names are read as nested ones are
  for (const Setting& one : tuned.settings) text += one.name + ": " + one.value + "\n";
  return text;
}

}  // namespace maglev::verbs::tune
