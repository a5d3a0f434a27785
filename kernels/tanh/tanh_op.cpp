#include "kernels/tanh/tanh_op.h"

#include <limits>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "engine/device/aten_only.h"
#include "engine/device/kernel.h"
#include "kernels/tanh/tanh.h"

namespace maglev {
namespace {

void forward_(at::Tensor& x) {
  MAGLEV_ASSERT(x.is_non_overlapping_and_dense() && x.scalar_type() == at::kFloat, "dense f32");
  tanh_cpu(x.data_ptr<float>(), x.numel());
}

class Tanh : public torch::autograd::Function<Tanh> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    forward_(x);
    context->mark_dirty({x});
    context->save_for_backward({x});
    return x;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grad) {
    return {at::tanh_backward(grad[0], context->get_saved_variables()[0])};
  }
};

std::vector<KernelCase> tanh_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (int64_t count : {1, 7, 64, 1000, 65536}) {
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(count));
    // from far below the first rounding step to beyond where tanh is 1
    auto x = (at::randn({count}, gen) * at::exp(at::randn({count}, gen) * 3)).to(device);
    auto out = x.clone();
    list.push_back({.name = "count=" + std::to_string(count),
                    .inputs = {x},
                    .reference = [](const Tensors& in) { return Tensors{at::tanh(in[0])}; },
                    .fused = [](const Tensors& in) { return Tensors{fast_tanh_(in[0].clone())}; },
                    .tolerance = 1e-6,
                    .bytes = count * 8,
                    .flops = count * 22,
                    // in place on the same numbers, which soon are those of tanh of tanh
                    .repeat_reference = [out] { out.tanh_(); },
                    .repeat_fused = [out] { fast_tanh_(out); }});
  }
  return list;
}

}  // namespace

at::Tensor fast_tanh_(at::Tensor x) {
  if (!x.is_cpu() || AtenOnly::on()) return x.tanh_();
  if (at::GradMode::is_enabled() && x.requires_grad()) return Tanh::apply(x);
  forward_(x);
  return x;
}

namespace kernels::tanh {
KernelEntry entry() {
  return {"tanh", "tanh in place, the activation of small networks", tanh_cases};
}
}  // namespace kernels::tanh

}  // namespace maglev
