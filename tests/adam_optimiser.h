#pragma once
// kernels/adam alone, without torch, as tests step it.

#include <cmath>
#include <utility>
#include <vector>

#include "base/core/thread_pool.h"
#include "kernels/adam/adam.h"

namespace maglev {

/// Adam on buffers of its own; `args` may be pointed at others.
struct AdamOptimiser {
  AdamOptimiser(int64_t P, int64_t lanes, std::vector<AdamGroup> groups_of_all)
      : groups(std::move(groups_of_all)),
        data(size_t(P)),
        first(data),
        second(data),
        grad(size_t(P * lanes)),
        partial(size_t(adam_chunks(P)) * groups.size()),
        rate(groups.size(), 1.f),
        factor(groups.size()) {
    args = {.grad = grad.data(),
            .lanes = lanes,
            .lane_stride = P,
            .unscale = nullptr,
            .P = P,
            .groups = groups.data(),
            .group_count = int64_t(groups.size()),
            .rate = rate.data(),
            .clip_together = false,
            .data = data.data(),
            .first = first.data(),
            .second = second.data(),
            .lr = &lr,
            .skip = &skip,
            .steps = &steps,
            .nonfinite = &nonfinite,
            .beta1 = 0.9,
            .beta2 = 0.999,
            .eps = 1e-8,
            .weight_decay = 0,
            .max_grad_norm = 0.5,
            .partial = partial.data(),
            .factor = factor.data(),
            .step = &step};
    for (size_t i = 0; i < data.size(); ++i) data[i] = std::sin(float(i));
  }
  void set_gradient(float scale) {
    for (size_t i = 0; i < grad.size(); ++i) grad[i] = scale * std::cos(0.37f * float(i));
  }
  void update(ThreadPool& pool) {
    const int64_t chunks = adam_chunks(args.P);
    pool.run(chunks, [&](int64_t c) { adam_reduce_cpu(args, c); });
    adam_clip_cpu(args);
    *args.step = adam_begun_step(args);
    pool.run(chunks, [&](int64_t c) { adam_step_cpu(args, c); });
  }

  std::vector<AdamGroup> groups;
  std::vector<float> data, first, second, grad;
  std::vector<double> partial;
  std::vector<float> rate, factor;
  float lr = 0.01f, skip = 0, steps = 0, nonfinite = 0;
  AdamStep step{};
  AdamArgs args;
};

}  // namespace maglev
