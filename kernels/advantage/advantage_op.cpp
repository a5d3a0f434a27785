#include "kernels/advantage/advantage_op.h"

#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/advantage/advantage.h"

namespace maglev {
namespace {

AdvantagePartial* partials_of(at::Tensor& scratch) {
  return reinterpret_cast<AdvantagePartial*>(scratch.data_ptr<double>());
}

// partial statistics of a column over valid rows among `index`, or of all; on the CPU
void find_partials(const AdvantageArgs& args, AdvantagePartial* partial, ThreadPool& pool) {
  pool.run(advantage_chunks(args.count),
           [&](int64_t c) { partial[c] = advantage_partial(args, c); });
}

std::vector<KernelCase> advantage_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (int64_t count : {1, 2, 64, 1024, 5000, 300000})
    for (bool all : {false, true}) {
      auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(count));
      // a minibatch of a rollout twice as long, or the whole rollout
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
                            ThreadPool pool(1);
                            auto out = at::empty({3}, advantage.options());
                            auto scratch = advantage_scratch(count, device);
                            advantage_statistics_(out, advantage, valid, index, scratch, pool);
                            return Tensors{out};
                          },
                      .tolerance = 1e-6,
                      .bytes = count * (all ? 8 : 16),
                      .flops = count * 6});
    }
  for (int64_t count : {64, 5000}) {
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(count));
    // values that explain about three quarters of the returns' variance
    auto target = (at::randn({count}, gen) + 100).to(device);
    auto value = (target + 0.5 * at::randn({count}, gen).to(device)).contiguous();
    auto valid = (at::rand({count}, gen) < 0.9).to(at::kFloat).to(device);
    list.push_back({.name = "explained variance count=" + std::to_string(count),
                    .reference =
                        [=](const Tensors&) {
                          return Tensors{explained_variance_reference(target, value, valid)};
                        },
                    .fused =
                        [=](const Tensors&) {
                          ThreadPool pool(1);
                          auto out = at::empty({}, target.options()),
                               error = at::empty_like(target);
                          auto scratch = advantage_scratch(count, device);
                          explained_variance_(out, target, value, valid, error, scratch, pool);
                          return Tensors{out};
                        },
                    .tolerance = 1e-6,
                    .bytes = count * 12,
                    .flops = count * 12});
  }
  return list;
}

}  // namespace

at::Tensor advantage_scratch(int64_t count, at::Device device) {
  // of two columns at most
  return at::empty({2 * advantage_chunks(count), 3}, at::TensorOptions(at::kDouble).device(device));
}

void advantage_statistics_(at::Tensor& out, const at::Tensor& advantage, const at::Tensor& valid,
                           const at::Tensor& index, at::Tensor& scratch, ThreadPool& pool) {
  const at::Device device = device_of("advantage", advantage, valid, index, out, scratch);
  MAGLEV_ASSERT(advantage.is_contiguous() && advantage.scalar_type() == at::kFloat, "f32");
  MAGLEV_ASSERT(valid.is_contiguous() && valid.numel() == advantage.numel(), "one a row");
  MAGLEV_ASSERT(!index.defined() || (index.is_contiguous() && index.scalar_type() == at::kLong),
                "[count] i64");
  const AdvantageArgs args{.advantage = advantage.const_data_ptr<float>(),
                           .valid = valid.const_data_ptr<float>(),
                           .index = index.defined() ? index.const_data_ptr<int64_t>() : nullptr,
                           .count = index.defined() ? index.numel() : advantage.numel()};
  MAGLEV_ASSERT(out.numel() == 3 && scratch.size(0) >= advantage_chunks(args.count), "enough room");
  auto* statistics = reinterpret_cast<AdvantageStatistics*>(out.data_ptr<float>());
  // chunks on any threads, joined in order by this one
  const auto on_cpu = [&pool](const AdvantageArgs& a, AdvantagePartial* partial,
                              AdvantageStatistics* to) {
    find_partials(a, partial, pool);
    *to = advantage_finish(advantage_join(partial, advantage_chunks(a.count)));
  };
  launch<advantage_cuda>("advantage", device, on_cpu, args, partials_of(scratch), statistics);
}

at::Tensor advantage_statistics_reference(const at::Tensor& advantage, const at::Tensor& valid,
                                          const at::Tensor& index) {
  auto a = (index.defined() ? advantage.index_select(0, index) : advantage).to(at::kDouble);
  auto v = (index.defined() ? valid.index_select(0, index) : valid).to(at::kDouble);
  // where no row is valid mean and deviation are as if one were
  auto count = v.sum().clamp_min(1);
  auto mean = (a * v).sum() / count;
  auto centred = (a - mean) * v;
  // n - 1 in the denominator, at least 1
  auto std = at::sqrt((centred * centred).sum() / (count - 1).clamp_min(1));
  return at::stack({mean, 1 / (std + 1e-8), (v.sum() > 0) / count}).to(at::kFloat);
}

void explained_variance_(at::Tensor& out, const at::Tensor& target, const at::Tensor& value,
                         const at::Tensor& valid, at::Tensor& error, at::Tensor& scratch,
                         ThreadPool& pool) {
  const at::Device device = device_of("advantage", target, value, valid, out, error, scratch);
  const int64_t M = target.numel(), chunks = advantage_chunks(M);
  MAGLEV_ASSERT(value.numel() == M && valid.numel() == M && error.numel() == M, "one a row");
  MAGLEV_ASSERT(target.is_contiguous() && value.is_contiguous() && valid.is_contiguous() &&
                    error.is_contiguous(),
                "contiguous");
  const AdvantageArgs args{.advantage = target.const_data_ptr<float>(),
                           .valid = valid.const_data_ptr<float>(),
                           .index = nullptr,
                           .count = M};
  const auto on_cpu = [&](const AdvantageArgs& goal, const float* guess, AdvantagePartial* partial,
                          float* explained) {
    float* left = error.data_ptr<float>();
    for (int64_t i = 0; i < M; ++i) left[i] = goal.advantage[i] - guess[i];
    // how far returns spread, and how far what values leave of them
    const auto squares = [&](const float* column) {
      AdvantageArgs of = goal;
      of.advantage = column;
      find_partials(of, partial, pool);
      return advantage_join(partial, chunks).squares;
    };
    const double spread = squares(goal.advantage);
    *explained = advantage_explained(spread, squares(left));
  };
  launch<explained_variance_cuda>("explained_variance", device, on_cpu, args,
                                  value.const_data_ptr<float>(), partials_of(scratch),
                                  out.data_ptr<float>());
}

at::Tensor explained_variance_reference(const at::Tensor& target, const at::Tensor& value,
                                        const at::Tensor& valid) {
  const auto weight = valid.to(at::kDouble), count = weight.sum().clamp_min(1);
  const auto squares = [&](const at::Tensor& x) {
    const auto mean = (x * weight).sum() / count;
    return ((x - mean).square() * weight).sum();
  };
  const auto spread = squares(target.to(at::kDouble)),
             rest = squares(target.to(at::kDouble) - value.to(at::kDouble));
  return at::where(spread > 0, 1 - rest / spread, std::numeric_limits<double>::quiet_NaN())
      .to(at::kFloat);
}

namespace kernels::advantage {
KernelEntry entry() {
  return {"advantage",
          "mean and deviation of advantages over valid rows, and what of returns is explained",
          advantage_cases};
}
}  // namespace kernels::advantage

}  // namespace maglev
