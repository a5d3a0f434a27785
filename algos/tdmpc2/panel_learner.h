#pragma once
// One update of TD-MPC2 on the CPU without autograd: panels of 64 rows of the batch go through
// targets, rollout, losses and all the way back in one thread's cache, without a barrier; the
// weights' gradients follow, one product over all panels each. The same figures as AutogradLearner,
// which is its reference.
//
// Threads: the batch is cut into panels and the gradients into tasks from sizes alone, and sums over
// panels run in order: results do not depend on how many threads there are.

#include <atomic>
#include <string>
#include <vector>

#include "algos/tdmpc2/autograd_learner.h"
#include "algos/tdmpc2/learner_state.h"
#include "algos/tdmpc2/numbers.h"
#include "algos/tdmpc2/panel_stack.h"

namespace maglev::tdmpc2 {

class PanelLearner {
 public:
  /// Why an update of these options cannot run on panels, in a few words; empty when it can.
  static std::string obstacle(const LearnerOptions& options, at::Device device);

  PanelLearner(const LearnerOptions& options, LearnerState& state);

  /// One update; writes `figures` [kFigures] f32. Allocates nothing but what ATen's views take.
  void update(const Sequences& batch, at::Tensor& figures);

  // its parts, in order; a test may look between them

  /// Gradients of the model's losses into state.grad.
  void model_gradients(const Sequences& batch);
  /// Gradients of the policy's loss into state.grad, and the running scale, at the latents that
  /// model_gradients left.
  void policy_gradients();

 private:
  /// Buffers of one thread.
  struct Scratch {
    float *obs, *noise, *action, *head;
    float *next;            ///< [H][D + A][stride], latents of the targets and their actions
    float *target;          ///< [H][stride]
    float *value[2];        ///< [stride] each
    float *logits[2];       ///< [K][stride] each
    float *factor;          ///< [M][stride]
    float *loss;            ///< [stride]
    float *reward, *terminated;  ///< [stride]
    PanelStack::Saved infer_encoder, infer_policy, infer_q;
    PanelStack::Saved encoder, reward_net, q, termination;
    std::vector<PanelStack::Saved> dynamics;  ///< of each step
    PanelStack::Back encoder_back, dynamics_back, reward_back, q_back, termination_back,
        policy_back, q_passing;
  };
  class Borrowed;

  Scratch make_scratch();
  /// Latent t of panel p, [D][stride], with room for an action behind it.
  float* latent(int64_t p, int64_t t) const { return latents_ + (p * (H_ + 1) + t) * wide_; }
  int64_t rows_of(int64_t p) const { return std::min(stride_, B_ - p * stride_); }
  /// Rows of panel p of x [B, width] to [width][stride], zeros as padding.
  void load(const float* x, int64_t p, int64_t width, float* panel) const;
  NoiseFill fill(UpdateNumbers kind) const;
  /// Normals of panel p, step t of [steps][B][A].
  void draw_normals(UpdateNumbers kind, int64_t p, int64_t t, Scratch& s) const;
  QPair draw_pair(UpdateNumbers kind) const;
  /// Dropout of net `n` of `steps` steps; null without dropout.
  const float* draw_dropout(UpdateNumbers kind, int64_t net, int64_t steps, int64_t p, int64_t t,
                            Scratch& s) const;

  void model_panel(const Sequences& batch, int64_t p);
  void targets(const Sequences& batch, int64_t p, Scratch& s);
  void rollout(const Sequences& batch, int64_t p, Scratch& s);
  void heads(const Sequences& batch, int64_t p, Scratch& s);
  void rollout_back(int64_t p, Scratch& s);
  void policy_panel(int64_t p, int64_t t);
  void policy_back(int64_t p, int64_t t);
  float move_scale();
  void follow_targets();

  Options options_;
  ModelShape shape_;
  uint64_t seed_;
  float discount_;
  ThreadPool* pool_;
  LearnerState* state_;
  int64_t B_, H_, D_, A_, M_, stride_, panels_, wide_;
  int64_t update_ = 0;  ///< number of the update
  std::vector<float> rho_;

  PanelMemory memory_;
  PanelStack encoder_, dynamics_, reward_, policy_;
  std::vector<PanelStack> termination_;  ///< one, or none
  std::vector<PanelStack> q_, target_q_;
  PanelStack::Waiting encoder_waiting_, dynamics_waiting_, reward_waiting_, termination_waiting_,
      policy_waiting_;
  std::vector<PanelStack::Waiting> q_waiting_;
  std::vector<PanelStack::Task> model_tasks_, policy_tasks_;
  QPair target_pair_, policy_pair_;

  float* latents_;
  // of each panel and step of the policy's loss
  std::vector<PanelStack::Saved> policy_saved_;
  float *policy_head_, *policy_noise_, *policy_action_, *policy_d_action_, *policy_q_;
  std::vector<double> sums_;  ///< [panels][kFigures], of the model's losses
  std::vector<double> policy_sums_;
  std::vector<float> sorted_;
  float d_value_ = 0;  ///< 1 / scale

  std::vector<Scratch> scratch_;
  std::vector<std::atomic<bool>> taken_;
  at::Tensor model_grad_, policy_grad_;
};

}  // namespace maglev::tdmpc2
