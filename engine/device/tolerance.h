#pragma once
// How far a result may lie from its reference, and how much of that it uses: the one place where
// tests and `maglev kernels` take bounds from.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace maglev {

/// Half the distance from 1 to the next number: what one rounding moves at most, relatively.
constexpr double kRoundF32 = 0x1p-24, kRoundBf16 = 0x1p-9;

/// |came - expected| <= share * scale for every element. 0 = bit for bit.
struct Tolerance {
  double share = 0;
  /// The scale: the tensor's largest |expected|, or max(1, |expected|) element by element.
  bool of_largest = false;

  Tolerance(double share = 0, bool of_largest = false) : share(share), of_largest(of_largest) {}
  Tolerance operator*(double by) const { return {share * by, of_largest}; }

  /// What rounding alone may do where at most `roundings` follow one another between an input and a
  /// result: the lengths of the sums on the way, added up. A rounding moves what is summed so far,
  /// which is as large as results are, by at most `unit` of it and in a direction of its own, so n
  /// of them move it by more than lambda sqrt(n) unit with a probability of 2 exp(-lambda^2 / 2) at
  /// most (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019); with
  /// lambda = 6, 3e-8. Both results are rounded, hence twice. Whatever order a library sums in, and
  /// with whatever instructions, it holds.
  static Tolerance of_sums(int64_t roundings, double unit = kRoundF32);
};

/// The largest share of the tolerance any element uses: above 1 it is broken, 0 where all bits are
/// equal, infinite where they are not and the tolerance is 0, or where only one side is NaN or
/// infinite. Shapes are equal.
double share_used(const at::Tensor& expected, const at::Tensor& came, const Tolerance& tolerance);

}  // namespace maglev
