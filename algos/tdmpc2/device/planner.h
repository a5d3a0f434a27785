#pragma once
// The plan of any number of environment rows as one program of fixed shape: the planner of GPUs,
// which capture it whole, and of images and bf16 on processors without products of their own for
// it. Nothing is read back and every decision is data.
//
// It is the ReferencePlanner's plan with everything left out that cannot change its distribution:
// only the drawn pair of value networks is evaluated, the first step's products with the latent are
// one row an environment, the policy's trajectories are rolled out once, and first layers with the
// same input are one product. A single plan is a chain of small launches on a device: what the
// latents of a round do not wait for is done beside them, and a layer's end may be made within the
// next layer's product.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/planner.h"
#include "engine/device/precision.h"
#include "engine/device/side_stream.h"
#include "kernels/end_product/end_product_op.h"

namespace maglev::tdmpc2 {

/// Sequences of all environments up to which a device has time beside a plan's chain of latents.
/// More fill it by themselves, and what is held until rewards are there would be gigabytes.
constexpr int64_t kBesideRows = 4096;
/// Sequences of all environments up to which a layer's end may be made within the next product. For
/// every 16 of them all weights are read anew, from a GPU's second cache, and for every 128 outputs
/// ends are made anew: at 512 that takes about as long as the launches that are left out
/// (arithmetic, not measured).
constexpr int64_t kEndsInProductsRows = 512;
// end_product reads weights before the launch ahead of it is over (base/device/launch.cuh): the pair
// of value networks that a round takes must not be gathered right ahead of it
static_assert(kEndsInProductsRows <= kBesideRows);
/// Streams a plan may work on beside the current one, which take memory each.
constexpr int64_t kPlanStreams = 3;
/// Whether a plan of `rows` environments works out beside its chain of latents what that does not
/// wait for: rewards, the policy's trajectories, each round's value networks.
inline bool works_beside(at::Device device, int64_t rows, int64_t samples) {
  return device.is_cuda() && rows * samples <= kBesideRows;
}

/// Threads: on a device one at a time, for its second stream is one.
class DevicePlanner : public Planner {
 public:
  /// Products are bf16 where `precision` is; sums, LayerNorm and values are f32. `ends_in_products`:
  /// plans of at most kEndsInProductsRows sequences make a layer's end within the next product
  /// (end_product). Throws Error where there is an obstacle().
  DevicePlanner(const PlanOptions& options, const ModelShape& shape, Precision precision,
                at::Device device, bool ends_in_products = false);
  /// Why ends cannot be made within products; empty: they can.
  static std::string obstacle(const ModelShape& shape, Precision precision, at::Device device);

  /// Addresses stay: a captured plan reads the new weights.
  void publish(const WorldModel& model, const at::Tensor& params) override;
  /// Graph-safe on CUDA.
  Plan plan(const PlanRequest& request) override;

  /// The operands of products that stay, as they are read there: for tests of how they lie.
  std::vector<at::Tensor> weights() const;

 private:
  /// A layer of G networks of equal widths, side by side. Weights are transposed.
  struct Side {
    at::Tensor weight = {};  ///< [G, in, out]; Heads have a first hidden layer's
    at::Tensor start = {};   ///< [1, G, out] f32; likewise
    at::Tensor gain, shift;  ///< [1, G, out] f32
  };
  /// Hidden layers of networks [begin, begin + nets) of Heads, whose widths are the same.
  struct Block {
    int64_t begin, nets;
    int64_t column;  ///< where their first layers' features begin
    std::vector<int64_t> widths;
    std::vector<Side> layers = {};
  };
  /// Hidden layers of networks that read the same inputs: their first layers are one product.
  struct Heads {
    at::Tensor first;  ///< [in, features] of all first layers
    at::Tensor start;  ///< [1, features] f32, their biases
    at::Tensor task;   ///< [T, features] f32, products with the embedding; undefined without tasks
    std::vector<Block> blocks;
    /// Features of the first layers of the first `nets`.
    int64_t features(int64_t nets) const;
  };
  /// The last layer of one head.
  struct Out {
    at::Tensor weight;  ///< [in, out], rows 32 bytes or a multiple apart
    at::Tensor start;   ///< [out] f32
  };
  struct Work;  ///< of one plan

