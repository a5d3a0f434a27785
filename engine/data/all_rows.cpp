#include "engine/data/all_rows.h"

#include <ATen/ATen.h>

namespace maglev {

void AllRows::visit_rows(const std::string& name, at::Tensor& value) {
  if (!to_.loads()) {
    // what steps on the host lies there also where networks do not
    at::Tensor all = gathered(&group_, value.detach().to(group_.device())).to(value.device());
    return to_.tensor(name, all);
  }
  std::vector<int64_t> shape = value.sizes().vec();
  const int64_t rows = shape[0];
  shape[0] *= group_.size();
  at::Tensor all = at::empty(shape, value.options());
  to_.tensor(name, all);
  value.detach().copy_(all.narrow(0, group_.rank() * rows, rows));
}

}  // namespace maglev
