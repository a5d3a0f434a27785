#include "algos/dreamer/dreams.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "algos/dreamer/numbers.h"
#include "base/core/error.h"
#include "base/env/pictures.h"
#include "engine/nn/flat_params.h"
#include "kernels/noise/noise_op.h"

namespace maglev::dreamer {
namespace {

ModelShape with_decoder(const Options& options, const AlgoContext& context) {
  ModelShape shape = model_shape(options, context.spec);
  shape.alignment = flat_alignment(context.device);
  if (!shape.decodes)
    throw Error(
        "[dreamer] a model of dreamer.objective=redundancy has no decoder to show what it sees; "
        "train with dreamer.objective=reconstruction");
  return shape;
}

}  // namespace

Dreams::Dreams(const Options& options, const AlgoContext& context)
    : spec_(context.spec),
      shape_(with_decoder(options, context)),
      columns_(context.spec, shape_, context.device),
      networks_(shape_, Initializer::none()) {
  networks_.to(context.device);
}

void Dreams::visit_state(StateVisitor& visitor) {
  networks_.visit_acting(visitor);
  networks_.visit_learning(visitor);
}

std::vector<at::Tensor> Dreams::columns_of(const Reconstruction& made, int64_t T, int64_t N) const {
  std::vector<at::Tensor> out(spec_.observations.size());
  int64_t channel = 0, number = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const ObsColumn& column = spec_.observations[i];
    if (column.audience == Audience::critic) continue;
    if (column.dtype == DType::f32) {
      std::vector<int64_t> shape{T, N};
      shape.insert(shape.end(), column.shape.begin(), column.shape.end());
      out[i] = symexp(made.vector.narrow(1, number, column.elements())).reshape(shape);
      number += column.elements();
    } else {
      const int64_t channels = image_shape(column)[2];
      out[i] = 255 * at::sigmoid(made.logits.narrow(3, channel, channels)).unflatten(0, {T, N});
      channel += channels;
    }
  }
  return out;
}

std::vector<at::Tensor> Dreams::imagine(const Batch& play, int64_t seen, uint64_t seed) {
  c10::InferenceMode guard;
  const int64_t T = play.is_first.size(0), N = play.is_first.size(1);
  const auto f32 = networks_.parameters().front().options();
  const Rssm& rssm = *networks_.rssm;
  const Observation shown = columns_.seen(play.obs, 2);
  const auto action = columns_.to_model(play.action);
  auto uniforms = at::empty({T, N, shape_.stoch}, f32);
  noise_uniform_(uniforms, update_fill(seed, UpdateNumbers::posterior, nullptr));

  Latent latent{at::zeros({N, shape_.deter}, f32), at::zeros({N, shape_.flat_stoch()}, f32)};
  // a step at a time: what a picture takes on its way is many times the picture
  std::vector<at::Tensor> images, vectors;
  for (int64_t t = 0; t < T; ++t) {
    // nothing leads to the first step of an episode, and nothing tells of it but itself
    const auto first = play.is_first[t].to(at::kBool).unsqueeze(1);
    const auto keep = first.logical_not().to(f32.dtype());
    const auto before = t > 0 ? action[t - 1] : at::zeros({N, shape_.actions}, f32);
    latent = {latent.deter * keep, latent.stoch * keep};
    latent.deter = rssm.next_deter(latent, before * keep);
    const auto at_t = [t](const at::Tensor& x) { return x.defined() ? x[t] : x; };
    const auto token = networks_.encoder->forward({at_t(shown.image), at_t(shown.vector)});
    const auto sees = (t < seen ? at::ones_like(first) : first).unsqueeze(2);
    const auto log_probs =
        at::where(sees, rssm.posterior(latent.deter, token), rssm.prior(latent.deter));
    latent.stoch = drawn_stoch(log_probs, uniforms[t]);
    const Reconstruction made = networks_.decoder->forward(latent);
    if (made.logits.defined()) images.push_back(made.logits);
    if (made.vector.defined()) vectors.push_back(made.vector);
  }
  const auto all = [](const std::vector<at::Tensor>& steps) {
    return steps.empty() ? at::Tensor() : at::cat(steps);
  };
  return columns_of({all(images), all(vectors)}, T, N);
}

}  // namespace maglev::dreamer
