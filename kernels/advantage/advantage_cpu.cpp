#include "kernels/advantage/advantage.h"

#include <algorithm>

namespace maglev {
namespace {

// independent sums, so that additions need not wait for each other
constexpr int64_t kLanes = 8;

double sum_of_lanes(const double* lane) {
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

}  // namespace

AdvantagePartial advantage_partial(const AdvantageArgs& args, int64_t chunk) {
  const int64_t begin = chunk * kAdvantageChunk;
  const int64_t rows = std::min(kAdvantageChunk, args.count - begin);
  float advantage[kAdvantageChunk], valid[kAdvantageChunk];
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = args.index ? args.index[begin + r] : begin + r;
    advantage[r] = args.advantage[i], valid[r] = args.valid[i];
  }
  // padded with rows that do not count
  const int64_t padded = (rows + kLanes - 1) / kLanes * kLanes;
  std::fill(advantage + rows, advantage + padded, 0.f);
  std::fill(valid + rows, valid + padded, 0.f);
  double count[kLanes] = {}, sum[kLanes] = {}, squares[kLanes] = {};
  for (int64_t r = 0; r < padded; r += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) {
      count[l] += double(valid[r + l]);
      sum[l] += double(advantage[r + l]) * double(valid[r + l]);
    }
  AdvantagePartial out{.count = sum_of_lanes(count), .mean = 0, .squares = 0};
  out.mean = sum_of_lanes(sum) / std::max(out.count, 1.0);
  for (int64_t r = 0; r < padded; r += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) {
      const double centred = (double(advantage[r + l]) - out.mean) * double(valid[r + l]);
      squares[l] += centred * centred;
    }
  out.squares = sum_of_lanes(squares);
  return out;
}

}  // namespace maglev
