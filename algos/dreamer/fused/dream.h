#pragma once
// What the model imagines from rows of states, step by step without gradients, and what the heads
// say of it: reward, whether it goes on, values, by the networks and the slow value network.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/dreamer/fused/core.h"
#include "algos/dreamer/fused/stack.h"
#include "algos/dreamer/networks.h"
#include "algos/dreamer/options.h"
#include "kernels/categoricals/categoricals_op.h"

namespace maglev::dreamer {

/// What a dream of n rows draws.
struct DreamNoise {
  at::Tensor prior;   ///< [H, n, S] uniforms
  at::Tensor action;  ///< [H + 1, n, ...]
};

class Dream {
 public:
  Dream(const Options& options, const ModelShape& shape, const Networks& networks,
        const Head& slow_value, const Core& core, WeightRows& rows, const at::Tensor& bins,
        int64_t n);

  /// From features [n, F] on.
  void imagine(const at::Tensor& start, const DreamNoise& noise);

  const at::Tensor& feature() const { return feature_; }          ///< [(H + 1) * n, F]
  const at::Tensor& action() const { return action_; }            ///< [H + 1, n, A]
  const at::Tensor& reward_mean() const { return reward_mean_; }  ///< [H + 1, n], of steps behind 0
  const at::Tensor& terminated() const { return terminated_; }    ///< [H + 1, n]
  const at::Tensor& value_mean() const { return value_mean_; }    ///< [H + 1, n]
  const at::Tensor& slow_mean() const { return slow_mean_; }      ///< [H, n]
  /// As action_head's operations want it.
  const at::Tensor& choices() const { return choices_; }

  /// The heads as they were left: policy and value of all steps, the others of the first n rows.
  Stack policy, value, reward, going_on;

 private:
  /// Views of one step.
  struct Step {
    CoreStep core;  ///< to the next one
    at::Tensor feature, action, one_hot;
  };
  /// Views of what the heads see at once.
  struct Look {
    at::Tensor feature, reward, going_on, value,
        slow;  ///< of m rows: [m, F], [m], [m, 1], [m] twice
  };
  void look(int64_t l);
  void advance(int64_t t, const DreamNoise& noise);

  int64_t H_, n_;
  int64_t looks_;  ///< a step at a time while it is in the cache, on a device all
  at::Tensor choices_;
  CategoricalShape categoricals_;
  const Core* core_;
  Stack slow_, prior_;
  at::Tensor bins_;
  at::Tensor feature_, action_, reward_mean_, going_on_logit_, terminated_, value_mean_, slow_mean_;
  at::Tensor probs_;
  std::vector<Step> steps_;
  std::vector<Look> look_;
};

}  // namespace maglev::dreamer
