#include "engine/data/waiting.h"

#include <ATen/ATen.h>

namespace maglev {

at::Tensor waiting_rows(const at::Tensor& is_first) {
  const int64_t T = is_first.size(0) - 1;
  return at::bitwise_and(is_first.narrow(0, 0, T), is_first.narrow(0, 1, T));
}

}  // namespace maglev
