#pragma once
// A network of the world model on panels (base/simd/panel.h): forward, back to its inputs, and
// the gradients of its weights once every panel has been through. Reads the parameters where they
// lie in the flat buffer, allocates nothing while it works.
//
// Threads: a stack is read-only; a panel's buffers belong to whoever works on it, and a weight task
// writes gradients nobody else writes.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/model_shape.h"
#include "kernels/dense/dense.h"

namespace maglev::tdmpc2 {

/// Memory that lives as long as its owner, in pieces aligned to 64 bytes, zero at first.
class PanelMemory {
 public:
  float* take(int64_t floats);

 private:
  std::vector<at::Tensor> blocks_;
};

class PanelStack {
 public:
  /// Layers at `places` of the flat buffer; hidden layers end in Mish. Panels have `stride` columns.
  PanelStack(const MlpPlaces& places, DenseEnd last, const float* flat, int64_t stride);

  size_t layers() const { return layers_.size(); }
  int64_t in() const { return layers_.front().in; }
  int64_t out() const { return layers_.back().out; }

  /// What each layer leaves of a panel: y [out][stride], the last one's not, and for a backward
  /// pass xhat [out][stride] and rstd [stride] (null where there is none).
  struct Saved {
    std::vector<float*> y, xhat, rstd;
  };
  Saved inference(PanelMemory& memory) const;
  Saved training(PanelMemory& memory) const;

  /// out [out][stride] of x [in][stride]. `factor` multiplies the first product; null: none.
  void forward(const float* x, const Saved& saved, const float* factor, float* out) const;

  /// What weight gradients of `panels` panels wait for; panel p's begin at p times a step.
  struct Waiting {
    int64_t panels = 0;
    std::vector<float*> columns, dz;  ///< of each layer
    bool shared = false;              ///< the first columns are another's, who writes them
    float* small = nullptr;           ///< gradients of gains and shifts, of each part
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
    std::vector<float*> dz, columns;
    float* small = nullptr;
  };
  Back back_buffers() const {
    return {std::vector<float*>(layers()), std::vector<float*>(layers())};
  }
  void aim(const Waiting& waiting, int64_t panel, Back& back) const;
  /// For a way back that leaves no weight gradients.
  Back passing(PanelMemory& memory) const;

  /// From d loss / d out in back.dz.back(), 0 in padding columns, to every layer's dz, the columns of
  /// its inputs where wanted, and d loss / d x of features [first, first + features) where
  /// dx is not null, which is added to or written. `out` is what forward gave.
  struct Inputs {
    float* dx = nullptr;  ///< [features][stride]
    int64_t first = 0, features = 0;
    bool add = false;
  };
  void backward(const float* x, const Saved& saved, const float* factor, const float* out,
                const Back& back, const Inputs& inputs) const;

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
    int64_t small_at;  ///< of gain and shift in the small gradients
  };
  std::vector<Layer> layers_;
  int64_t stride_, small_ = 0;
};

}  // namespace maglev::tdmpc2
