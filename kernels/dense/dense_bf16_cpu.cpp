#include "kernels/dense/dense_bf16.h"

#include <array>

#include "base/core/error.h"
#include "base/trace/span.h"

namespace maglev {

void dense_bf16_cpu(const DenseForwardBf16& a) {
  const auto span = trace::kernel("dense_bf16", 4 * a.pairs * a.out * a.rows);
  MAGLEV_ASSERT(int64_t(a.segments.size()) <= kMostSegments, "a layer has few segments");
  std::array<PairPiece, kMostSegments> pieces;
  size_t count = 0;
  // along a row of weights a block follows another
  for (const DenseSegmentBf16& segment : a.segments)
    pieces[count++] = {a.weight + segment.first * kPairBlock, segment.x, segment.pairs};
  multiply_pairs({.pieces = {pieces.data(), count},
                  .a_rows = pair_blocks_size(kPairBlock, a.pairs),
                  .b_row = a.stride,
                  .rows = a.out,
                  // columns up to the next multiple of 16 behind the rows
                  .columns = (a.rows + 15) / 16 * 16,
                  .start = a.start,
                  .start_step = a.start_step,
                  .y = a.sums,
                  .y_row = a.stride});
  if (a.end == DenseEnd::none) return;
  dense_pairs_end_cpu({.end = a.end,
                       .out = a.out,
                       .gain = a.gain,
                       .shift = a.shift,
                       .sums = a.sums,
                       .y = a.y,
                       .stride = a.stride,
                       .rows = a.rows});
}

}  // namespace maglev
