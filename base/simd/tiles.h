#pragma once
// The processor's tiles (AMX): eight registers of 16 rows by 64 bytes, and a product of two of
// them. What is written for them takes any type with these members, so that tests run it without
// such a processor (tests/emulation/tiles.h).

#include <cstdint>

namespace maglev {

/// What the tiles are: operand of the instruction that configures them.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

/// Whether this process may use tiles of bfloat16; asks the system for it the first time.
bool tiles_available();

#if defined(__x86_64__) && defined(__GNUC__)
#define MAGLEV_TILES 1
// by hand: the compilers' own do not say that a load reads memory, and take no template argument
struct Tiles {
  void configure(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
  void release() { asm volatile("tilerelease"); }
  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  /// Rows lie `row` bytes apart.
  template <int kTile>
  void load(const void* from, int64_t row) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row), "i"(kTile) : "memory");
  }
  template <int kTile>
  void store(void* to, int64_t row) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(row), "i"(kTile) : "memory");
  }
  /// kSum [m][n] += over k: kA's pair [m][k] times kB's pair [k][n].
  template <int kSum, int kA, int kB>
  void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
};
#endif

}  // namespace maglev
