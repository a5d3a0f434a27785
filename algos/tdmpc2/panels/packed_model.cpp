#include "algos/tdmpc2/panels/packed_model.h"

#include <algorithm>

#include "base/core/error.h"
#include "base/simd/tiles.h"

namespace maglev::tdmpc2 {
namespace {

// words of bfloat16 panels lie where floats do
uint32_t* pairs(float* words) { return reinterpret_cast<uint32_t*>(words); }
const uint32_t* pairs(const float* words) { return reinterpret_cast<const uint32_t*>(words); }

}  // namespace

int64_t panels_together(int64_t sequences, int64_t threads, bool bf16) {
  if (!bf16 || !tiles_available()) return 1;
  const int64_t panels = (sequences + kPlanStride - 1) / kPlanStride;
  return std::clamp<int64_t>(panels / threads, 1, kMostTogether);
}

PackedNet::PackedNet(const MlpPlaces& places, DenseEnd last, const std::array<int64_t, 3>& widths,
                     bool bf16, PanelMemory& memory)
    : bf16_(bf16), widths_(widths) {
  // in pairs every input begins a block of its own, so that no pair straddles two
  int64_t words = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    first_[i] = words;
    words += bf16 ? whole_pair_blocks(words_of(widths[i])) : widths[i];
  }
  for (const auto& place : places) {
    // behind the first layer there is one input
    if (!layers_.empty()) words = words_of(place.in);
    // only normalised layers have gain and shift
    const size_t out = size_t(place.out), normed = place.normed ? out : 0;
    layers_.push_back({.place = place,
                       .end = &place == &places.back() ? last : DenseEnd::mish,
                       .words = words,
                       .packed = memory.take(bf16 ? pair_blocks_size(place.out, words)
                                                  : packed_dense_size(place.out, words)),
                       .bias = std::vector<float>(out),
                       .gain = std::vector<float>(normed),
                       .shift = std::vector<float>(normed)});
  }
}

void PackedNet::pack(size_t l, const float* flat) {
  Layer& layer = layers_[l];
  const LayerPlace& place = layer.place;
  const float* weight = flat + place.weight();
  std::copy_n(flat + place.bias(), layer.bias.size(), layer.bias.begin());
  std::copy_n(flat + place.gain(), layer.gain.size(), layer.gain.begin());
  std::copy_n(flat + place.shift(), layer.shift.size(), layer.shift.begin());
  // in f32 a word is a feature: inputs lie in the packed weight as in torch's
  if (!bf16_)
    return pack_dense({.weight = weight,
                       .out = place.out,
                       .in = place.in,
                       .out_step = place.in,
                       .in_step = 1,
                       .packed = layer.packed});
  // in pairs each input is packed by itself, from the word it begins at
  int64_t column = 0;
  for (size_t i = 0; i < widths_.size(); ++i) {
    const int64_t in = l == 0 ? widths_[i] : i == 0 ? place.in : 0;
    pack_dense_bf16({.weight = weight + column,
                     .out = place.out,
                     .in = in,
                     .out_step = place.in,
                     .in_step = 1,
                     .pairs = layer.words,
                     .first = l == 0 ? first_[i] : 0,
                     .packed = pairs(layer.packed)});
    column += in;
  }
}

void PackedNet::run(const Layer& layer, SumStart start, const NetPanel& panel, DenseEnd end,
                    float* sums) const {
  // the first layer finds its inputs at their places, any other has one
  const bool is_first = &layer == &layers_.front();
  const std::array<const float*, 3> inputs{panel.latent, panel.action, panel.task};
  size_t count = 0;
  if (bf16_) {
    std::array<DenseSegmentBf16, 3> segments;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i])
        segments[count++] = {pairs(inputs[i]), is_first ? first_[i] : 0,
                             is_first ? words_of(widths_[i]) : layer.words};
    return dense_bf16_cpu({.weight = pairs(layer.packed),
                           .pairs = layer.words,
                           .out = layer.place.out,
                           .start = start.at,
                           .start_step = start.step,
                           .segments = {segments.data(), count},
                           .end = end,
                           .gain = layer.gain.data(),
                           .shift = layer.shift.data(),
                           .sums = end == DenseEnd::none ? panel.out : sums,
                           .y = pairs(panel.out),
                           .stride = kPlanStride,
                           .rows = panel.rows});
  }
  std::array<DenseSegment, 3> segments;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i])
      segments[count++] = {inputs[i], is_first ? first_[i] : 0,
                           is_first ? widths_[i] : layer.words};
  dense_cpu({.weight = layer.packed,
             .in = layer.words,
             .out = layer.place.out,
             .start = start.at,
             .start_step = start.step,
             .segments = {segments.data(), count},
             .end = end,
             .gain = layer.gain.data(),
             .shift = layer.shift.data(),
             .y = panel.out,
             .stride = kPlanStride,
             .rows = panel.rows});
}

void PackedNet::first_sums(const NetPanel& panel) const {
  run(layers_.front(), bias(), panel, DenseEnd::none, nullptr);
}

void PackedNet::forward(SumStart start, std::span<const NetPanel> panels,
                        const PackedScratch& scratch) const {
  MAGLEV_ASSERT(int64_t(panels.size()) <= kMostTogether, "scratch holds as many panels");
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    // all panels through a layer while its weights are near
    for (size_t p = 0; p < panels.size(); ++p) {
      // hidden layers take turns in two buffers
      const auto& hidden = scratch.hidden[p];
      NetPanel panel = panels[p];
      if (l > 0) panel = {.latent = hidden[(l - 1) % 2], .rows = panel.rows, .out = panel.out};
      if (l + 1 < layers_.size()) panel.out = hidden[l % 2];
      // sums of the first layer begin where it is told, any other's at its bias
      run(layer, l == 0 ? start : SumStart{layer.bias.data(), 1}, panel, layer.end, scratch.sums);
    }
  }
}

PackedModel::PackedModel(const ModelShape& s, bool bf16)
    : bf16_(bf16),
      dynamics(model_layout(s).dynamics, DenseEnd::simnorm, {s.latent, s.actions, s.task_dim}, bf16,
               memory_),
      reward(model_layout(s).reward, DenseEnd::none, {s.latent, s.actions, s.task_dim}, bf16,
             memory_),
      policy(model_layout(s).policy, DenseEnd::none, {s.latent, 0, s.task_dim}, bf16, memory_) {
  const ModelLayout layout = model_layout(s);
  if (!s.image())
    encoder.emplace_back(layout.encoder, DenseEnd::simnorm,
                         std::array<int64_t, 3>{s.obs + s.task_dim, 0, 0}, /*bf16=*/false, memory_);
  if (s.episodic)
    termination.emplace_back(layout.termination, DenseEnd::none,
                             std::array<int64_t, 3>{s.latent, 0, s.task_dim}, bf16, memory_);
  for (const auto& places : layout.q)
    q.emplace_back(places, DenseEnd::none, std::array<int64_t, 3>{s.latent, s.actions, s.task_dim},
                   bf16, memory_);
  // a task is a layer: publishing shares them among threads
  const auto add = [this](PackedNet& net) {
    for (size_t l = 0; l < net.layers(); ++l) tasks_.push_back({&net, l});
  };
  add(dynamics), add(reward), add(policy);
  for (auto& net : encoder) add(net);
  for (auto& net : termination) add(net);
  for (auto& net : q) add(net);
}

void PackedModel::pack(int64_t task, const float* flat) {
  const Task& t = tasks_[size_t(task)];
  t.net->pack(t.layer, flat);
}

}  // namespace maglev::tdmpc2
