#include "algos/dreamer/tried.h"

#include <ATen/ATen.h>

namespace maglev::dreamer {
namespace {

Options shortened(Options o, int64_t steps) {
  o.length = steps;
  return o;
}

Sequences zeros(const Options& o, const ModelShape& s) {
  const int64_t T = o.length, B = o.batch;
  Sequences batch{.is_first = at::zeros({T, B}),
                  .action = at::zeros({T, B, s.actions}),
                  .reward = at::zeros({T, B}),
                  .terminated = at::zeros({T, B}),
                  .ended = at::zeros({T, B}),
                  .deter = at::zeros({B, s.deter}),
                  .stoch = at::zeros({B, s.stoch}, at::kByte)};
  if (s.vector > 0) batch.seen.vector = at::zeros({T, B, s.vector});
  if (s.channels > 0)
    batch.seen.image = at::zeros({T, B, s.height, s.width, s.channels}, at::kByte);
  return batch;
}

}  // namespace

TriedUpdate::TriedUpdate(const Options& options, int64_t steps, const AlgoContext& context)
    : options_(shortened(options, steps)), context_(context) {}

TriedUpdate::Made::Made(const Options& o, const AlgoContext& context)
    : alone(1),
      state(o, model_shape(o, context.spec), context.seed, context.device),
      learner({.options = o,
               .shape = model_shape(o, context.spec),
               .seed = context.seed,
               .precision = context.precision,
               .pool = &alone},
              state),
      batch(zeros(o, model_shape(o, context.spec))) {}

void TriedUpdate::run() {
  if (!made_) made_ = std::make_unique<Made>(options_, context_);
  made_->learner.gradients(made_->batch);
}

}  // namespace maglev::dreamer
