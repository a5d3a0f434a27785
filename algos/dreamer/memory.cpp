#include "algos/dreamer/memory.h"

#include <algorithm>

#include "algos/dreamer/fused/learner.h"
#include "algos/dreamer/networks.h"
#include "algos/dreamer/policy.h"
#include "base/env/pictures.h"
#include "base/simd/tiles.h"
#include "kernels/image_towers/image_towers.h"

namespace maglev::dreamer {
namespace {

constexpr int64_t kF32 = 4, kBf16 = 2;

// elements that a hidden layer leaves of a row: the product, its norm, SiLU
int64_t kept(int64_t layers, int64_t units) { return 3 * layers * units; }

// of an image on its way through the convolutions, one direction: their outputs before and behind
// pooling or doubling, the norm and SiLU
int64_t kept_of_image(const ModelShape& s) {
  if (s.channels == 0) return 0;
  int64_t elements = 2 * s.places_at(0) * s.channels;
  for (int64_t i = 0; i < s.stages(); ++i) elements += s.places_at(i) * s.stage_channels(i) * 2;
  return elements;
}

// of so many images on their way in, and on their way back out: by kernels what these say, else
// autograd's
struct KeptOfImages {
  int64_t in, out;
};
KeptOfImages kept_of_images(const ModelShape& s, int64_t images, const AlgoContext& context) {
  const int64_t by_autograd = images * kept_of_image(s);
  if (s.channels == 0 || !s.fused_images || !context.device.is_cpu())
    return {by_autograd, s.decodes ? by_autograd : 0};
  std::vector<int64_t> channels{s.channels};
  for (int64_t i = 0; i < s.stages(); ++i) channels.push_back(s.stage_channels(i));
  const ImageTower tower{s.height, s.width, channels,
                         context.precision == Precision::bf16 && tiles_available()};
  const auto of = [&](const TowerSizes& sizes) {
    return (images + kImageLanes - 1) / kImageLanes * sizes.kept + sizes.packed + sizes.scratch;
  };
  return {of(encoder_sizes(tower)), s.decodes ? of(decoder_sizes(tower)) : 0};
}

int64_t recurrent_elements(const ModelShape& s) {
  const int64_t mixed = s.deter + s.blocks * 3 * s.hidden;
  return kept(3, s.hidden) + mixed + 12 * s.deter;
}

// of a row that acts or is imagined: nothing is kept but the widest of what is at hand
int64_t forward_elements(const ModelShape& s) {
  return recurrent_elements(s) + 2 * s.feature() + 6 * s.flat_stoch() + 3 * s.units;
}

int64_t update_elements(const Options& o, const ModelShape& s) {
  const int64_t rows = o.batch * o.length;
  const int64_t states = 3 * s.feature() + 12 * s.flat_stoch() + kept(4, s.hidden);
  const int64_t heads = kept(2 + kLayers, s.units) + 6 * kBins;
  // the way of the observation in, and back out or to a token
  const int64_t ways = s.decodes ? 2 : 1, projected = s.decodes ? 0 : 3 * s.token();
  const int64_t replayed = ways * (kept_of_image(s) + kept(kLayers, s.units)) + s.token() +
                           projected + recurrent_elements(s) + states + heads;
  // features and actions of the dream, and actor and critic learning from it
  const int64_t imagined = (o.imagination + 1) * (2 * s.feature() + s.stoch + 2 * s.actions + 4) +
                           o.imagination * (kept(2 * kLayers, s.units) + 8 * kBins);
  // how the states' projections and tokens correlate, its square and their gradients
  const int64_t correlations = s.decodes ? 0 : 4 * s.token() * s.token();
  return rows * (replayed + imagined + forward_elements(s)) + correlations;
}

// elements of a stack of layers with norms for a row: products, activations, deviations, and what
// comes out
int64_t stack_elements(int64_t layers, int64_t units, int64_t out) {
  return layers * (2 * units + 1) + out;
}

// a view of one step's part of what is allocated for all, and how many a step has
constexpr int64_t kStepViewBytes = 400, kStepViews = 45;

// bytes of the fused learner's buffers, which are made once: those of all shards (fused/), and what
// the shards that threads are at hold besides, by autograd, of what is seen
int64_t fused_bytes(const Options& o, const ModelShape& s, const AlgoContext& context) {
  const int64_t N = o.batch * o.length, H = o.imagination, D = s.deter, F = s.feature(),
                A = s.actions, Z = s.flat_stoch(), U = s.hidden, S = s.stoch;
  // of each step of a dream, the first one too
  const int64_t looked = F + A + 5 + stack_elements(kLayers, s.units, s.policy_head()) +
                         stack_elements(kLayers, s.units, kBins);
  // heads that look at one step or two, and a dream's products, in which its steps take turns
  const int64_t turns = stack_elements(kLayers, s.units, kBins) +
                        2 * stack_elements(1, s.units, kBins) + 2 * stack_elements(1, s.units, 1) +
                        2 * stack_elements(2, U, Z) + Z + 6 * U + A + 5 * D;
  // the scan there and back
  const int64_t scanned = 3 * F + 3 * Z + 10 * D + 14 * U + A + S / kF32 + s.token();
  const int64_t losses = 2 * H + H + 1 + kBins + 2 + 2 * H * std::max(s.units, U) + H;
  const int64_t noise = S * (H + 1) + (H + 1) * A, latents = D + S / kF32 + H;
  const int64_t projected = s.decodes ? 0 : 3 * s.token();
  // buffers are of the rows that shards take at once; what stands between their passes is of all
  const int64_t each = shard_sequences(o, context.device);
  const int64_t shards = shard_count(o, context.device), last = o.batch - (shards - 1) * each;
  const int64_t at_once = sequences_at_once(o.micro_batch, each);
  const int64_t buffered = o.length * ((shards - 1) * at_once + sequences_at_once(at_once, last));
  const int64_t rows = (H + 1) * looked + turns + scanned + losses;
  const int64_t between = noise + latents + projected;
  const int64_t sequences = F + D + Z;
  // autograd's, and draws put together
  const int64_t threads = context.device.is_cpu() && context.pool ? context.pool->threads() : 1;
  const int64_t vector = s.vector > 0 ? kept(kLayers, s.units) : 0;
  const int64_t working = std::min(threads, shards), of_each = (buffered + shards - 1) / shards;
  const int64_t at_work = working * of_each;
  // without a decoder the way in of all shards waits for the whole batch, but where they go it anew
  const int64_t waiting = !s.decodes && at_once == each ? shards : working;
  const KeptOfImages way = kept_of_images(s, of_each, context);
  const int64_t images = waiting * way.in + working * way.out;
  // what losses pass on by the way, fitted
  const int64_t passing = (H + 1) * (kBins + 2 * s.units);
  return kF32 * (buffered * rows + N * between + o.batch * sequences +
                 at_work * (vector + noise + passing) + images) +
         kStepViewBytes * kStepViews * shards * (o.length + H + 1);
}

int64_t acting_rows(const AlgoContext& context) {
  const int64_t threads = context.pool ? context.pool->threads() : 1;
  const int64_t at_once = block_rows(context) * (context.device.is_cpu() ? threads : 1);
  return std::min(std::max<int64_t>(1, context.rows), at_once);
}

}  // namespace

int64_t rounded_bytes(const Options& o, const ModelShape& s, const AlgoContext& context) {
  if (context.precision != Precision::bf16 || !context.device.is_cuda()) return 0;
  // weights, features, and room for both factors of the largest product that has others
  const int64_t H = o.imagination, F = s.feature();
  const int64_t rows = o.length * sequences_at_once(o.micro_batch, o.batch);
  const int64_t slow_value = F * s.units + (kLayers - 1) * s.units * s.units + s.units * kBins;
  const int64_t weights = parameter_count(s) + slow_value + 3 * s.hidden * s.deter;
  // hidden layers of a dream, gates, states, tokens; back from bins
  const int64_t widest = std::max({(H + 1) * s.units, 3 * s.deter, F, s.token()});
  const int64_t room = widest + std::max(widest, H * (kBins + 1));
  return kBf16 * (weights + rows * ((H + 2) * F + room));
}

// of cells as the pictures that a batch is learned from, and of the codes on the way there
int64_t pictured_bytes(const Options& o, const EnvSpec& spec) {
  int64_t bytes = 0;
  for (const ObsColumn& column : spec.observations) {
    if (column.audience == Audience::critic || !is_cells(column)) continue;
    const std::vector<int64_t> image = image_shape(column);
    bytes += image[0] * image[1] * image[2] + kF32 * column.elements();
  }
  return (o.length + 1) * o.batch * bytes;
}

std::vector<MemoryPart> policy_memory(const Options& o, const AlgoContext& context) {
  const ModelShape shape = model_shape(o, context.spec);
  const int64_t row = kept_of_image(shape) + forward_elements(shape);
  return {{"weights to act with", kF32 * acting_parameter_count(shape)},
          {"activations of acting", kF32 * acting_rows(context) * row}};
}

std::vector<MemoryPart> planned_memory(const Options& options, const AlgoContext& context) {
  const Options o = options.share_of(context.processes);
  const ModelShape shape = model_shape(o, context.spec);
  const int64_t parameters = parameter_count(shape);
  // gradients and two moments: by lanes, beside weights and their transposes in rows on a
  // processor; or with the four that a step in ATen makes anew
  const bool fused = use_fused(o);
  const int64_t in_rows = context.device.is_cpu() ? 2 : 0;
  const int64_t copies = 3 + (fused ? shard_count(o, context.device) + in_rows : 4);
  std::vector<MemoryPart> parts{
      {"parameters", kF32 * parameters, kF32 * parameters},
      {"gradients and optimiser", kF32 * copies * parameters, kF32 * 2 * parameters},
      {"activations of an update",
       (fused ? fused_bytes(o, shape, context) : kF32 * update_elements(o, shape)) +
           pictured_bytes(o, context.spec)}};
  if (const int64_t rounded = fused ? rounded_bytes(o, shape, context) : 0; rounded > 0)
    parts.push_back({"weights and factors in bf16", rounded});
  for (const MemoryPart& part : policy_memory(o, context)) parts.push_back(part);
  return parts;
}

}  // namespace maglev::dreamer
