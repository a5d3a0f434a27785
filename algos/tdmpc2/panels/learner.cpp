#include "algos/tdmpc2/panels/learner.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"
#include "kernels/dropout/dropout.h"

namespace maglev::tdmpc2 {
namespace {

using Passes = PanelStack::Passes;

// what stacks are made of besides their places
struct Making {
  const float* flat;
  int64_t stride;
  bool bf16;
  PanelMemory& memory;

  PanelStack stack(const MlpPlaces& places, DenseEnd last, Passes passes = Passes::inputs) const {
    return {places, last, flat, stride, bf16, memory, passes};
  }
  std::vector<PanelStack> heads(const std::vector<MlpPlaces>& nets,
                                Passes passes = Passes::inputs) const {
    std::vector<PanelStack> list;
    for (const auto& net : nets) list.push_back(stack(net, DenseEnd::none, passes));
    return list;
  }
};

const float* flat(const LearnerState& state) { return state.params.data().const_data_ptr<float>(); }

Making making(const LearnerOptions& o, const float* flat, int64_t stride, PanelMemory& memory) {
  return {flat, stride, o.precision == Precision::bf16, memory};
}

}  // namespace

std::string PanelLearner::obstacle(const LearnerOptions& options, at::Device device) {
  const ModelShape& s = options.shape;
  if (!device.is_cpu()) return "it is for the CPU";
  if (s.image()) return "the encoder has convolutions";
  if (s.tasks > 0) return "there are several tasks";
  if (options.precision == Precision::bf16 && !pair_products_available())
    return "this processor has no products of bfloat16 pairs";
  // what gradients of latents and of actions begin with is a block
  if (options.precision == Precision::bf16 && s.latent % kPairBlock != 0)
    return "in bf16 latents must be a multiple of " + std::to_string(kPairBlock);
  if (s.simnorm != kSimNormGroup) return "simnorm_dim is not 8";
  for (const auto& widths : {s.hidden.encoder, s.head_widths()})
    for (int64_t width : widths)
      if (width % kSimNormGroup != 0) return "a width is not a multiple of 8";
  return "";
}

PanelLearner::PanelLearner(const LearnerOptions& o, LearnerState& state)
    : options_(o.options),
      shape_(o.shape),
      seed_(o.seed),
      discount_(o.discount.front()),
      pool_(o.pool),
      state_(&state),
      group_(o.group),
      B_(o.options.batch),
      all_(o.batch_of_all()),
      before_(o.first_sequence()),
      H_(o.options.horizon),
      D_(o.shape.latent),
      A_(o.shape.actions),
      dropped_(o.shape.hidden.q.front()),
      // a small batch has a narrower panel, in whole vectors
      stride_((std::min(B_, kPanelRows) + 15) / 16 * 16),
      panels_((B_ + stride_ - 1) / stride_),
      wide_((D_ + A_) * stride_),
      bf16_(o.precision == Precision::bf16),
      pairs_((D_ + A_ + 1) / 2 * stride_),
      // a small model's slabs are small
      memory_(std::min(kPanelSlab, state.params.size())),
      // reads observations, which are not rounded
      encoder_(state.model->layout().encoder, DenseEnd::simnorm, flat(state), stride_,
               /*bf16=*/false, memory_, Passes::layers),
      dynamics_(making(o, flat(state), stride_, memory_)
                    .stack(state.model->layout().dynamics, DenseEnd::simnorm)),
      reward_(making(o, flat(state), stride_, memory_)
                  .stack(state.model->layout().reward, DenseEnd::none)),
      policy_(making(o, flat(state), stride_, memory_)
                  .stack(state.model->layout().policy, DenseEnd::none, Passes::layers)),
      taken_(size_t(o.pool->threads())) {
  const ModelLayout& layout = state.model->layout();
  const Making made = making(o, flat(state), stride_, memory_);
  if (shape_.episodic) termination_ = made.heads({layout.termination});
  q_ = made.heads(layout.q);
  // target networks lie in a buffer of their own, which begins with the first of them
  target_q_ = making(o, state.target_q.const_data_ptr<float>() - layout.q_begin(), stride_, memory_)
                  .heads(layout.q, Passes::nowhere);
  const auto packs = [this](const PanelStack& stack) {
    for (size_t l = 0; l < stack.layers(); ++l) packing_.push_back({&stack, l});
  };
  packs(encoder_), packs(dynamics_), packs(reward_), packs(policy_);
  for (const auto* list : {&termination_, &q_})
    for (const auto& net : *list) packs(net);
  for (int64_t t = 0; t <= H_; ++t) rho_.push_back(float(std::pow(options_.rho, double(t))));

  // gradients of weights wait for all panels; rewards and values read what the dynamics read
  const int64_t steps = panels_ * H_, policy_steps = panels_ * (H_ + 1);
  encoder_waiting_ = encoder_.waiting(memory_, panels_, panels_);
  dynamics_waiting_ = dynamics_.waiting(memory_, steps, panels_);
  reward_waiting_ = reward_.waiting(memory_, steps, panels_, &dynamics_waiting_);
  for (const auto& q : q_)
    q_waiting_.push_back(q.waiting(memory_, steps, panels_, &dynamics_waiting_));
  for (const auto& net : termination_) termination_waiting_ = net.waiting(memory_, steps, panels_);
  policy_waiting_ = policy_.waiting(memory_, policy_steps, policy_steps);
  // a task writes gradients of its own: their order does not matter
  for (size_t i = 0; i < q_.size(); ++i) q_[i].append_tasks(q_waiting_[i], model_tasks_);
  dynamics_.append_tasks(dynamics_waiting_, model_tasks_);
  reward_.append_tasks(reward_waiting_, model_tasks_);
  for (const auto& net : termination_) net.append_tasks(termination_waiting_, model_tasks_);
  encoder_.append_tasks(encoder_waiting_, model_tasks_);
  policy_.append_tasks(policy_waiting_, policy_tasks_);

  // what one stage leaves for the next
  latents_ = memory_.take(policy_steps * wide_);
  if (bf16_) words_ = memory_.take(policy_steps * pairs_);
  for (int64_t i = 0; i < policy_steps; ++i) policy_saved_.push_back(policy_.training(memory_));
  policy_head_ = memory_.take(policy_steps * 2 * A_ * stride_);
  policy_noise_ = memory_.take(policy_steps * A_ * stride_);
  policy_d_action_ = memory_.take(policy_steps * A_ * stride_);
  policy_q_ = memory_.take(policy_steps * stride_);
  model_sums_.resize(size_t(panels_));
  policy_sums_.resize(size_t(policy_steps));
  begins_ = at::empty({B_}, state.grad.options());
  for (size_t i = 0; i < taken_.size(); ++i) scratch_.push_back(make_scratch());

  // gradients as the optimisers take them: one lane each
  const int64_t begin = layout.policy_begin();
  model_grad_ = state.grad.narrow(0, 0, begin).unsqueeze(0);
  policy_grad_ = state.grad.narrow(0, begin, layout.size() - begin).unsqueeze(0);
}

PanelLearner::Scratch PanelLearner::make_scratch() {
  const StackScratch stack =
      bf16_ ? StackScratch::make(memory_, std::max({shape_.widest(), kBins, 2 * A_}), stride_)
            : StackScratch{};
  Scratch s{.stack = stack,
            .obs = memory_.take(encoder_.in() * stride_),
            .noise = memory_.take(A_ * stride_),
            .head = memory_.take(2 * A_ * stride_),
            .factor = memory_.take(std::max(dropped_, A_) * stride_),
            .next = memory_.take(H_ * wide_),
            .words = bf16_ ? memory_.take(pairs_) : nullptr,
            .target = memory_.take(H_ * stride_),
            .value = {memory_.take(stride_), memory_.take(stride_)},
            .column = memory_.take(stride_),
            .loss = memory_.take(stride_),
            .logits = memory_.take(kBins * stride_),
            .infer_encoder = encoder_.inference(memory_),
            .infer_policy = policy_.inference(memory_),
            .infer_q = q_.front().inference(memory_),
            .encoder = encoder_.training(memory_),
            .reward = reward_.training(memory_),
            .q = q_.front().training(memory_),
            .encoder_back = encoder_.back_buffers(stack),
            .dynamics_back = dynamics_.back_buffers(stack),
            .reward_back = reward_.back_buffers(stack),
            .q_back = q_.front().back_buffers(stack),
            .policy_back = policy_.back_buffers(stack),
            .q_passing = q_.front().passing(memory_, stack)};
  for (const auto& net : termination_) {
    s.termination = net.training(memory_);
    s.termination_back = net.back_buffers(stack);
  }
  for (int64_t t = 0; t < H_; ++t) s.dynamics.push_back(dynamics_.training(memory_));
  return s;
}

const float* PanelLearner::round(const float* z, float* words) const {
  if (!bf16_) return z;
  panel_to_pairs(z, D_ + A_, stride_, stride_, pairs_at(words));
  return words;
}

float* PanelLearner::d_latent(int64_t p, int64_t t) const {
  return t == 0 ? encoder_waiting_.dz.back() + p * D_ * stride_
                : dynamics_waiting_.dz.back() + (p * H_ + t - 1) * D_ * stride_;
}

void PanelLearner::load(const float* x, int64_t p, int64_t width, float* panel) const {
  const float* rows = x + p * stride_ * width;
  const int64_t count = rows_of(p);
  // padding columns are 0
  for (int64_t f = 0; f < width; ++f) {
    for (int64_t r = 0; r < count; ++r) panel[f * stride_ + r] = rows[r * width + f];
    std::fill(panel + f * stride_ + count, panel + (f + 1) * stride_, 0.f);
  }
}

NoiseFill PanelLearner::fill(UpdateNumbers kind) const {
  // this update's numbers: the counter is read here and not in every kernel
  NoiseFill fill = update_fill(seed_, kind, state_->updates.const_data_ptr<int64_t>());
  fill.first = first_index(fill), fill.base = nullptr;
  return fill;
}

void PanelLearner::draw_normals(UpdateNumbers kind, int64_t p, int64_t t, Scratch& s,
                                float* panel) const {
  // rows of a panel are a range of the numbers ReferenceLearner draws for the whole batch
  NoiseFill numbers = fill(kind);
  numbers.first += uint64_t((t * all_ + before_ + p * stride_) * A_);
  numbers.count = rows_of(p) * A_;
  noise_normal_cpu(numbers, s.noise);
  for (int64_t i = 0; i < A_; ++i) {
    for (int64_t r = 0; r < rows_of(p); ++r) panel[i * stride_ + r] = s.noise[r * A_ + i];
    std::fill(panel + i * stride_ + rows_of(p), panel + (i + 1) * stride_, 0.f);
  }
}

QPair PanelLearner::draw_pair(UpdateNumbers kind) const {
  const NoiseFill numbers = fill(kind);
  return q_pair(uniform(numbers.seed, numbers.stream, numbers.first), shape_.num_q);
}

const float* PanelLearner::draw_dropout(UpdateNumbers kind, int64_t net, int64_t steps, int64_t p,
                                        int64_t t, Scratch& s) const {
  if (options_.dropout == 0) return nullptr;
  // numbered by network, step, row and feature; a panel's rows lie together
  const NoiseFill numbers = fill(kind);
  dropout_cpu({.seed = numbers.seed,
               .stream = numbers.stream,
               .first = numbers.first +
                        uint64_t(((net * steps + t) * all_ + before_ + p * stride_) * dropped_),
               .row_step = uint64_t(dropped_),
               .features = dropped_,
               .stride = stride_,
               .share = float(options_.dropout),
               .factor = s.factor});
  return s.factor;
}

void PanelLearner::pack_model() {
  const auto& [first, second] = target_pair_;
  const int64_t fixed = int64_t(packing_.size()), layers = int64_t(q_.front().layers());
  pool_->run(fixed + 2 * layers, [&](int64_t i) {
    if (i < fixed) return packing_[size_t(i)].stack->pack(packing_[size_t(i)].layer);
    const auto& target = target_q_[size_t(i - fixed < layers ? first : second)];
    target.pack(size_t((i - fixed) % layers));
  });
}

void PanelLearner::pack_policy_values() {
  const auto& [first, second] = policy_pair_;
  const int64_t layers = int64_t(q_.front().layers());
  pool_->run(2 * layers,
             [&](int64_t i) { q_[size_t(i < layers ? first : second)].pack(size_t(i % layers)); });
}

void PanelLearner::model_gradients(const Sequences& batch) {
  target_pair_ = draw_pair(UpdateNumbers::target_pair);
  pack_model();
  float* grad = state_->grad.data_ptr<float>();
  // down, panel by panel: the losses and all the way back
  pool_->run(panels_, [&](int64_t p) { model_panel(batch, p); });
  // across: each weight's gradient over all panels
  pool_->run(int64_t(model_tasks_.size()),
             [&](int64_t i) { PanelStack::run(model_tasks_[size_t(i)], grad); });
}

void PanelLearner::policy_gradients() {
  policy_pair_ = draw_pair(UpdateNumbers::policy_pair);
  pack_policy_values();
  float* grad = state_->grad.data_ptr<float>();
  const int64_t steps = H_ + 1;
  // values of all panels first: the way back needs the scale that follows from them
  pool_->run(panels_ * steps, [&](int64_t i) { policy_panel(i / steps, i % steps); });
  move_scale();
  pool_->run(panels_ * steps, [&](int64_t i) { policy_back(i / steps, i % steps); });
  // the policy's weights, over all panels and steps
  pool_->run(int64_t(policy_tasks_.size()),
             [&](int64_t i) { PanelStack::run(policy_tasks_[size_t(i)], grad); });
}

void PanelLearner::update(const Sequences& batch, at::Tensor& figures) {
  at::NoGradGuard no_grad;
  LearnerState& s = *state_;
  MAGLEV_ASSERT(batch.obs.sizes() == at::IntArrayRef({H_ + 1, B_, encoder_.in()}) &&
                    batch.action.sizes() == at::IntArrayRef({H_, B_, A_}),
                "batches are as the options say");
  MAGLEV_ASSERT(batch.obs.is_contiguous() && batch.action.is_contiguous() &&
                    batch.reward.is_contiguous() && batch.terminated.is_contiguous(),
                "columns are contiguous");
  // the model moves first: the policy learns from value networks that have moved
  model_gradients(batch);
  reduce_all(s.model_adam, model_grad_, {}, *pool_, group_);
  s.model_adam.clip(s.skip);
  s.model_adam.step(s.lr, *pool_);
  policy_gradients();
  reduce_all(s.policy_adam, policy_grad_, {}, *pool_, group_);
  s.policy_adam.clip(s.skip);
  s.policy_adam.step(s.lr, *pool_);
  s.finish_update(options_.tau, *pool_);
  // shares of the whole batch's, until all have added theirs
  write_model_figures(figures);
  write_policy_figures(figures);
  if (group_) group_->sum(figures);
  // these all know already
  float* figure = figures.data_ptr<float>();
  figure[kGradNorm] = *s.model_adam.norm().const_data_ptr<float>();
  figure[kPolicyGradNorm] = *s.policy_adam.norm().const_data_ptr<float>();
  figure[kScale] = *s.scale.const_data_ptr<float>();
}

void PanelLearner::write_model_figures(at::Tensor& figures) const {
  // panels in order, whichever thread made them
  ModelSums sum{};
  for (const auto& part : model_sums_) {
    sum.consistency += part.consistency, sum.reward += part.reward, sum.value += part.value;
    sum.termination += part.termination, sum.target += part.target;
  }
  // means over rows and steps: the sums carry rho^t already, where a loss has it
  const double rows = double(all_ * H_);
  const double consistency = sum.consistency / (rows * double(D_)), reward = sum.reward / rows;
  const double value = sum.value / (rows * double(shape_.num_q));
  const double termination = sum.termination / rows;
  float* figure = figures.data_ptr<float>();
  figure[kConsistency] = float(consistency), figure[kReward] = float(reward);
  figure[kValue] = float(value), figure[kTermination] = float(termination);
  figure[kTotal] = float(options_.consistency_coef * consistency + options_.reward_coef * reward +
                         options_.value_coef * value + options_.termination_coef * termination);
  figure[kTarget] = float(sum.target / rows);
}

void PanelLearner::write_policy_figures(at::Tensor& figures) const {
  const double scale = double(*state_->scale.const_data_ptr<float>());
  const double rows = double(all_ * (H_ + 1));
  double entropy = 0, q = 0, loss = 0;
  // each panel at each step
  for (size_t i = 0; i < policy_sums_.size(); ++i) {
    const PolicySums& part = policy_sums_[i];
    entropy += part.entropy, q += part.q;
    loss -= double(rho_[i % size_t(H_ + 1)]) *
            (options_.entropy_coef * part.scaled_entropy + part.q / scale);
  }
  float* figure = figures.data_ptr<float>();
  figure[kPolicy] = float(loss / rows), figure[kEntropy] = float(entropy / rows);
  figure[kQMean] = float(q / rows);
}

}  // namespace maglev::tdmpc2
