#include "base/timeline/changes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace maglev {
namespace {

constexpr double kLeastShare = 0.005;

using Figures = std::map<std::pair<std::string, std::string>, double>;

Figures figures_of(const Analysis& analysis, double unit) {
  Figures figures;
  for (const NamedTime& stage : analysis.stages)
    figures[{"stage", stage.name}] += double(stage.self) / unit;
  figures[{"stage", "(outside of stages)"}] += double(analysis.outside) / unit;
  figures[{"stage", "(untraced)"}] += double(analysis.untraced) / unit;
  for (const NamedTime& kernel : analysis.kernels)
    figures[{"kernel", kernel.name}] += double(kernel.self) / unit;
  for (const NamedTime& o : analysis.operations)
    figures[{"operation", o.name}] += double(o.self) / unit;
  for (const UsedTime& device : analysis.devices)
    for (size_t cause = 0; cause < kCauses; ++cause)
      figures[{"idle", device.name + ": " + names_of(Cause())[cause]}] +=
          double(device.idle[cause]) / unit;
  for (const UsedTime& thread : analysis.threads)
    for (size_t cause = 0; cause < kCauses && thread.name == analysis.main_thread; ++cause)
      figures[{"idle", std::string("main thread: ") + names_of(Cause())[cause]}] +=
          double(thread.idle[cause]) / unit;
  return figures;
}

}  // namespace

double Change::relative() const {
  if (before > 0) return now / before - 1;
  return now > 0 ? std::numeric_limits<double>::infinity() : 0;
}

Changes changes_between(const Analysis& before, const Analysis& now) {
  Changes changes;
  changes.per_iteration = before.iterations > 0 && now.iterations > 0;
  const double unit_before = changes.per_iteration ? double(before.iterations) : 1;
  const double unit_now = changes.per_iteration ? double(now.iterations) : 1;
  changes.wall = {"wall", "", double(before.wall) / unit_before, double(now.wall) / unit_now};

  Figures old = figures_of(before, unit_before);
  std::map<std::pair<std::string, std::string>, Change> rows;
  for (const auto& [key, value] : old) rows[key] = {key.first, key.second, value, 0};
  for (const auto& [key, value] : figures_of(now, unit_now)) {
    Change& row = rows[key];
    row.kind = key.first, row.name = key.second, row.now = value;
  }
  for (auto& [key, row] : rows)
    if (std::abs(row.difference()) >= kLeastShare * changes.wall.before)
      changes.rows.push_back(row);
  std::sort(changes.rows.begin(), changes.rows.end(), [](const Change& a, const Change& b) {
    const double x = std::abs(a.difference()), y = std::abs(b.difference());
    return x != y ? x > y : a.kind + a.name < b.kind + b.name;
  });
  return changes;
}

}  // namespace maglev
