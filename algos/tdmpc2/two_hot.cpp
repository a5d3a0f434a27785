#include "algos/tdmpc2/two_hot.h"

#include <torch/torch.h>

#include "algos/tdmpc2/model_shape.h"

namespace maglev::tdmpc2 {

at::Tensor symlog(const at::Tensor& x) { return at::sign(x) * at::log1p(at::abs(x)); }

at::Tensor symexp(const at::Tensor& x) { return at::sign(x) * at::expm1(at::abs(x)); }

at::Tensor two_hot(const at::Tensor& x) {
  const auto place = (symlog(x).clamp(kBinLow, kBinHigh) - kBinLow) / kBinSize;
  const auto low = at::floor(place).clamp(0, kBins - 2);
  const auto share = (place - low).unsqueeze(-1), index = low.to(at::kLong).unsqueeze(-1);
  auto sizes = x.sizes().vec();
  sizes.push_back(kBins);
  return at::zeros(sizes, x.options()).scatter(-1, index, 1 - share).scatter(-1, index + 1, share);
}

at::Tensor two_hot_loss(const at::Tensor& logits, const at::Tensor& x) {
  return -(two_hot(x) * at::log_softmax(logits, -1)).sum(-1);
}

at::Tensor two_hot_inverse(const at::Tensor& logits) {
  const auto bins = at::linspace(kBinLow, kBinHigh, kBins, logits.options());
  return symexp((at::softmax(logits, -1) * bins).sum(-1));
}

}  // namespace maglev::tdmpc2
