#include "engine/nn/flat_params.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "base/core/error.h"
#include "engine/host/cpu_cache.h"

namespace maglev {

FlatParams::FlatParams(torch::nn::Module& module) {
  at::NoGradGuard no_grad;
  int64_t total = 0;
  for (const auto& p : module.named_parameters()) {
    MAGLEV_ASSERT(p.value().scalar_type() == at::kFloat, "master weights are f32");
    std::string child = p.key().substr(0, p.key().find('.'));
    if (module_ranges_.empty() || module_ranges_.back().name != child)
      module_ranges_.push_back({child, total, 0});
    module_ranges_.back().count += p.value().numel();
    total += p.value().numel();
  }
  auto device = module.parameters().front().device();
  data_ = at::zeros({total}, at::TensorOptions(at::kFloat).device(device));
  int64_t offset = 0;
  for (auto& p : module.parameters()) {
    auto view = data_.narrow(0, offset, p.numel()).view(p.sizes());
    view.copy_(p);
    p.set_data(view);
    offset += p.numel();
  }
  // what weights were drawn with, and the weights themselves, are of sizes nobody asks for again
  release_cpu_cache();
}

void FlatParams::bind(torch::nn::Module& module, torch::nn::Module& replica,
                      const at::Tensor& grad) const {
  MAGLEV_ASSERT(grad.numel() == size(), "one gradient a parameter");
  int64_t offset = 0;
  auto names = module.named_parameters();
  auto replica_parameters = replica.named_parameters();
  MAGLEV_ASSERT(names.size() == replica_parameters.size(), "a replica has the module's parameters");
  for (auto& p : replica_parameters) {
    const auto& original = names[p.key()];
    p.value().set_data(data_.narrow(0, offset, original.numel()).view(original.sizes()));
    p.value().mutable_grad() = grad.narrow(0, offset, original.numel()).view(original.sizes());
    offset += original.numel();
  }
  auto buffers = module.named_buffers();
  for (auto& b : replica.named_buffers()) b.value().set_data(buffers[b.key()]);
}

void visit_module(torch::nn::Module& module, StateVisitor& visitor) {
  for (auto& p : module.named_parameters()) visitor.tensor(p.key(), p.value());
  for (auto& b : module.named_buffers()) visitor.tensor(b.key(), b.value());
}

}  // namespace maglev
