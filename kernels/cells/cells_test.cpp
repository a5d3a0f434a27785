#include "kernels/cells/cells.h"

#include <gtest/gtest.h>

#include "base/core/philox.h"

namespace maglev {
namespace {

struct Packed {
  int bits;
  int64_t rows, cells, channels;
  int64_t row_bytes() const { return (cells * bits + 7) / 8; }
};

std::vector<uint8_t> random_bytes(int64_t count) {
  Rng rng(5, stream_id(Purpose::env, 0), 0);
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (auto& byte : bytes) byte = uint8_t(rng.bits());
  return bytes;
}

// a palette that tells every code and channel apart
std::vector<float> numbered(const Packed& p) {
  std::vector<float> palette(size_t((int64_t(1) << p.bits) * p.channels));
  for (size_t i = 0; i < palette.size(); ++i) palette[i] = float(i) + 1;
  return palette;
}

TEST(Cells, every_cell_gets_the_channels_of_its_code) {
  for (const Packed& p : {Packed{2, 5, 121, 2},
                          {1, 3, 9, 1},
                          {4, 4, 121, 7},
                          {8, 7, 5, 3},
                          {2, 1, 1, 1},
                          {2, 9, 16, 40},
                          {1, 300, 121, 5}}) {
    const auto packed = random_bytes(p.rows * p.row_bytes());
    const auto palette = numbered(p), table = cell_table(p.bits, p.channels, palette);
    const int64_t count = p.rows * p.cells * p.channels;
    // what lies behind the output must stay as it is
    std::vector<float> out(size_t(count) + 64, -1.f);
    const CellsArgs<float> args{packed.data(), table.data(), out.data(), p.rows,
                                p.row_bytes(), p.cells,      p.channels, p.bits};
    cells_cpu(args);
    for (int64_t row = 0; row < p.rows; ++row)
      for (int64_t cell = 0; cell < p.cells; ++cell) {
        const int64_t bit = cell * p.bits;
        const int code =
            (packed[size_t(row * p.row_bytes() + bit / 8)] >> (bit % 8)) & ((1 << p.bits) - 1);
        for (int64_t c = 0; c < p.channels; ++c)
          ASSERT_EQ(out[size_t((row * p.cells + cell) * p.channels + c)],
                    palette[size_t(code * p.channels + c)])
              << p.bits << " bits, row " << row << " cell " << cell;
      }
    for (size_t i = size_t(count); i < out.size(); ++i) ASSERT_EQ(out[i], -1.f) << p.bits;
    for (int64_t e = 0; e < count; ++e) ASSERT_EQ(cell_element(args, e), out[size_t(e)]);
  }
}

TEST(Cells, codes_beyond_the_palette_are_0) {
  const auto table = cell_table(2, 2, {1, 2, 3, 4});
  const uint8_t byte = 0b11'10'01'00;
  float out[8];
  cells_cpu(CellsArgs<float>{&byte, table.data(), out, 1, 1, 4, 2, 2});
  const float expected[8] = {1, 2, 3, 4, 0, 0, 0, 0};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], expected[i]);
}

TEST(Cells, halves_are_decoded_as_wholes_are) {
  const Packed p{2, 6, 121, 2};
  const auto packed = random_bytes(p.rows * p.row_bytes());
  const auto table = cell_table(p.bits, p.channels, numbered(p));
  std::vector<uint16_t> small(table.begin(), table.end()), out(size_t(p.rows * 242));
  const CellsArgs<uint16_t> args{packed.data(), small.data(), out.data(), p.rows,
                                 p.row_bytes(), p.cells,      p.channels, p.bits};
  cells_cpu(args);
  for (size_t e = 0; e < out.size(); ++e) ASSERT_EQ(out[e], cell_element(args, int64_t(e)));
}

}  // namespace
}  // namespace maglev
