#pragma once
// What a column's type is called by torch.

#include <c10/core/ScalarType.h>

#include "base/core/error.h"
#include "base/env/spec.h"

namespace maglev {

inline at::ScalarType scalar_type(DType type) {
  switch (type) {
    case DType::u8:
      return at::kByte;
    case DType::i32:
      return at::kInt;
    case DType::f32:
      return at::kFloat;
  }
  MAGLEV_ASSERT(false, "every DType has a scalar type");
  return at::kFloat;
}

}  // namespace maglev
