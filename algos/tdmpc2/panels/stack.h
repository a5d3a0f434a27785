#pragma once
// A network of the world model on panels (base/simd/panel.h): forward, back to its inputs, and
// the gradients of its weights once every panel has been through. Products read weights as pack()
// left them, which is called once they have moved (back to some of the inputs alone f32 reads them
// as they are); all else of the parameters is read where it lies in the flat buffer. Allocates
// nothing while it works.
//
// In bfloat16 what enters a product is rounded to nearest even: inputs, weights and gradients on
// the way back. Sums, norms, ends, what is handed in and out as f32, and the weights' gradients stay
// f32. Panels of words are then pairs (kernels/dense/dense_bf16.h), in f32 a word is a feature.
//
// Threads: a stack is read-only but for pack(), beside which nothing else may run; a panel's buffers
// belong to whoever works on it, and a weight task writes gradients nobody else writes.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/model_shape.h"
#include "kernels/dense/dense_bf16.h"

namespace maglev::tdmpc2 {

/// Floats that a learner's PanelMemory asks the system for at once, at most.
constexpr int64_t kPanelSlab = int64_t(1) << 21;

/// Memory that lives as long as its owner, in pieces aligned to 64 bytes, zero at first.
class PanelMemory {
 public:
  /// Each piece by itself.
  PanelMemory() = default;
  /// Pieces of less than a quarter of `slab` floats side by side, in large pages where the system
  /// has any, as larger ones are: where there are more small pages than a processor's TLB holds.
  explicit PanelMemory(int64_t slab) : slab_(slab) {}
  PanelMemory(PanelMemory&&) = default;
  PanelMemory& operator=(PanelMemory&&) = default;
  float* take(int64_t floats);

 private:
  float* block(int64_t floats);

  /// What is left of a slab.
  struct Room {
    float *begin, *end;
  };
  int64_t slab_ = 0;
  std::vector<at::Tensor> blocks_;
  std::vector<Room> rooms_;
};

/// Words of bfloat16 panels lie where floats do.
inline uint32_t* pairs_at(float* words) { return reinterpret_cast<uint32_t*>(words); }
inline const uint32_t* pairs_at(const float* words) {
  return reinterpret_cast<const uint32_t*>(words);
}

/// What a thread's stacks in bfloat16 work in; none is read after the call that writes it.
struct StackScratch {
  float* sums = nullptr;         ///< of a hidden layer before its end
  float* dz[2] = {};             ///< gradients of hidden layers, by turns
  uint32_t* dz_pairs = nullptr;  ///< one of them, outputs paired
  /// For layers of at most `widest` features.
  static StackScratch make(PanelMemory& memory, int64_t widest, int64_t stride);
};

class PanelStack {
 public:
  /// How far gradients go: nowhere, to all layers, and on to what the first one reads.
  enum class Passes { nowhere, layers, inputs };
  /// Layers at `places` of the flat buffer; hidden layers end in Mish. Panels have `stride`
  /// columns, packed weights lie in `memory`.
  PanelStack(const MlpPlaces& places, DenseEnd last, const float* flat, int64_t stride, bool bf16,
             PanelMemory& memory, Passes passes);

  /// Packs layer `l` as the flat buffer has it now. Different layers may be packed at once.
  void pack(size_t l) const;

  size_t layers() const { return layers_.size(); }
  int64_t in() const { return layers_.front().in; }
  int64_t out() const { return layers_.back().out; }

  /// What each layer leaves of a panel: y [out][stride], words, the last one's not, and for a
  /// backward pass xhat [out][stride] and rstd [stride] (null where there is none).
  struct Saved {
    std::vector<float*> y, xhat, rstd;
  };
  Saved inference(PanelMemory& memory) const;
  Saved training(PanelMemory& memory) const;

  /// out [out][stride], f32, of the words x. `factor` multiplies the first product; null: none.
  void forward(const float* x, const Saved& saved, const StackScratch& scratch, const float* factor,
               float* out) const;

  /// What weight gradients of `panels` panels wait for; panel p's begin at p times a step.
  struct Waiting {
    int64_t panels = 0;
    std::vector<float*> columns;  ///< of each layer, words in bfloat16
    std::vector<float*> dz;       ///< of each layer; in bfloat16 of the last alone
    std::vector<float*> rows;     ///< in bfloat16 dz of each layer rounded, rows paired
    bool shared = false;          ///< the first columns are another's, who writes them
    float* small = nullptr;  ///< gradients of gains, shifts and in bfloat16 biases, of each part
    int64_t parts = 0;
  };
  /// Panels of a part, as many in each, add to the same small gradients one after another. Where
  /// `shared` is not null, the first layer has the same inputs as its first layer.
  Waiting waiting(PanelMemory& memory, int64_t panels, int64_t parts,
                  const Waiting* shared = nullptr) const;
  /// Before the first panel of a part.
  void begin_part(const Waiting& waiting, int64_t part) const;

  /// Where a panel's way back is written.
  struct Back {
    std::vector<float*> dz, columns, rows;
    float* small = nullptr;
  };
  Back back_buffers(const StackScratch& scratch) const;
  void aim(const Waiting& waiting, int64_t panel, Back& back) const;
  /// For a way back that leaves no weight gradients.
  Back passing(PanelMemory& memory, const StackScratch& scratch) const;

  /// From d loss / d out in back.dz.back(), 0 in padding columns, to every layer's dz, the columns
  /// of its inputs where wanted, and d loss / d x of features [first, first + features) where dx is
  /// not null, which is added to or written. `out` is what forward gave. In bfloat16 `first` is a
  /// multiple of kPairBlock.
  struct Inputs {
    float* dx = nullptr;  ///< [features][stride]
    int64_t first = 0, features = 0;
    bool add = false;
  };
  void backward(const float* x, const Saved& saved, const StackScratch& scratch,
                const float* factor, const float* out, const Back& back,
                const Inputs& inputs) const;

  /// One weight task: rows of one layer's gradient.
  struct Task {
    const PanelStack* stack;
    const Waiting* waiting;
    size_t layer;
    int64_t first, count;
  };
  /// Appends the stack's tasks, cut from sizes alone.
  void append_tasks(const Waiting& waiting, std::vector<Task>& tasks) const;
  /// Writes the task's gradients into `grad`, laid out as the flat buffer.
  static void run(const Task& task, float* grad);

 private:
  struct Layer {
    int64_t in, out;
    DenseEnd end;
    LayerPlace place;
    const float *weight, *bias, *gain, *shift;
    int64_t
        small_at;   ///< of gain and shift in the small gradients, in bfloat16 the bias behind them
    float* packed;  ///< words in bfloat16
    float* transpose;  ///< likewise; null: nothing passes
  };
  int64_t packed_words(int64_t out, int64_t in) const;
  int64_t columns_words(const Layer& layer) const;
  int64_t rows_words(const Layer& layer) const { return pair_blocks_size(layer.out, stride_ / 2); }
  void forward_f32(size_t l, const float* x, const Saved& saved, const float* factor,
                   float* y) const;
  void forward_bf16(size_t l, const float* x, const Saved& saved, const StackScratch& scratch,
                    const float* factor, float* y) const;
  void input_grad(size_t l, const StackScratch& scratch, const Back& back,
                  const Inputs& inputs) const;

  bool bf16_;
  std::vector<Layer> layers_;
  int64_t stride_, small_ = 0;
};

}  // namespace maglev::tdmpc2
