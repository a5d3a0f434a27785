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

void StateVisitor::visit_pieces(const std::string& name, const std::shared_ptr<InPieces>& all) {
  at::Tensor whole = all->like();
  if (!sees_values()) return visit_tensor(name, whole);
  whole = at::empty(whole.sizes(), whole.options());
  const auto for_each = [&](const auto& turn) {
    for (int64_t i = 0, begin = 0; i < all->count(); ++i) {
      const int64_t length = all->like(i).size(0);
      at::Tensor piece = whole.narrow(0, begin, length);
      turn(i, piece);
      begin += length;
    }
  };
  if (!loads()) for_each([&](int64_t i, at::Tensor& piece) { piece.copy_(all->get(i)); });
  visit_tensor(name, whole);
  if (loads()) for_each([&](int64_t i, at::Tensor& piece) { all->put(i, piece); });
}

void check_range(const std::string& name, const at::Tensor& values, int64_t min, int64_t max) {
  if (values.numel() == 0) return;
  const int64_t low = values.min().item<int64_t>(), high = values.max().item<int64_t>();
  if (low < min || high > max) out_of_range(name, low < min ? low : high, min, max);
}

}  // namespace maglev
