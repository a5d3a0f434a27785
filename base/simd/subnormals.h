#pragma once
// Numbers too small to be normal f32 (below 1.2e-38) cost a processor a hundred times what others
// do: moments of gradients that have ended pass through them for thousands of steps.

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace maglev {

/// While it lives they are 0 to this thread, read as well as made. Nothing on a processor that has
/// no such switch.
class WithoutSubnormals {
 public:
  WithoutSubnormals() : before_(get()) { set(before_ | kFlush); }
  ~WithoutSubnormals() { set(before_); }
  WithoutSubnormals(const WithoutSubnormals&) = delete;
  WithoutSubnormals& operator=(const WithoutSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kFlush = 0x8040;  // of MXCSR: results to zero, operands are zeros
  static uint64_t get() { return _mm_getcsr(); }
  static void set(uint64_t state) { _mm_setcsr(unsigned(state)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kFlush = uint64_t(1) << 24;  // of FPCR: both
  static uint64_t get() {
    uint64_t state;
    asm volatile("mrs %0, fpcr" : "=r"(state));
    return state;
  }
  static void set(uint64_t state) { asm volatile("msr fpcr, %0" : : "r"(state)); }
#else
  static constexpr uint64_t kFlush = 0;
  static uint64_t get() { return 0; }
  static void set(uint64_t) {}
#endif

  uint64_t before_;
};

}  // namespace maglev
