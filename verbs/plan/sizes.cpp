#include "verbs/plan/sizes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/core/error.h"

namespace maglev::verbs::plan {
namespace {

// a setting that adds less than this share when it is doubled is not worth a line
constexpr double kLeastShare = 0.01;

// what the run would hold with one setting changed; none where it cannot be, or where what is `now`
// in this memory would lie elsewhere
std::optional<int64_t> bytes_with(const Experiment& experiment, const Placement& placement,
                                  const MemoryPlan& now, const Field& field, int64_t value) {
  if (double(value) < field.rule.min || double(value) > field.rule.max) return std::nullopt;
  try {
    Experiment changed(experiment.algo().name, experiment.env().name);
    for (const Field& f : experiment.table().fields())
      changed.table().set(f.name, f.plain(), "plan", Origin::command_line);
    changed.table().set(field.name, std::to_string(value), "plan", Origin::command_line);
    changed.settle();
    const MemoryPlan plan = plan_memory(changed, placement);
    // a replay that moves to the host or a disk no longer counts here
    if (plan.pinned != now.pinned || plan.disk != now.disk) return std::nullopt;
    return plan.total();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<Size> sizes_of(const Experiment& experiment, const Placement& placement,
                           const MemoryPlan& plan) {
  std::vector<std::pair<int64_t, Size>> found;
  for (const Field& field : experiment.table().fields()) {
    const auto now = field.whole_number();
    if (!now || *now <= 0 || *now > std::numeric_limits<int64_t>::max() / 4) continue;
    const auto with = [&](int64_t value) {
      return bytes_with(experiment, placement, plan, field, value);
    };
    const auto twice = with(2 * *now);
    // one that may not grow can still be what is too large
    const auto half = twice ? std::nullopt : with(*now / 2);
    // twice as much takes less where it stops work beside other work: four times as much tells
    const auto more = twice && *twice < plan.total() ? with(4 * *now) : twice;
    const int64_t change = more ? *more - plan.total() : half ? plan.total() - *half : 0;
    if (double(change) < kLeastShare * double(plan.total())) continue;

    Size size{.setting = field.name, .now = *now};
    if (plan.parts_fit()) {
      size.fits = *now, size.bytes = plan.total();
      bool endless = false;
      while (size.fits <= std::numeric_limits<int64_t>::max() / 2) {
        const auto bytes = with(2 * size.fits);
        if (!bytes || *bytes > plan.limit) break;
        // as steps whose replay is full: more of it takes no more memory
        if ((endless = *bytes == size.bytes)) break;
        size.fits *= 2, size.bytes = *bytes;
      }
      if (endless) continue;
    } else {
      for (int64_t value = *now / 2; value >= 1; value /= 2) {
        const auto bytes = with(value);
        if (!bytes) break;
        if (*bytes > plan.limit) continue;
        size.fits = value, size.bytes = *bytes;
        break;
      }
    }
    found.emplace_back(change, size);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Size> sizes;
  for (auto& [change, size] : found) sizes.push_back(std::move(size));
  return sizes;
}

}  // namespace maglev::verbs::plan
