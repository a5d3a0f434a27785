#include "engine/data/all_rows.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace maglev {
namespace {

// of a process's rows that are on their way to the first one: what they take besides
constexpr int64_t kPieceBytes = 16 << 20;

}  // namespace

void AllRows::visit_rows(const std::string& name, at::Tensor& value, int64_t dim) {
  const int64_t own = value.size(dim), rank = group_.rank();
  std::vector<int64_t> shape = value.sizes().vec();
  shape[size_t(dim)] *= group_.size();
  if (!to_.sees_values()) {
    at::Tensor none = at::empty({}, at::TensorOptions(value.scalar_type())).expand(shape);
    return to_.tensor(name, none);
  }
  // a replay of all may be most of a machine, and more than a device: one process has it, on the
  // host, or each a column at a time
  at::Tensor all;
  if (to_.loads() || rank == 0) all = at::empty(shape, at::TensorOptions(value.scalar_type()));
  if (to_.loads()) {
    to_.tensor(name, all);
    value.detach().copy_(all.narrow(dim, rank * own, own));
    return;
  }

  const int64_t length = value.size(0);
  const int64_t each = std::max<int64_t>(1, int64_t(value.nbytes()) / std::max<int64_t>(1, length));
  const int64_t piece = std::max<int64_t>(1, kPieceBytes / each);
  for (int64_t begin = 0; begin < length; begin += piece) {
    const int64_t count = std::min(piece, length - begin);
    // what steps on the host lies there also where networks do not
    const at::Tensor parts =
        group_.gather(value.detach().narrow(0, begin, count).to(group_.device()).contiguous());
    for (int64_t r = 0; all.defined() && r < group_.size(); ++r) {
      at::Tensor place = dim == 0 ? all.narrow(0, r * own + begin, count)
                                  : all.narrow(0, begin, count).narrow(dim, r * own, own);
      place.copy_(parts[r]);
    }
  }
  if (all.defined()) to_.tensor(name, all);
}

}  // namespace maglev
