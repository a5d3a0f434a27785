#pragma once
// An ActorCritic of fully connected layers (ActorCritic::dense) as kernels see it: which layers and
// columns, with pointers to parameters where those lie. On the CPU it runs itself: a panel of
// up to 64 rows goes from its observations to logits and value, and gradients back, in one thread's
// cache, without anything being dispatched or allocated. The module stays the owner of the
// parameters and the reference.
//
// Threads: a PanelNetwork is read-only; each thread brings a Panel of its own.

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"
#include "base/env/env.h"
#include "base/env/spec.h"
#include "engine/nn/actor_critic.h"
#include "kernels/mlp/mlp.h"

namespace maglev {

/// Observation rows of one or more columns, as the store keeps them.
struct ObsRows {
  const std::byte* column[kMaxObsColumns] = {};  ///< row 0 of each column
};

class PanelNetwork {
 public:
  /// Why `network` cannot run on panels, in a few words; empty when it can.
  static std::string obstacle(const ActorCritic& network, const EnvSpec& spec);

  /// Reads the parameters where they lie now: in the flat buffer that begins at `flat`. With
  /// `pairs` (where pair_products_available()) wide layers take their products in bfloat16, of
  /// weights as the last round_weights left them.
  PanelNetwork(const ActorCritic& network, const EnvSpec& spec, const at::Tensor& flat,
               bool pairs = false);
  /// Before anything runs and after the parameters changed, while nobody runs; without pairs there
  /// is nothing to do.
  void round_weights(ThreadPool& pool);

  /// The memory of one panel, on the CPU. Logits, value and their gradients are [features][stride].
  class Panel {
   public:
    explicit Panel(const PanelNetwork& network);

    float* logits() const { return policy_.y.back(); }  ///< [categories or dims][stride]
    float* value() const { return value_.y.back(); }    ///< [stride], the value head's units
    float* d_logits() const { return policy_.dy.back(); }
    float* d_value() const { return value_.dy.back(); }
    int64_t stride() const { return stride_; }
    int64_t rows() const { return rows_; }

   private:
    friend class PanelNetwork;
    struct Stack {
      float* x;
      std::vector<float*> y, dy, slope;
      std::vector<uint32_t*> words;  ///< a layer's inputs in pairs
    };
    Stack shared_, policy_, value_;
    float *input_, *d_features_, *scratch_;
    uint32_t* pair_scratch_;
    int64_t stride_ = 0, rows_ = 0;
    at::Tensor memory_;
  };

  /// Takes rows `index[0..rows)` of `obs`, or rows `first ..` when `index` is null, as input.
  /// Standardises by the running statistics where there are any. 1 <= rows <= kPanelRows.
  void load(Panel& panel, const ObsRows& obs, const int64_t* index, int64_t first,
            int64_t rows) const;
  /// Has the processor fetch what a load() of these rows will read.
  void fetch(const ObsRows& obs, const int64_t* index, int64_t rows) const;
  /// Input -> logits and, or, value.
  void forward(Panel& panel, bool policy, bool value) const;
  /// Where gradients of the layers lie in a gradient buffer laid out as the flat one.
  struct Gradients {
    std::vector<DenseGrad> shared, policy, value;
  };
  Gradients gradients(float* grad) const;
  /// From d_logits and d_value (zeros in padding columns), which are overwritten, adds the
  /// parameters' gradients. After a forward of both.
  void backward(Panel& panel, const Gradients& grad) const;

  /// True when the value needs layers the policy has computed anyway.
  bool shared() const { return !shared_.layers.empty(); }

  // what it consists of, for who runs it elsewhere

  struct Stack {
    std::vector<DenseLayer> layers;
    std::vector<int64_t> weight_at, bias_at;  ///< in the flat buffer
    int64_t in = 0;
    bool slopes = false;  ///< some layer's derivative is not a function of its output
  };
  struct Column {
    size_t index;  ///< among the observations
    DType dtype;
    int64_t elements, row_bytes, offset;  ///< offset: its first feature in the input panel
    bool privileged;                      ///< the critic's alone; these come last
    const float *mean, *var;              ///< null where taken as they are
    float clip;
  };
  const Stack& shared_layers() const { return shared_; }
  const Stack& policy_layers() const { return policy_; }
  const Stack& value_layers() const { return value_; }
  const std::vector<Column>& columns() const { return columns_; }

 private:
  static Stack stack(const std::vector<DenseTensors>& layers, const at::Tensor& flat);
  void take_pairs();

  Stack shared_, policy_, value_;
  at::Tensor pairs_;  ///< weights in pairs, or undefined
  std::vector<const DenseLayer*> paired_;
  std::vector<Column> columns_;
  int64_t visible_ = 0, privileged_ = 0;  ///< features both see; only the critic sees
};

}  // namespace maglev
