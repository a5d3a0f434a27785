// Cases of the panel kernel; on tensors, dropout is a comparison of numbered noise.

#include "kernels/dropout/dropout.h"

#include <string>

#include <ATen/ATen.h>

#include "engine/device/kernel.h"
#include "kernels/noise/noise_op.h"

namespace maglev {
namespace {

std::vector<KernelCase> dropout_cases(at::Device device) {
  std::vector<KernelCase> list;
  if (!device.is_cpu()) return list;
  for (auto [features, stride, share] :
       {std::tuple<int64_t, int64_t, float>{4, 16, 0.5f}, {30, 32, 0.1f}, {512, 64, 0.01f}}) {
    const int64_t step = (features + 3) / 4 * 4 + 8;
    const uint64_t seed = 5, stream = 7, first = (uint64_t(3) << 32) + 64;
    auto out = at::empty({features, stride});
    auto run = [=]() mutable {
      dropout_cpu({.seed = seed,
                   .stream = stream,
                   .first = first,
                   .row_step = uint64_t(step),
                   .features = features,
                   .stride = stride,
                   .share = share,
                   .factor = out.data_ptr<float>()});
    };
    list.push_back(
        {.name = "features=" + std::to_string(features) + " rows=" + std::to_string(stride) +
                 " share=" + std::to_string(share),
         .reference =
             [=](const Tensors&) {
               auto u = at::empty({stride * step});
               noise_uniform_(u, {.seed = seed, .stream = stream, .first = first, .rows = 1});
               auto kept = u.view({stride, step}).narrow(1, 0, features) >= share;
               return Tensors{(kept.t().to(at::kFloat) * (1 / (1 - double(share)))).contiguous()};
             },
         .fused =
             [=](const Tensors&) mutable {
               run();
               return Tensors{out.clone()};
             },
         .tolerance = 0,
         .bytes = features * stride * 4,
         .flops = features * stride * 20,
         .repeat_fused = run});
  }
  return list;
}

}  // namespace

namespace kernels::dropout {
KernelEntry entry() {
  return {"dropout", "dropout's factors of a panel, by numbered noise", dropout_cases};
}
}  // namespace kernels::dropout

}  // namespace maglev
