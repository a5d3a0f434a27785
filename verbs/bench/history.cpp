#include "verbs/bench/history.h"

#include <nlohmann/json.hpp>

#include "base/config/choice.h"
#include "base/core/clock.h"
#include "base/core/version.h"

namespace maglev::verbs::bench {
namespace {

// the longest step is the lowest speed
nlohmann::ordered_json interval_of(const TimingSummary& step) {
  return {1 / step.interval.high, 1 / step.interval.low};
}

}  // namespace

std::string log_line(const Logged& logged) {
  nlohmann::ordered_json line = {{"date", now_in_utc()}, {"what", logged.what}};
  if (!logged.note.empty()) line["note"] = logged.note;
  line["settings"] = logged.settings;
  line["machine"] = logged.machine;
  if (*kEngineCommit) line["commit"] = kEngineCommit;
  line["steps_per_second"] = 1 / logged.step.median;
  // what is no interval is not called one
  line[logged.step.is_range ? "range" : "interval"] = interval_of(logged.step);
  line["seconds_per_iteration"] = logged.step.median * double(logged.run.steps_per_iteration);
  line["peak_mib"] = mib(logged.run.peak_bytes);
  if (logged.run.device_peak_bytes > 0) line["device_peak_mib"] = mib(logged.run.device_peak_bytes);
  if (logged.before) {
    line["before"] = {
        {"what", logged.before->what},
        {"steps_per_second", 1 / logged.before->step.median},
        {logged.before->step.is_range ? "range" : "interval", interval_of(logged.before->step)}};
    line["ratio"] = logged.before->ratio;
    line["verdict"] = name_of(logged.before->verdict);
  }
  return line.dump() + "\n";
}

}  // namespace maglev::verbs::bench
