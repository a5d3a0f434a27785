#pragma once
// The world model as planning on a processor reads it: weights packed once an update, in f32 or in
// bfloat16, and layers that take one panel (base/simd/panel.h) after another.
//
// Panels of words: in f32 a word [f * stride + r] is a feature, in bfloat16 a pair of features as
// kernels/dense/dense_bf16.h has them. Products, their starts and logits are f32 in both.

#include <array>
#include <span>
#include <vector>

#include "algos/tdmpc2/model_shape.h"
#include "algos/tdmpc2/panels/stack.h"
#include "kernels/dense/dense_bf16.h"

namespace maglev::tdmpc2 {

/// Columns of a planning panel's word.
constexpr int64_t kPlanStride = kPanelRows;

/// Where a product's sums begin: output o at at[o * step].
struct SumStart {
  const float* at = nullptr;
  int64_t step = 1;
};

/// Most panels a layer's weights are read for at once. A layer of 512 x 512 in bfloat16 is 512 KiB,
/// what a panel reads and leaves 128 KiB: eight of them and the layer stay in a second cache of 2
/// MiB.
constexpr int64_t kMostTogether = 8;
/// How many of a plan's `sequences` share a layer's weights, in panels: as many as leave every
/// thread some where this processor multiplies tiles in bfloat16, which takes less time than the
/// weights take from the last cache, and one elsewhere.
int64_t panels_together(int64_t sequences, int64_t threads, bool bf16);

/// One panel through a network. Inputs are panels of words; null where the network has no such
/// input, or where its products are in the start already.
struct NetPanel {
  const float* latent = nullptr;
  const float* action = nullptr;
  const float* task = nullptr;
  int64_t rows;
  float* out;  ///< the last layer's [out][kPlanStride]: words where it has an end, else f32
};

/// What a thread works in besides a network's inputs and outputs.
struct PackedScratch {
  /// Words of hidden layers, of each panel that is gone through together.
  std::array<std::array<float*, 2>, kMostTogether> hidden{};
  float* sums = nullptr;  ///< of a layer before its end, in bfloat16
};

class PackedNet {
 public:
  /// `widths` of the inputs latent, action and task; 0: the network has none of them.
  PackedNet(const MlpPlaces& places, DenseEnd last, const std::array<int64_t, 3>& widths, bool bf16,
            PanelMemory& memory);

  size_t layers() const { return layers_.size(); }
  /// Packs layer `l` of the flat parameters.
  void pack(size_t l, const float* flat);

  /// The first layer's biases, and its products with some inputs added to them: sums
  /// [out][kPlanStride], without an end.
  SumStart bias() const { return {layers_[0].bias.data(), 1}; }
  void first_sums(const NetPanel& panel) const;

  /// All layers of at most kMostTogether panels, one layer after another; `start` stands for the
  /// first one's bias and what the inputs left out contribute.
  void forward(SumStart start, std::span<const NetPanel> panels,
               const PackedScratch& scratch) const;

 private:
  struct Layer {
    LayerPlace place;
    DenseEnd end;
    int64_t words;  ///< of its inputs
    float* packed;
    std::vector<float> bias, gain, shift;
  };
  void run(const Layer& layer, SumStart start, const NetPanel& panel, DenseEnd end,
           float* sums) const;
  int64_t words_of(int64_t features) const { return bf16_ ? (features + 1) / 2 : features; }

  bool bf16_;
  std::array<int64_t, 3> widths_;
  std::array<int64_t, 3> first_;  ///< word each input begins at
  std::vector<Layer> layers_;
};

class PackedModel {
 public:
  PackedModel(const ModelShape& shape, bool bf16);

  bool bf16() const { return bf16_; }
  /// Words of a row's `features`.
  int64_t words(int64_t features) const { return bf16_ ? (features + 1) / 2 : features; }

  /// Layers to pack after every update: tasks, which any threads may run at once.
  int64_t layers() const { return int64_t(tasks_.size()); }
  void pack(int64_t task, const float* flat);

 private:
  struct Task {
    PackedNet* net;
    size_t layer;
  };
  bool bf16_;
  PanelMemory memory_;
  std::vector<Task> tasks_;

 public:
  PackedNet dynamics, reward, policy;
  /// One, or none where it has convolutions. Its input is what is seen, the task's embedding behind
  /// it; always f32: it is run once a plan.
  std::vector<PackedNet> encoder;
  std::vector<PackedNet> termination;  ///< one, or none
  std::vector<PackedNet> q;
};

}  // namespace maglev::tdmpc2
