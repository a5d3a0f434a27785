#include "engine/algo/explanation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/core/error.h"

namespace maglev {

AskedOfAction asked_of_action(const ActionSpec& action, const at::Tensor& taken,
                              const at::Tensor& mean) {
  if (!action.discrete()) {
    const int64_t farthest = mean.abs().argmax().item<int64_t>();
    return {at::full({1}, farthest, mean.options().dtype(at::kLong)),
            "the mean of action " + std::to_string(farthest)};
  }
  const at::Tensor categories = taken.to(at::kCPU, at::kLong);
  const bool several = action.heads.size() > 1;
  std::vector<int64_t> places;
  std::string words = several ? "the logits of categories" : "the logit of category";
  int64_t begin = 0;
  for (size_t head = 0; head < action.heads.size(); ++head) {
    const int64_t category = categories[int64_t(head)].item<int64_t>();
    places.push_back(begin + category);
    // as the page names them
    words += (head ? ", " : " ") + (several ? std::to_string(head) + "/" : "") +
             std::to_string(category);
    begin += action.heads[head];
  }
  return {at::tensor(places, at::kLong).to(taken.device()), words};
}

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
