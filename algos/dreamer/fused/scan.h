#pragma once
// The recurrent model over the steps of replayed sequences, without autograd: tokens and actions
// enter by products over all steps before the loop, the loop has what depends on the step before
// alone, and the weights' gradients are one product each behind the loop back.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/dreamer/fused/core.h"
#include "algos/dreamer/fused/stack.h"
#include "algos/dreamer/model_shape.h"
#include "kernels/categoricals/categoricals_op.h"

namespace maglev::dreamer {

/// Sequences as the scan takes them, T steps of R; contiguous.
struct ScanInputs {
  at::Tensor tokens;    ///< [T * R, E]
  at::Tensor action;    ///< [T, R, A]
  at::Tensor is_first;  ///< [T, R] f32
  at::Tensor deter;     ///< [R, D], the state before
  at::Tensor stoch;     ///< [R, S] u8, its categories
  at::Tensor uniforms;  ///< [T, R, S]
};

class Scan {
 public:
  Scan(const ModelShape& shape, const Networks& networks, const Core& core, WeightRows& rows,
       const StackRows& steps);

  void forward(const ScanInputs& in);
  /// From the gradients of features and of the posterior's probabilities, d_probs [T * R, S * C],
  /// on; adds the weights' gradients. Reads what forward left.
  void back(const at::Tensor& d_probs, BackScratch& scratch);

  /// Both states side by side, [T * R, F]; h of them [T * R, D].
  const at::Tensor& feature() const { return feature_; }
  const at::Tensor& deter() const { return deter_; }
  /// The posterior's probabilities [T * R, S * C], and what was drawn of them [T, R, S] u8.
  const at::Tensor& probs() const { return probs_; }
  const at::Tensor& category() const { return category_; }
  /// The gradient of feature(), which losses add to before back(); [T * R, F], h of it.
  at::Tensor& d_feature() { return d_feature_; }
  at::Tensor& d_deter() { return d_deter_; }
  /// The gradient of the tokens, [T * R, E], that back() left.
  const at::Tensor& d_tokens() const { return d_tokens_; }

 private:
  /// Views of one step.
  struct Step {
    CoreStep core;
    at::Tensor pre, active, inverse, probs, one_hot, category;  ///< of the posterior
    CarriedRows one_hot_on, d_h_on, d_one_hot_on;  ///< to the next step, and back from there
    at::Tensor d_next, d_one_hot, d_logits, d_active, d_pre;
    at::Tensor d_probs, d_gates, d_mixed, d_mixed_blocks, mixed_terms;
    CoreInputs d_inputs;  ///< gradients in the places of what they are of
    at::Tensor d_pre_deter, d_pre_stoch;
  };
  void begin(const ScanInputs& in);
  void make_steps();
  void step_back(Step& step);
  void add_gradients(const at::Tensor& ones);
  void action_back(BackScratch& scratch);

  ModelShape shape_;
  CategoricalShape categoricals_;
  const Core* core_;
  DenseWeights posterior_, posterior_out_;
  NormWeights posterior_norm_;
  at::Tensor by_deter_, by_token_;            ///< the posterior's first weights, of h and the token
  at::Tensor by_deter_back_, by_token_back_;  ///< and transposed
  int64_t T_, R_;

  // what the loop leaves, rows of all steps one behind another
  at::Tensor feature_, deter_;
  at::Tensor masked_, keep_;  ///< [T, R, F], states before a step without what an end cuts; [T, R]
  ActionStep action_;
  CoreInputs inputs_;
  at::Tensor inverse_, mixed_, active_, gates_;
  at::Tensor pre_, posterior_active_, logits_, probs_, category_;
  // and the loop back
  at::Tensor d_feature_, d_deter_, d_masked_, d_block_;
  at::Tensor d_logits_, d_active_, d_pre_, d_gates_, d_mixed_, mixed_terms_;
  CoreInputs d_inputs_;
  at::Tensor d_mix_, d_tokens_;  ///< d_mix_ [3 * hidden, D], of the weights the inputs have
  at::Tensor d_masked_deter_, d_masked_stoch_, d_masked_blocks_;
  at::Tensor tokens_;
  std::vector<Step> steps_;
};

}  // namespace maglev::dreamer
