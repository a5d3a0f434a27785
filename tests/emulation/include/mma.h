#pragma once
// Products of tiles by a warp, as the emulated device has them: 16 x 16 x 16 of bf16 with sums in
// f32. Where a tile's numbers lie among the lanes is a device's own affair; here a lane has eight
// that follow each other in a row.

#include <cuda_runtime.h>

struct __nv_bfloat16 {
  uint16_t bits;
};

/// Adds a lane's part of a times b to `sum`, exchanged with the other lanes of its warp.
void emulated_tile_product(const uint16_t (&a)[8], const uint16_t (&b)[8], float (&sum)[8],
                           EmulatedPlace place);
/// Stops the launch unless a tile begins at 32 bytes and its lines are whole 16 bytes.
void emulated_tile_place(const void* tile, size_t line_bytes);

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment {
  static_assert(m == 16 && n == 16 && k == 16, "the one shape that is here");
  static constexpr int num_elements = 8;
  T x[num_elements];
};

inline int emulated_row() { return emulated_lane() / 2; }
inline int emulated_column(int i) { return emulated_lane() % 2 * 8 + i; }

template <class Use, class Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, __nv_bfloat16, Layout>& to,
                      const __nv_bfloat16* tile, unsigned line) {
  emulated_tile_place(tile, line * sizeof *tile);
  const size_t row = size_t(emulated_row());
  for (int i = 0; i < to.num_elements; ++i) {
    const auto column = size_t(emulated_column(i));
    to.x[i] =
        std::is_same_v<Layout, row_major> ? tile[row * line + column] : tile[column * line + row];
  }
}

template <class Use, class T, class Layout>
void fill_fragment(fragment<Use, 16, 16, 16, T, Layout>& to, T with) {
  for (T& x : to.x) x = with;
}

template <class Sums, class A, class B>
void mma_sync(Sums& to, const A& a, const B& b, const Sums& from, EmulatedPlace place = {}) {
  uint16_t left[8], right[8];
  __builtin_memcpy(left, a.x, sizeof left), __builtin_memcpy(right, b.x, sizeof right);
  to = from;
  emulated_tile_product(left, right, to.x, place);
}

template <class Sums>
void store_matrix_sync(float* tile, const Sums& from, unsigned line, layout_t layout) {
  emulated_tile_place(tile, line * sizeof *tile);
  const size_t row = size_t(emulated_row());
  for (int i = 0; i < from.num_elements; ++i) {
    const auto column = size_t(emulated_column(i));
    tile[layout == mem_row_major ? row * line + column : column * line + row] = from.x[i];
  }
}

}  // namespace nvcuda::wmma
