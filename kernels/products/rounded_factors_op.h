#pragma once
// Factors of products in bfloat16 on a device: what many products read is rounded once, where it
// was written; everything else into room that stays.

#include <vector>

#include <ATen/core/Tensor.h>

namespace maglev {

/// One thread's and one stream's: what it gives of a factor holds until the next one on that side.
class RoundedFactors {
 public:
  /// From now on factors that are views of what `view` is a view of, all of its f32 storage, are
  /// read as round() left them. Returns that, [elements]; keeps it and half as much.
  at::Tensor keep(const at::Tensor& view);
  /// Rounds what was written of something kept, to nearest even. Graph-safe.
  void round(const at::Tensor& written);

  /// A factor f32 [..., rows, columns], of which rows or columns lie together, as products read
  /// it: the same sizes in bf16. Graph-safe once a factor as large has come.
  at::Tensor left(const at::Tensor& factor) { return rounded(factor, left_); }
  at::Tensor right(const at::Tensor& factor) { return rounded(factor, right_); }

 private:
  struct Kept {
    at::Tensor exact, rounded;  ///< [elements]
  };
  /// The place of `view` in what is kept; undefined where it is not.
  at::Tensor kept(const at::Tensor& view) const;
  at::Tensor rounded(const at::Tensor& factor, at::Tensor& room) const;

  std::vector<Kept> kept_;
  at::Tensor left_, right_;  ///< room for the largest factor so far
};

}  // namespace maglev
