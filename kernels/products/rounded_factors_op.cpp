#include "kernels/products/rounded_factors_op.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "base/core/error.h"

namespace maglev {
namespace {

// elements between which rows begin, 16 bytes: as products on tensor cores want them
constexpr int64_t kRoundedRow = 8;

}  // namespace

at::Tensor RoundedFactors::keep(const at::Tensor& view) {
  for (const Kept& k : kept_)
    if (view.is_alias_of(k.exact)) return k.exact;
  const auto elements = int64_t(view.storage().nbytes() / sizeof(float));
  const at::Tensor all = view.detach().as_strided({elements}, {1}, 0);
  kept_.push_back({all, at::empty({elements}, all.options().dtype(at::kBFloat16))});
  return all;
}

at::Tensor RoundedFactors::kept(const at::Tensor& view) const {
  for (const Kept& k : kept_)
    if (view.is_alias_of(k.exact))
      return k.rounded.as_strided(view.sizes(), view.strides(), view.storage_offset());
  return {};
}

void RoundedFactors::round(const at::Tensor& written) {
  at::Tensor to = kept(written);
  MAGLEV_ASSERT(to.defined(), "what is rounded as it is written is kept");
  to.copy_(written);
}

at::Tensor RoundedFactors::rounded(const at::Tensor& factor, at::Tensor& room) const {
  if (at::Tensor there = kept(factor); there.defined()) return there;
  // as it lies, so that reads and writes go along rows
  const bool turned = factor.stride(-1) != 1 && factor.stride(-2) == 1;
  const at::Tensor rows = turned ? factor.transpose(-1, -2) : factor;
  const int64_t columns = rows.size(-1);
  auto sizes = rows.sizes().vec();
  sizes.back() = (columns + kRoundedRow - 1) / kRoundedRow * kRoundedRow;
  const int64_t elements = c10::multiply_integers(sizes);
  if (!room.defined() || room.numel() < elements) {
    // it outlives the mode that the product runs in, and the smaller one goes first
    const c10::InferenceMode plain(false);
    room = at::Tensor();
    room = at::empty({elements}, factor.options().dtype(at::kBFloat16));
  }
  at::Tensor to = room.narrow(0, 0, elements).view(sizes).narrow(-1, 0, columns);
  to.copy_(rows);
  return turned ? to.transpose(-1, -2) : to;
}

}  // namespace maglev
