#include "engine/nn/flat_params.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "base/core/error.h"
#include "engine/host/cpu_cache.h"

namespace maglev {

int64_t flat_alignment(at::Device device) {
  constexpr int64_t kBytes = 64;
  return !device.is_cuda() ? 1 : kBytes / int64_t(sizeof(float));
}

FlatParams::FlatParams(torch::nn::Module& module)
    : FlatParams(module, flat_alignment(module.parameters().front().device())) {}

FlatParams::FlatParams(torch::nn::Module& module, int64_t alignment, const PartOf& part_of) {
  at::NoGradGuard no_grad;
  int64_t end = 0;
  for (const auto& p : module.named_parameters()) {
    MAGLEV_ASSERT(p.value().scalar_type() == at::kFloat, "master weights are f32");
    const int64_t count = p.value().numel();
    const bool one_number = p.value().dim() < 2 && count == 1;
    const int64_t begin = flat_begin(end, one_number, alignment);
    ranges_.push_back({begin, count});
    end = begin + count;
    const std::string part = part_of ? part_of(p.key()) : p.key().substr(0, p.key().find('.'));
    if (module_ranges_.empty() || module_ranges_.back().name != part)
      module_ranges_.push_back({part, begin, 0});
  }
  const int64_t total = flat_begin(end, /*one_number=*/false, alignment);
  for (size_t i = 0; i < module_ranges_.size(); ++i) {
    ModuleRange& range = module_ranges_[i];
    const bool last = i + 1 == module_ranges_.size();
    range.count = (last ? total : module_ranges_[i + 1].begin) - range.begin;
  }
  const auto parameters = module.parameters();
  data_ = at::zeros({total}, parameters.front().options());
  for (size_t i = 0; i < ranges_.size(); ++i) {
    at::Tensor p = parameters[i];
    const auto view = data_.narrow(0, ranges_[i].begin, ranges_[i].count).view(p.sizes());
    view.copy_(p);
    p.set_data(view);
  }
  // what weights were drawn with, and the weights themselves, are of sizes nobody asks for again
  release_cpu_cache();
}

void FlatParams::bind(torch::nn::Module& module, torch::nn::Module& replica,
                      const at::Tensor& grad) const {
  MAGLEV_ASSERT(grad.numel() == size(), "one gradient a parameter");
  const auto originals = module.parameters();
  auto replicas = replica.parameters();
  MAGLEV_ASSERT(originals.size() == replicas.size(), "a replica has the module's parameters");
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const auto view = [&](const at::Tensor& flat) {
      return flat.narrow(0, ranges_[i].begin, ranges_[i].count).view(originals[i].sizes());
    };
    replicas[i].set_data(view(data_));
    replicas[i].mutable_grad() = view(grad);
  }
  auto buffers = module.named_buffers();
  for (auto& b : replica.named_buffers()) b.value().set_data(buffers[b.key()]);
}

std::vector<FlatRange> ranges_within(std::span<const FlatRange> ranges, int64_t begin,
                                     int64_t count) {
  std::vector<FlatRange> within;
  for (const FlatRange& range : ranges)
    if (range.begin >= begin && range.begin + range.count <= begin + count)
      within.push_back({range.begin - begin, range.count});
  return within;
}

void visit_packed(const std::string& name, at::Tensor& flat, std::span<const FlatRange> ranges,
                  StateVisitor& visitor) {
  std::vector<at::Tensor> parts;
  int64_t count = 0;
  for (const FlatRange& range : ranges) {
    parts.push_back(flat.narrow(0, range.begin, range.count));
    count += range.count;
  }
  if (count == flat.numel()) return visitor.tensor(name, flat);
  at::NoGradGuard no_grad;
  at::Tensor packed = at::cat(parts);
  visitor.tensor(name, packed);
  if (!visitor.loads()) return;
  int64_t begin = 0;
  for (at::Tensor& part : parts) {
    part.copy_(packed.narrow(0, begin, part.numel()));
    begin += part.numel();
  }
}

void visit_module(torch::nn::Module& module, StateVisitor& visitor) {
  for (auto& p : module.named_parameters()) visitor.tensor(p.key(), p.value());
  for (auto& b : module.named_buffers()) visitor.tensor(b.key(), b.value());
}

}  // namespace maglev
