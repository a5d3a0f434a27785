#pragma once
// One update of TD-MPC2 on the CPU without autograd: panels of 64 rows of the batch go through
// targets, rollout, losses and all the way back in one thread's cache, without a barrier; the
// weights' gradients follow, one product over all panels each. The same figures as
// ReferenceLearner, which is its reference.
//
// In bf16 all networks but the encoder round what enters their products (PanelStack); the encoder
// sees observations as they are, in plans as well. Latents, losses, sums and the optimiser are f32.
//
// Threads: the batch is cut into panels and the gradients into tasks from sizes alone, and sums
// over panels run in order: results do not depend on how many threads there are.

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "algos/tdmpc2/learner.h"
#include "algos/tdmpc2/numbers.h"
#include "algos/tdmpc2/panels/stack.h"

namespace maglev::tdmpc2 {

class PanelLearner : public Learner {
 public:
  /// Why an update of these options cannot run on panels, in a few words; empty when it can.
  static std::string obstacle(const LearnerOptions& options, at::Device device);

  PanelLearner(const LearnerOptions& options, LearnerState& state);

  /// Asks the heap for nothing.
  void update(const Sequences& batch, at::Tensor& figures) override;

  // its parts, in order; a test may look between them

  /// Gradients of the model's losses into state.grad.
  void model_gradients(const Sequences& batch);
  /// Gradients of the policy's loss into state.grad, and the running scale, at the latents that
  /// model_gradients left.
  void policy_gradients();

 private:
  /// Buffers of one thread.
  struct Scratch {
    StackScratch stack;
    float *obs, *noise, *head, *factor;
    float* next;    ///< [H][D + A][stride]: latents the targets are computed at, actions
    float* words;   ///< of one of them, in bf16
    float* target;  ///< [H][stride]
    float *value[2], *column, *loss;  ///< [stride] each
    float* logits;                    ///< [K][stride]
    PanelStack::Saved infer_encoder, infer_policy, infer_q;
    PanelStack::Saved encoder, reward, q, termination;
    std::vector<PanelStack::Saved> dynamics;  ///< of each step
    PanelStack::Back encoder_back, dynamics_back, reward_back, q_back, termination_back,
        policy_back, q_passing;
  };
  /// Calls work(scratch) with buffers nobody else uses. There is one a thread, so one is free.
  template <class Work>
  void with_scratch(const Work& work) {
    size_t mine = 0;
    while (taken_[mine].exchange(true, std::memory_order_acquire))
      mine = (mine + 1) % taken_.size();
    work(scratch_[mine]);
    taken_[mine].store(false, std::memory_order_release);
  }

  /// Sums over the rows of one panel, in f64.
  struct ModelSums {
    double consistency, reward, value, termination, target;
  };
  struct PolicySums {
    double entropy, scaled_entropy, q;
  };

  Scratch make_scratch();
  int64_t rows_of(int64_t p) const { return std::min(stride_, B_ - p * stride_); }
  /// Latent t of panel p, [D][stride], with room for an action behind it.
  float* latent(int64_t p, int64_t t) const { return latents_ + (p * (H_ + 1) + t) * wide_; }
  /// It and its action as networks read them: itself, in bf16 its pairs.
  float* words(int64_t p, int64_t t) const {
    return bf16_ ? words_ + (p * (H_ + 1) + t) * pairs_ : latent(p, t);
  }
  /// What networks read of a latent and its action at z, once both are there; `words` is where in
  /// bf16.
  const float* round(const float* z, float* words) const;
  /// The gradient of that latent: where its layer's way back begins.
  float* d_latent(int64_t p, int64_t t) const;
  /// Panel p of rows x [B, width] as [width][stride], zeros as padding.
  void load(const float* x, int64_t p, int64_t width, float* panel) const;
  NoiseFill fill(UpdateNumbers kind) const;
  /// Normals of panel p at step t of [steps][B][A], as [A][stride].
  void draw_normals(UpdateNumbers kind, int64_t p, int64_t t, Scratch& s, float* panel) const;
  QPair draw_pair(UpdateNumbers kind) const;
  /// Dropout of network `net` at step t of `steps`; null without dropout.
  const float* draw_dropout(UpdateNumbers kind, int64_t net, int64_t steps, int64_t p, int64_t t,
                            Scratch& s) const;

  /// Weights that products read, packed: all but the target networks that were not drawn, and, once
  /// the model has moved, the value networks that the policy's loss draws.
  void pack_model();
  void pack_policy_values();

  // the model's losses, panel by panel
  void model_panel(const Sequences& batch, int64_t p);
  void find_targets(const Sequences& batch, int64_t p, Scratch& s);
  void roll_out(const Sequences& batch, int64_t p, Scratch& s);
  void learn_reward(const Sequences& batch, int64_t p, Scratch& s);
  void learn_consistency(int64_t p, Scratch& s);
  void learn_value(int64_t p, Scratch& s);
  void learn_termination(const Sequences& batch, int64_t p, Scratch& s);
  void roll_back(int64_t p, Scratch& s);

  // the policy's loss, panel by panel and step by step
  void policy_panel(int64_t p, int64_t t);
  void policy_back(int64_t p, int64_t t);
  void move_scale();

  void write_model_figures(at::Tensor& figures) const;
  void write_policy_figures(at::Tensor& figures) const;

  Options options_;
  ModelShape shape_;
  uint64_t seed_;
  float discount_;
  ThreadPool* pool_;
  LearnerState* state_;
  Group* group_;
  int64_t B_, all_, before_;  ///< sequences here, of all processes, and of those before this one
  int64_t H_, D_, A_;
  int64_t dropped_;  ///< features that dropout is drawn for
  int64_t stride_, panels_;
  int64_t wide_;  ///< floats of a latent with its action
  bool bf16_;
  int64_t pairs_;  ///< words of it as pairs
  std::vector<float> rho_;

  PanelMemory memory_;
  PanelStack encoder_, dynamics_, reward_, policy_;
  std::vector<PanelStack> termination_;  ///< one, or none
  std::vector<PanelStack> q_, target_q_;
  PanelStack::Waiting encoder_waiting_, dynamics_waiting_, reward_waiting_, termination_waiting_,
      policy_waiting_;
  std::vector<PanelStack::Waiting> q_waiting_;
  std::vector<PanelStack::Task> model_tasks_, policy_tasks_;

  struct Packing {
    const PanelStack* stack;
    size_t layer;
  };
  std::vector<Packing> packing_;  ///< of pack_model, but for the drawn pair of targets

  float* latents_;          ///< [panels][H + 1][D + A][stride]
  float* words_ = nullptr;  ///< of them in bf16
  QPair target_pair_{}, policy_pair_{};
  std::vector<ModelSums> model_sums_;  ///< [panels]

  // of each panel and step of the policy's loss
  std::vector<PanelStack::Saved> policy_saved_;
  float *policy_head_, *policy_noise_, *policy_d_action_, *policy_q_;
  std::vector<PolicySums> policy_sums_;
  at::Tensor begins_;  ///< [B] f32, values at step 0

  std::vector<Scratch> scratch_;  ///< one a thread
  std::vector<std::atomic<bool>> taken_;
  at::Tensor model_grad_, policy_grad_;  ///< [1, ...] f32, parts of state.grad
};

}  // namespace maglev::tdmpc2
