#include "kernels/advantage/advantage_op.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/device.h"
#include "engine/device/kernel.h"
#include "kernels/advantage/advantage.h"

namespace maglev {
namespace {

std::vector<KernelCase> cases(at::Device device) {
  std::vector<KernelCase> list;
  for (int64_t count : {1, 2, 64, 1024, 5000})
    for (bool all : {false, true}) {
      auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(count));
      const int64_t M = all ? count : 2 * count;
      // a mean far from 0 beside the deviation, which a sum of squares would drown
      auto advantage = (at::randn({M}, gen) + 100).to(device);
      auto valid = (at::rand({M}, gen) < 0.9).to(at::kFloat).to(device);
      at::Tensor index;
      if (!all) index = at::randperm(M, gen).narrow(0, 0, count).contiguous().to(device);
      list.push_back({.name = "count=" + std::to_string(count) + (all ? " whole" : ""),
                      .reference =
                          [=](const Tensors&) {
                            return Tensors{advantage_statistics_reference(advantage, valid, index)};
                          },
                      .fused =
                          [=](const Tensors&) {
                            return Tensors{advantage_statistics(advantage, valid, index)};
                          },
                      .tolerance = 1e-6,
                      .bytes = count * (all ? 8 : 16),
                      .flops = count * 6});
    }
  return list;
}

}  // namespace

at::Tensor advantage_statistics(const at::Tensor& advantage, const at::Tensor& valid,
                                const at::Tensor& index) {
  MAGLEV_ASSERT(advantage.is_contiguous() && advantage.scalar_type() == at::kFloat, "[M] f32");
  MAGLEV_ASSERT(valid.is_contiguous() && valid.sizes() == advantage.sizes(), "[M] f32");
  MAGLEV_ASSERT(!index.defined() || (index.is_contiguous() && index.scalar_type() == at::kLong),
                "[count] i64");
  const AdvantageArgs args{.advantage = advantage.data_ptr<float>(),
                           .valid = valid.data_ptr<float>(),
                           .index = index.defined() ? index.data_ptr<int64_t>() : nullptr,
                           .count = index.defined() ? index.numel() : advantage.numel()};
  const int64_t chunks = advantage_chunks(args.count);
  auto out = at::empty({3}, advantage.options());
  auto* statistics = reinterpret_cast<AdvantageStatistics*>(out.data_ptr<float>());
#ifdef MAGLEV_DEVICE_CODE
  if (advantage.is_cuda()) {
    auto partial = at::empty({chunks, 3}, advantage.options().dtype(at::kDouble));
    check_cuda(advantage_cuda(args, reinterpret_cast<AdvantagePartial*>(partial.data_ptr<double>()),
                              statistics, current_stream()),
               "advantage");
    return out;
  }
#endif
  MAGLEV_ASSERT(advantage.is_cpu(), "a kernel runs where its tensors are");
  std::vector<AdvantagePartial> partial(static_cast<size_t>(chunks));
  for (int64_t c = 0; c < chunks; ++c) partial[size_t(c)] = advantage_partial(args, c);
  *statistics = advantage_finish(partial.data(), chunks);
  return out;
}

at::Tensor advantage_statistics_reference(const at::Tensor& advantage, const at::Tensor& valid,
                                          const at::Tensor& index) {
  auto a = (index.defined() ? advantage.index_select(0, index) : advantage).to(at::kDouble);
  auto v = (index.defined() ? valid.index_select(0, index) : valid).to(at::kDouble);
  auto count = v.sum().clamp_min(1);
  auto mean = (a * v).sum() / count;
  auto centred = (a - mean) * v;
  auto std = at::sqrt((centred * centred).sum() / (count - 1).clamp_min(1));
  return at::stack({mean, 1 / (std + 1e-8), 1 / count}).to(at::kFloat);
}

namespace kernels::advantage {
KernelEntry entry() {
  return {"advantage", "mean and deviation of advantages over valid rows", cases};
}
}  // namespace kernels::advantage

}  // namespace maglev
