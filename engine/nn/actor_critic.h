#pragma once
// What an algorithm sees of a policy and value network: rows of observations to logits and value.
// A network that brings forward, a value head and parameters trains; everything below those has a
// default. Networks are plug-ins (engine/nn/network.h), and most stand on TrunkNetwork.
//
// Threads: any number may be in forward, of one network or of replicas; the rest runs alone.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/nn/normalizer.h"
#include "engine/nn/obs_encoder.h"
#include "engine/nn/value_head.h"
#include "kernels/mlp/mlp.h"

namespace maglev {

/// What the networks give for rows of observations.
struct NetworkOutput {
  at::Tensor
      /// [B, categories] f32, or the mean [B, dims] of continuous actions; undefined if not asked
      logits;
  at::Tensor value;  ///< [B] f32, normalised units of the value head; undefined if not asked
};

/// Steps of B sequences, time first, to a network that remembers.
struct Recall {
  at::Tensor state;     ///< [B, memory_size()] f32: before the first step, then behind the last
  at::Tensor is_first;  ///< [L, B] u8: an episode begins here, and nothing before it is remembered
};

/// What a layer gives, for people who look.
struct LayerOutput {
  std::string name;   ///< "policy 1"
  at::Tensor output;  ///< [B, ...]
};

/// What one row costs in a forward pass: shards are sized by the first, memory is planned by the
/// others.
struct RowCost {
  int64_t multiply_adds = 0;
  int64_t outputs = 0;    ///< numbers that all layers together give
  int64_t uses = 1;       ///< times it uses the most used weights: rows it is in their products
  int64_t convolved = 0;  ///< of the outputs those of convolutions, kept once
  int64_t seen = 0;       ///< numbers of the image that convolutions see
  /// The most that comes back through one of them, with what it masks first; networks take turns.
  int64_t passing = 0;
  /// Numbers a thread works in besides, however many rows there are; layers take turns.
  int64_t scratch = 0;
  /// Of the outputs those that are kept in 16 bits where a run's precision is bf16 or fp16.
  int64_t rounded = 0;
  /// Of the layer behind convolutions that has the most weights: these, whose gradient is made
  /// before it is added, and what comes back through it of a row. Meanwhile nothing is `passing`.
  int64_t widest = 0, returned = 0;
  RowCost operator+(const RowCost& other) const {
    return {multiply_adds + other.multiply_adds,
            outputs + other.outputs,
            uses > other.uses ? uses : other.uses,
            convolved + other.convolved,
            seen + other.seen,
            passing > other.passing ? passing : other.passing,
            scratch > other.scratch ? scratch : other.scratch,
            rounded + other.rounded,
            widest > other.widest ? widest : other.widest,
            returned > other.returned ? returned : other.returned};
  }
};
/// Of layers that use each of these parameters once a row.
RowCost cost_of(const std::vector<at::Tensor>& parameters);

/// A fully connected layer's tensors, which are the module's own.
struct DenseTensors {
  at::Tensor weight, bias;  ///< [out, in], [out]
  Activation activation;
};

/// A gated recurrent unit behind fully connected layers (engine/nn/cell.h).
struct DenseCell {
  /// From what is seen to the gate pre-activations, the last layer's, with their bias.
  std::vector<DenseTensors> gates;
  at::Tensor memory_weight;  ///< [3 * units, units]
};

/// A network as fully connected layers, for PanelNetwork: `shared` on what the policy sees, then
/// `policy` on its output (or on what the policy sees, when it is empty) to the logits, and `value`
/// likewise, with privileged inputs joined behind, to the value.
struct DenseStacks {
  std::vector<DenseTensors> shared, policy, value;
  /// Where it remembers, in the order of its memory, and `shared` is empty: one cell of what the
  /// policy sees, on whose memory both go on, or one each, the value's behind privileged inputs too.
  std::vector<DenseCell> cells;
  /// Running statistics of each observation column, null where it is taken as it is; empty: all
  /// are.
  std::vector<const RunningNorm*> norms;
};

class ActorCritic : public torch::nn::Module {
 public:
  struct Want {
    bool policy = true, value = true;
  };
  /// columns: [B, shape] each, as stored. Keeps nothing of a call for the next.
  virtual NetworkOutput forward(const std::vector<at::Tensor>& columns, Want want) = 0;
  /// Numbers that each row remembers from one step to the next; 0: it sees one step alone.
  virtual int64_t memory_size() const { return 0; }
  /// In the place of forward where it remembers: columns [L * B, shape], time first. What only a
  /// value remembers stays as it is where none is asked for.
  virtual NetworkOutput forward_through(const std::vector<at::Tensor>& columns, Want want,
                                        Recall& recall);
  /// forward in two parts, for people who look: what the layers see of observations, and the
  /// outputs of that, whose gradients reach it. The layers' outputs are added to `layers`. Where it
  /// remembers, `recall` is as forward_through has it. None: it sees no plain numbers.
  virtual std::optional<EncodedObs> encode(const std::vector<at::Tensor>& columns) const {
    (void)columns;
    return std::nullopt;
  }
  virtual NetworkOutput look(const EncodedObs& seen, std::vector<LayerOutput>* layers,
                             Recall* recall = nullptr);
  /// Where the value comes from: one of this module's own, whose weight PopArt may rescale.
  virtual ValueHead& value_head() const = 0;
  /// A parameter [dims] f32 for continuous actions; undefined for categorical ones.
  virtual at::Tensor log_std() const { return {}; }

  /// Takes observations of times 0 to T of columns [.., rows, shape] into running statistics, which
  /// are buffers of the module; those of all processes of `group`, null: of this one. is_first
  /// [T+1, rows] u8 beside them says which are of agents that wait (ObsEncoder::absorb).
  virtual void absorb(const std::vector<at::Tensor>& columns, const at::Tensor& is_first, int64_t T,
                      Group* group) {
    (void)columns, (void)is_first, (void)T, (void)group;
  }
  virtual RowCost cost() const { return cost_of(parameters()); }
  /// Of these rows, taken at once by a processor, on average: less where not all that a row has
  /// room for is there, or equal parts of rows are taken once. Counts work, plans no memory.
  virtual RowCost cost_of_rows(const std::vector<at::Tensor>& columns) const {
    (void)columns;
    return cost();
  }
  /// What people should know of it before they train it, one line; empty: nothing.
  virtual std::string note() const { return ""; }
  /// Direct children whose matrices give the outputs, which Muon leaves to Adam.
  virtual std::vector<std::string> output_layers() const { return {"policy_head", "value_head"}; }
  /// The part that a parameter, by its name, is of; the parameters of each lie side by side and are
  /// clipped together where clipping is by part.
  virtual std::string part_of(const std::string& parameter) const {
    return parameter.substr(0, parameter.find('.'));
  }
  /// None: it is more than fully connected layers.
  virtual std::optional<DenseStacks> dense() const { return std::nullopt; }

  /// Whether it computes in bf16 by itself, from copies of its weights. Then round_weights is
  /// called when parameters changed, and share_rounded once for each replica, which reads the
  /// copies of
  /// `original`, of the same class.
  virtual bool rounds_weights() const { return false; }
  virtual void round_weights() {}
  virtual void share_rounded(const ActorCritic& original) { (void)original; }
};

}  // namespace maglev