  at::Tensor empty(at::IntArrayRef sizes) const;   ///< in the products' dtype
  at::Tensor weight(at::IntArrayRef sizes) const;  ///< zeros [..., in, out], as end_product wants
  /// Rows [N, R, G, in] times weight [N or 1, G, in, out]: [N, R, G, out], laid out as end_product's.
  at::Tensor product(const Work& work, const ProductRows& rows, const at::Tensor& weight) const;
  /// What comes of `open` at its end: `to`, written now, or within the next product.
  ProductRows ended(const Work& work, const DenseEndTensors& open, const at::Tensor& to) const;
  /// Shapes alone, of networks with these hidden widths: publish() fills them, at addresses that
  /// stay.
  Heads heads(int64_t in, const std::vector<std::vector<int64_t>>& hidden) const;
  Side side(int64_t nets, int64_t in, int64_t out) const;
  Out out(int64_t in, int64_t out) const;
  void publish_heads(const WorldModel& model);
  /// Value networks stay apart: a round gathers the drawn pair of each environment.
  void publish_values(const ModelLayout& layout, const at::Tensor& params);
  /// Behind the hidden layers of the first `nets` networks, of each [N, R, 1, its last width].
  /// Inputs `x` are those of rows [from, from + inputs) of the first layers' weights, whose sums
  /// begin at `start` [N or 1, features].
  std::vector<ProductRows> hidden(const Work& work, const ProductRows& x, const Heads& heads,
                                  const at::Tensor& start, int64_t nets, int64_t from,
                                  int64_t inputs) const;
  Plan plan_of(const PlanRequest& request);
  /// A plan's buffers, where its layers' sums begin, and its first mean and deviation.
  Work begin(const PlanRequest& request) const;
  /// One round: sequences drawn, valued, and the moments of the best of them.
  void refine(Work& work, int64_t round);
  /// The action of one of the last round's elites.
  Plan choose(const Work& work) const;
  void roll_policy(Work& work);
  /// Step t of `latents` (at t = 0 nobody reads them) and the actions in `inputs` [N, R, ld], of
  /// sequences from `first` on. The next latents go to `next` [N, R, D], the last step's at once.
  /// Its reward is worked out on `rewards` where there is time beside.
  ProductRows step(Work& work, int64_t t, const ProductRows& latents, const at::Tensor& inputs,
                   const at::Tensor& next, int64_t first, SideStream& rewards);
  /// Adds step t's reward, from what is behind the hidden layers of its networks; beside a round's
  /// latents it keeps what it reads until all that works there is joined.
  void add_reward(Work& work, int64_t t, const std::vector<ProductRows>& h, int64_t first);
  /// Where the last bias lies among a value network's vectors.
  int64_t q_vector() const;
  /// The round's pair of value networks of each environment.
  void gather_q_pair(Work& work, int64_t round);
  /// Values of all sequences of a round.
  void total(Work& work, int64_t round);
  /// The policy's actions behind the horizon, to the inputs of value networks. Returns the logits of
  /// having ended there [N, S, 1, 1], undefined where nothing ends, once all that works beside the
  /// latents has joined.
  at::Tensor act_behind(Work& work, int64_t round);
  /// Logits [N, S, 2, bins] of the pairs of value networks `q`, without their last bias.
  at::Tensor value_logits(const Work& work, int64_t round, const std::vector<at::Tensor>& q) const;

  PlanOptions options_;
  PlanNumbers numbers_;
  ModelShape shape_;
  at::Device device_;
  at::ScalarType dtype_;
  bool ends_in_products_;
  int64_t ld_;     ///< elements of a row of inputs, latent and action side by side
  int64_t heads_;  ///< networks of a step: dynamics, reward and, if episodic, termination
  /// Beside a round's latents: its rewards; its value networks and, beside the first round, the
  /// policy's trajectories; and rewards of these.
  SideStream rewards_, aside_, aside_rewards_;

  Heads step_;    ///< dynamics | reward | termination
  Heads policy_;  ///< policy | termination
  Side dynamics_out_;
  Out reward_out_, policy_out_, termination_out_;
  /// Value networks: each layer's weights [num_q, out * in] as they are, the first with rows of ld_,
  /// the last with rows of zeros up to a whole tile; and [num_q, q_vector() + K] f32: bias, gain and
  /// shift of each hidden layer, then the last bias.
  std::vector<at::Tensor> q_weights_;
  at::Tensor q_vectors_;
  at::Tensor q_task_;     ///< [T, num_q * width] f32: first layers' products with the embedding
  at::Tensor embedding_;  ///< [tasks, T] f32
  at::Tensor discount_;   ///< [tasks, H + 1] f32: discount^t
};

}  // namespace maglev::tdmpc2
