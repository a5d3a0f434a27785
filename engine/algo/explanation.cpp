#include "engine/algo/explanation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/core/error.h"

namespace maglev {

void attribute(Explanation& into, const std::vector<at::Tensor>& inputs, const RowsToValue& value,
               int64_t points) {
  MAGLEV_ASSERT(into.inputs.size() == inputs.size() && points > 0, "a name for each input");
  at::AutoGradMode with_gradients(true);
  // one pass: the middles of equal parts of the path, then the observation and the baseline
  const auto middles = (at::arange(points, at::kDouble) + 0.5) / double(points);
  const auto shares = at::cat({middles, at::tensor({1.0, 0.0}, at::kDouble)}).to(at::kFloat);
  std::vector<at::Tensor> rows;
  for (const at::Tensor& input : inputs) {
    std::vector<int64_t> sizes(size_t(input.dim()), 1);
    sizes[0] = points + 2;
    auto scaled = (input.detach() * shares.to(input.device()).view(sizes)).detach();
    // as networks have images in memory
    if (input.dim() == 4) scaled = scaled.contiguous(at::MemoryFormat::ChannelsLast);
    rows.push_back(scaled.set_requires_grad(true));
  }
  const at::Tensor values = value(rows);
  const auto gradients = torch::autograd::grad({values.sum()}, rows, {}, /*retain_graph=*/false,
                                               /*create_graph=*/false, /*allow_unused=*/true);

  at::NoGradGuard no_grad;
  into.asked = values[points].item<double>();
  into.baseline = values[points + 1].item<double>();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor seen = inputs[i][0].detach();
    const at::Tensor gradient = gradients[i].defined() ? gradients[i] : at::zeros_like(rows[i]);
    into.inputs[i].seen = seen;
    into.inputs[i].gradient = gradient[points];
    into.inputs[i].integrated = seen * gradient.narrow(0, 0, points).mean(0);
  }
}

}  // namespace maglev
