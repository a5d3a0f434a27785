#include "engine/data/state.h"

#include <ATen/ATen.h>

#include "base/core/error.h"

namespace maglev {
namespace {

[[noreturn]] void out_of_range(const std::string& name, int64_t value, int64_t min, int64_t max) {
  throw Error("[state] '" + name + "' must lie in " + std::to_string(min) + " to " +
              std::to_string(max) + ", the checkpoint says " + std::to_string(value) +
              "; it was changed since it was saved, use an earlier one");
}

}  // namespace

void StateVisitor::integer(const std::string& name, int64_t& value, int64_t min, int64_t max) {
  visit_integer(prefix_ + name, value);
  if (value < min || value > max) out_of_range(prefix_ + name, value, min, max);
}

void check_range(const std::string& name, const at::Tensor& values, int64_t min, int64_t max) {
  if (values.numel() == 0) return;
  const int64_t low = values.min().item<int64_t>(), high = values.max().item<int64_t>();
  if (low < min || high > max) out_of_range(name, low < min ? low : high, min, max);
}

}  // namespace maglev
