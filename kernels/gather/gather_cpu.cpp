#include "kernels/gather/gather.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace maglev {
namespace {

// a size known here is a move, not a call; vectors would not help, the rows' places are what costs
template <int64_t kBytes>
void copy_rows(const std::byte* from, const int64_t* rows, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * kBytes, from + rows[i] * kBytes, size_t(kBytes));
}

void copy_rows(const GatherColumn& column, const int64_t* rows, int64_t begin, int64_t count) {
  const int64_t bytes = column.row_bytes;
  const auto* from = static_cast<const std::byte*>(column.from);
  auto* to = static_cast<std::byte*>(column.to) + begin * bytes;
  switch (bytes) {
    case 1:
      return copy_rows<1>(from, rows, count, to);
    case 4:
      return copy_rows<4>(from, rows, count, to);
    case 8:
      return copy_rows<8>(from, rows, count, to);
    case 16:
      return copy_rows<16>(from, rows, count, to);
    case 32:
      return copy_rows<32>(from, rows, count, to);
    default:
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * bytes, from + rows[i] * bytes, size_t(bytes));
  }
}

}  // namespace

void gather_cpu(const GatherArgs& a) {
  // in blocks, so that a permutation's rows are computed once for all columns
  constexpr int64_t kBlock = 256;
  int64_t computed[kBlock];
  for (int64_t begin = 0; begin < a.B; begin += kBlock) {
    const int64_t count = std::min(kBlock, a.B - begin);
    const int64_t* rows = a.index ? a.index + begin : computed;
    if (!a.index) permutation_cpu(a.order, a.first + begin, count, computed);
    for (int c = 0; c < a.count; ++c) copy_rows(a.columns[c], rows, begin, count);
  }
}

}  // namespace maglev
