#pragma once
// An ActorCritic of fully connected layers (ActorCritic::dense) as kernels see it: which layers and
// columns, with pointers to parameters where those lie. On the CPU it runs itself: a panel of
// up to 64 rows goes from its observations to logits and value, and gradients back, in one thread's
// cache, without anything being dispatched or allocated. One that remembers goes to the
// pre-activations of its gates and from what is remembered on; what lies between is
// PanelSequences'. The module stays the owner of the parameters and the reference.
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
  /// Before anything runs and after the parameters changed, while nobody runs: weights in pairs,
  /// and those of cells as kernels read them. Where there are neither there is nothing to do.
  void round_weights(ThreadPool& pool);

  /// The memory of one panel, on the CPU. Logits, value and their gradients are [features][stride],
  /// as is what goes into a cell and out of it.
  class Panel {
   public:
    explicit Panel(const PanelNetwork& network) : Panel(network, nullptr) {}
    /// Of a network that remembers, one of several whose rows go through its cells together: with
    /// `other`, but for its input and what layers before a cell give of that, it shares all.
    Panel(const PanelNetwork& network, const Panel* other);

    float* logits() const { return policy_.y.back(); }  ///< [categories or dims][stride]
    float* value() const { return value_.y.back(); }    ///< [stride], the value head's units
    float* d_logits() const { return policy_.dy.back(); }
    float* d_value() const { return value_.dy.back(); }
    /// A cell's gate pre-activations, [3 * units][stride]; then their gradients.
    float* gates(size_t cell) const { return cells_[cell].gates.y.back(); }
    /// What heads see of a cell, [units][stride]; written by whoever goes through it.
    float* remembered(size_t cell) const { return cells_[cell].remembered; }
    float* d_remembered(size_t cell) const { return cells_[cell].d_remembered; }
    int64_t stride() const { return stride_; }
    int64_t rows() const { return rows_; }

   private:
    friend class PanelNetwork;
    struct Stack {
      float* x;
      std::vector<float*> y, dy, slope;
      std::vector<uint32_t*> words;  ///< a layer's inputs in pairs
      float* scratch;
      uint32_t* pair_scratch;
    };
    struct Cell {
      Stack gates;  ///< with a scratch of its own: cells may run at once
      float *remembered, *d_remembered;
    };
    struct Wanted;
    /// A panel's own memory, and what several may share.
    void want_own(const PanelNetwork& network, Wanted& wanted);
    void want_shared(const PanelNetwork& network, Wanted& wanted);
    void lay_out(const Wanted& wanted);

    Stack shared_, policy_, value_;
    std::vector<Cell> cells_;
    float *input_, *d_features_;
    int64_t stride_ = 0, rows_ = 0;
    at::Tensor memory_, shared_memory_;
  };

  /// Takes rows `index[0..rows)` of `obs`, or rows `first ..` when `index` is null, as input.
  /// Standardises by the running statistics where there are any. 1 <= rows <= kPanelRows.
  void load(Panel& panel, const ObsRows& obs, const int64_t* index, int64_t first,
            int64_t rows) const;
  /// Has the processor fetch what a load() of these rows will read.
  void fetch(const ObsRows& obs, const int64_t* index, int64_t rows) const;
  /// Input -> a cell's gate pre-activations. Different cells of a panel may run at once.
  void forward_gates(Panel& panel, size_t cell) const;
  /// Input, or what is remembered -> logits and, or, value.
  void forward(Panel& panel, bool policy, bool value) const;
  /// Where gradients of the layers lie in a gradient buffer laid out as the flat one.
  struct Gradients {
    std::vector<DenseGrad> shared, policy, value;
    std::vector<std::vector<DenseGrad>> gates;  ///< of each cell
    std::vector<float*> memory;                 ///< [3 * units, units] of each cell
  };
  Gradients gradients(float* grad) const;
  /// From d_logits and d_value (zeros in padding columns), which are overwritten, adds the
  /// parameters' gradients. After a forward of both. Where it remembers those of the heads, and
  /// writes d_remembered of every cell.
  void backward(Panel& panel, const Gradients& grad) const;
  /// From the gradients in gates(), with zeros in padding columns, adds those of the layers before
  /// them. After forward_gates().
  void backward_gates(Panel& panel, size_t cell, const Gradients& grad) const;

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
  /// A cell's weights as kernels read them: rows that begin at 64 bytes.
  struct Cell {
    Stack gates;
    int64_t units, weight_at;  ///< weight_at: of memory_weight in the flat buffer
    const float* given;        ///< memory_weight, [3 * units, units]
    float *weight, *weight_t;  ///< [3 * units][weight_row], [units][weight_t_row]
    int64_t weight_row, weight_t_row;
  };
  const std::vector<Cell>& cells() const { return cells_; }
  const Stack& shared_layers() const { return shared_; }
  const Stack& policy_layers() const { return policy_; }
  const Stack& value_layers() const { return value_; }
  const std::vector<Column>& columns() const { return columns_; }

 private:
  static Stack stack(const std::vector<DenseTensors>& layers, const at::Tensor& flat);
  static void run(const Stack& stack, Panel::Stack& memory, const Panel& panel);
  static void run_back(const Stack& stack, Panel::Stack& memory, const Panel& panel,
                       const std::vector<DenseGrad>& into, float* dx, int64_t dx_features);
  void take_pairs();
  void take_cells(const DenseStacks& stacks, const at::Tensor& flat);
  /// The value needs layers, or a cell, that the policy has gone through anyway.
  bool joined() const { return !shared_.layers.empty() || cells_.size() == 1; }
  /// Features of what heads see, without privileged inputs; where they begin with the input, 0.
  int64_t head_features() const;

  Stack shared_, policy_, value_;
  at::Tensor pairs_;  ///< weights in pairs, or undefined
  std::vector<const DenseLayer*> paired_;
  std::vector<Cell> cells_;
  at::Tensor cell_weights_;  ///< of all cells, or undefined
  std::vector<Column> columns_;
  int64_t visible_ = 0, privileged_ = 0;  ///< features both see; only the critic sees
};

}  // namespace maglev
