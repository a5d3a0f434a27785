#include "verbs/tune/knobs.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>

#include "base/core/error.h"
#include "engine/train/idle_settings.h"
#include "engine/train/memory_plan.h"
#include "verbs/bench/arms.h"

namespace maglev::verbs::tune {
namespace {

// what a whole number may become, as shares of what it is
constexpr double kFactors[] = {0.5, 2, 0.25, 4, 8};
// where it is 0, which stands for "chosen"
constexpr int64_t kChosen[] = {64, 256, 1024};

constexpr std::string_view kMicroBatch = ".micro_batch", kShard = ".shard";

// processes that step environments, where 0 is one for each processor: powers of two, as many as
// there are environments, and as may wait while others compute
std::vector<std::string> worker_counts(const OptionTable& table, const Field& field) {
  constexpr int64_t kEachProcessor = 4;
  const int64_t all = place("cpu", 0).threads, now = *field.whole_number();
  const Field* count = table.find("env.count");
  const int64_t most =
      std::min(count ? count->whole_number().value_or(1) : 1, kEachProcessor * all);
  std::vector<std::string> counts;
  if (now != 0 && now != all) counts.push_back("0");
  for (int64_t n = 1; n <= most; n *= 2)
    if (n != now && n != all) counts.push_back(std::to_string(n));
  return counts;
}

// powers of two below all, and all, which is 0
std::vector<std::string> thread_counts(int64_t now) {
  const int64_t all = place("cpu", 0).threads;
  std::vector<std::string> counts;
  if (now != 0 && now != all) counts.push_back("0");
  for (int64_t n = 1; n < all; n *= 2)
    if (n != now) counts.push_back(std::to_string(n));
  return counts;
}

// halves of what an update learns from, down to one; those that take no less are planned and not
// run
std::vector<std::string> shares_of_batch(const OptionTable& table, const std::string& setting) {
  const Field* batch = table.find(setting.substr(0, setting.find('.')) + ".batch");
  std::vector<std::string> values;
  for (int64_t rows = batch ? batch->whole_number().value_or(0) / 2 : 0; rows > 0; rows /= 2)
    values.push_back(std::to_string(rows));
  return values;
}

std::vector<std::string> values_of(const OptionTable& table, const Field& field) {
  if (field.name == "threads") return thread_counts(*field.whole_number());
  if (field.name == "env.workers") return worker_counts(table, field);
  const bool of_batch = field.name.ends_with(kMicroBatch) || field.name.ends_with(kShard);
  if (of_batch && field.plain() == "0") return shares_of_batch(table, field.name);
  std::vector<std::string> values;
  if (const auto* value = std::get_if<bool*>(&field.member)) {
    values.push_back(**value ? "false" : "true");
  } else if (const auto* choice = std::get_if<ChoiceMember>(&field.member)) {
    for (const std::string name : choice->names)
      if (name != "auto" && name != field.plain()) values.push_back(name);
  } else if (const auto number = field.whole_number()) {
    const auto add = [&](double value) {
      const std::string text = std::to_string(int64_t(value));
      if (value >= 1 && value >= field.rule.min && value <= field.rule.max &&
          int64_t(value) != *number && !std::ranges::count(values, text))
        values.push_back(text);
    };
    if (*number == 0) std::ranges::for_each(kChosen, add);
    else
      for (double factor : kFactors) add(factor * double(*number));
  }
  return values;
}

// why the setting cannot matter; empty: it may
std::string why_idle(const IdleSettings& idle, const Field& field, bool fits) {
  if (field.origin == Origin::command_line) return "it was given";
  if (field.name.ends_with(kMicroBatch) && fits)
    return "an update fits as it is: parts of it would take longer";
  return idle.why(field.name);
}

}  // namespace

Knobs knobs_of(const Experiment& experiment, const Placement& placement,
               std::span<const std::string> learning) {
  const OptionTable& table = experiment.table();
  const IdleSettings idle(experiment, placement);
  // but for what is pinned, which parts of an update do not change
  const bool fits = plan_memory(experiment, placement).parts_fit();
  Knobs knobs;
  for (const Field& field : table.fields()) {
    // what is free and no matter of speed, such as how long one waits
    if (!field.rule.free || bench::unmeasured(field.name)) continue;
    std::string why = why_idle(idle, field, fits);
    Knob knob{.setting = field.name, .now = field.plain(), .values = values_of(table, field)};
    if (why.empty() && knob.values.empty()) why = "there is one value it can have here";
    if (why.empty()) knobs.searched.push_back(std::move(knob));
    else knobs.idle.push_back({field.name, why});
  }
  for (const std::string& name : learning) {
    const Field* field = table.find(name);
    std::vector<std::string> known;
    for (const Field& each : table.fields()) known.push_back(each.name);
    if (!field) throw Error("[tune] " + unknown_name("setting", name, known) + " (--learning)");
    if (field->rule.free) continue;
    if (bench::unmeasured(name))
      throw Error("[tune] --learning " + name +
                  " changes nothing that is measured: tune trains as in a run that never ends, and "
                  "nothing is written, judged or traced; leave it out");
    Knob knob{.setting = name, .now = field->plain(), .values = values_of(table, *field)};
    if (knob.values.empty())
      throw Error("[tune] --learning takes whole numbers above 0, switches and choices, and " +
                  name + "=" + field->plain() + " is none; leave it out");
    if (std::ranges::none_of(knobs.searched, [&](const Knob& k) { return k.setting == name; }))
      knobs.searched.push_back(std::move(knob));
  }
  // what was asked for by name is not what a short budget leaves out
  std::ranges::stable_partition(knobs.searched, [&](const Knob& knob) {
    return std::ranges::count(learning, knob.setting) > 0;
  });
  return knobs;
}

}  // namespace maglev::verbs::tune
