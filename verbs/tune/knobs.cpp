#include "verbs/tune/knobs.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>

#include "base/core/error.h"
#include "engine/nn/network_entry.h"
#include "engine/train/memory_plan.h"

namespace maglev::verbs::tune {
namespace {

// what a whole number may become, as shares of what it is
constexpr double kFactors[] = {0.5, 2, 0.25, 4, 8};
// where it is 0, which stands for "chosen"
constexpr int64_t kChosen[] = {64, 256, 1024};

constexpr std::string_view kMicroBatch = ".micro_batch";

std::optional<int64_t> whole_number(const Field& field) {
  if (auto* value = std::get_if<int64_t*>(&field.member)) return **value;
  if (auto* value = std::get_if<int32_t*>(&field.member)) return **value;
  return std::nullopt;
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
std::vector<std::string> shares_of_batch(const OptionTable& table, const std::string& micro_batch) {
  const Field* batch = table.find(micro_batch.substr(0, micro_batch.find('.')) + ".batch");
  std::vector<std::string> values;
  for (int64_t rows = batch ? whole_number(*batch).value_or(0) / 2 : 0; rows > 0; rows /= 2)
    values.push_back(std::to_string(rows));
  return values;
}

std::vector<std::string> values_of(const OptionTable& table, const Field& field) {
  if (field.name == "threads") return thread_counts(*whole_number(field));
  if (field.name.ends_with(kMicroBatch) && field.plain() == "0")
    return shares_of_batch(table, field.name);
  std::vector<std::string> values;
  if (const auto* value = std::get_if<bool*>(&field.member)) {
    values.push_back(**value ? "false" : "true");
  } else if (const auto* choice = std::get_if<ChoiceMember>(&field.member)) {
    for (const std::string name : choice->names)
      if (name != "auto" && name != field.plain()) values.push_back(name);
  } else if (const auto number = whole_number(field)) {
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

std::string network_of(const Experiment& experiment) {
  const Field* kind =
      experiment.table().find(std::string(experiment.algo().name) + ".network.kind");
  if (!kind) return "";
  if (kind->plain() != "auto") return kind->plain();
  const EnvSpec spec = experiment.spec();
  for (const NetworkEntry& row : network_table())
    if (row.suits(spec) == Suits::best) return row.name;
  return "";
}

class IdleSettings {
 public:
  IdleSettings(const Experiment& experiment, const Placement& placement)
      : algo_(experiment.algo().name),
        network_(network_of(experiment)),
        table_(experiment.table()),
        on_gpu_(placement.device.is_cuda()),
        fp32_(placement.precision == Precision::fp32),
        fits_(plan_memory(experiment, placement).parts_fit()) {
    ThreadPool pool(1);
    const auto plan = experiment.algo().plan;
    replay_ =
        plan && plan(experiment.algo_options(), context_of(experiment, placement, pool)).replay;
    for (const ObsColumn& column : experiment.spec().observations)
      images_ |= column.shape.size() == 3;
  }

  // why the setting cannot matter; empty: it may
  std::string why(const std::string& name) const {
    const bool of_replay = name == "train.prefetch" || name == "train.replay_memory";
    if (of_replay && !replay_) return algo_ + " has no replay";
    if (name == "train.rollout_memory" && replay_) return algo_ + " has a replay";
    const bool of_gpu =
        name == "train.graph" || name == "train.replay_memory" || name == "train.rollout_memory";
    if (of_gpu && !on_gpu_) return "there is no GPU";
    if (on_gpu_ && name == "train.collect") return "it is for a processor";
    if (name.ends_with(kMicroBatch) && fits_)
      return "an update fits as it is: parts of it would take longer";
    if (name == "ppo.shard_rows" && network_ == "mlp")
      return "fully connected networks learn on panels of 64 rows";
    if (name == "dreamer.fused_images" && !images_) return "nothing is seen as an image";
    const std::string section = algo_ + ".network.";
    if (name.starts_with(section))
      for (const NetworkEntry& row : network_table())
        if (name.starts_with(section + row.name + ".") && row.name != network_)
          return "the network is " + network_;
    if (name == section + "cnn.winograd") return why_no_winograd(section);
    return "";
  }

 private:
  std::string why_no_winograd(const std::string& section) const {
    if (on_gpu_) return "it is for a processor";
    if (!fp32_) return "it is for fp32";
    if (table_.find(section + "activation")->plain() != "relu") return "it needs activation=relu";
    // one that was not given may be switched on by the search
    const Field* fused = table_.find(section + "cnn.fused_layers");
    const bool stays_off = fused->origin == Origin::command_line && fused->plain() == "false";
    return stays_off ? "it needs fused_layers" : "";
  }

  std::string algo_, network_;
  const OptionTable& table_;
  bool on_gpu_, fp32_;
  bool fits_;  ///< but for what is pinned, which parts of an update do not change
  bool replay_ = false, images_ = false;
};

}  // namespace

Knobs knobs_of(const Experiment& experiment, const Placement& placement,
               std::span<const std::string> learning) {
  const OptionTable& table = experiment.table();
  const IdleSettings idle(experiment, placement);
  Knobs knobs;
  for (const Field& field : table.fields()) {
    if (!field.rule.free) continue;
    std::string why = field.origin == Origin::command_line ? "it was given" : idle.why(field.name);
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
    Knob knob{.setting = name, .now = field->plain(), .values = values_of(table, *field)};
    if (knob.values.empty())
      throw Error("[tune] --learning takes whole numbers above 0, switches and choices, and " +
                  name + "=" + field->plain() + " is none; leave it out");
    if (std::ranges::none_of(knobs.searched, [&](const Knob& k) { return k.setting == name; }))
      knobs.searched.push_back(std::move(knob));
  }
  return knobs;
}

}  // namespace maglev::verbs::tune
