// The losses of PanelLearner: the model's, a panel of rows through all steps at once, and the
// policy's.

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "algos/tdmpc2/panels/learner.h"
#include "algos/tdmpc2/policy_prior.h"
#include "kernels/squashed_gaussian/squashed_gaussian.h"
#include "kernels/two_hot/two_hot.h"

namespace maglev::tdmpc2 {
namespace {

constexpr LogStdBounds kLogStd{.low = float(kLogStdLow), .high = float(kLogStdHigh)};

double sum_of(const float* x, int64_t count) {
  double sum = 0;
  for (int64_t r = 0; r < count; ++r) sum += double(x[r]);
  return sum;
}

}  // namespace

void PanelLearner::model_panel(const Sequences& batch, int64_t p) {
  model_sums_[size_t(p)] = {};
  with_scratch([&](Scratch& s) {
    find_targets(batch, p, s);
    roll_out(batch, p, s);
    learn_reward(batch, p, s);
    learn_consistency(p, s);
    learn_value(p, s);
    if (!termination_.empty()) learn_termination(batch, p, s);
    roll_back(p, s);
  });
}

// target = r + gamma (1 - terminated) min of the drawn pair at the next latent and an action of the
// policy there
void PanelLearner::find_targets(const Sequences& batch, int64_t p, Scratch& s) {
  const float* obs = batch.obs.const_data_ptr<float>();
  const int64_t first = p * stride_;
  for (int64_t t = 0; t < H_; ++t) {
    // latents of what was seen next, which the targets and the consistency are computed at
    float* z = s.next + t * wide_;
    load(obs + (t + 1) * B_ * encoder_.in(), p, encoder_.in(), s.obs);
    encoder_.forward(s.obs, s.infer_encoder, s.stack, nullptr, z);
    // the policy reads the latent alone, whose words come first
    const float* words = round(z, s.words);
    policy_.forward(words, s.infer_policy, s.stack, nullptr, s.head);
    float* noise = s.factor;  // no dropout here
    draw_normals(UpdateNumbers::target_action, p, t, s, noise);
    squashed_gaussian_cpu({.bounds = kLogStd,
                           .actions = A_,
                           .head = s.head,
                           .noise = noise,
                           .action = z + D_ * stride_,
                           .stride = stride_});
    words = round(z, s.words);
    // both networks of the drawn pair
    for (int64_t k : {0, 1}) {
      const int64_t net = k ? target_pair_.second : target_pair_.first;
      target_q_[size_t(net)].forward(words, s.infer_q, s.stack, nullptr, s.logits);
      two_hot_inverse_cpu({.bins = kTwoHot,
                           .logits = s.logits,
                           .value = s.value[k],
                           .stride = stride_,
                           .rows = stride_});
    }
    const float* reward = batch.reward.const_data_ptr<float>() + t * B_ + first;
    const float* terminated = batch.terminated.const_data_ptr<float>() + t * B_ + first;
    float* target = s.target + t * stride_;
    for (int64_t r = 0; r < rows_of(p); ++r)
      target[r] =
          reward[r] + discount_ * (1 - terminated[r]) * std::min(s.value[0][r], s.value[1][r]);
    model_sums_[size_t(p)].target += sum_of(target, rows_of(p));
  }
}

void PanelLearner::roll_out(const Sequences& batch, int64_t p, Scratch& s) {
  load(batch.obs.const_data_ptr<float>(), p, encoder_.in(), s.obs);
  encoder_.forward(s.obs, s.encoder, s.stack, nullptr, latent(p, 0));
  for (int64_t t = 0; t < H_; ++t) {
    // the action lies behind the latent: together they are the next layer's inputs
    float* z = latent(p, t);
    load(batch.action.const_data_ptr<float>() + t * B_ * A_, p, A_, z + D_ * stride_);
    dynamics_.forward(round(z, words(p, t)), s.dynamics[size_t(t)], s.stack, nullptr,
                      latent(p, t + 1));
  }
  // no action follows the last latent yet; what the policy puts there is rounded later
  round(latent(p, H_), words(p, H_));
}

void PanelLearner::learn_reward(const Sequences& batch, int64_t p, Scratch& s) {
  reward_.begin_part(reward_waiting_, p);
  for (int64_t t = 0; t < H_; ++t) {
    reward_.aim(reward_waiting_, p * H_ + t, s.reward_back);
    float* logits = s.reward_back.dz.back();
    reward_.forward(words(p, t), s.reward, s.stack, nullptr, logits);
    // the loss leaves its gradient where the logits were
    two_hot_loss_cpu(
        {.bins = kTwoHot,
         .logits = logits,
         .target = batch.reward.const_data_ptr<float>() + t * B_ + p * stride_,
         .weight = float(options_.reward_coef * double(rho_[size_t(t)]) / double(H_ * all_)),
         .loss = s.loss,
         .stride = stride_,
         .rows = rows_of(p)});
    model_sums_[size_t(p)].reward += double(rho_[size_t(t)]) * sum_of(s.loss, rows_of(p));
    // the first to write the gradients of latents 0 to H - 1: what follows adds to them
    reward_.backward(words(p, t), s.reward, s.stack, nullptr, nullptr, s.reward_back,
                     {.dx = d_latent(p, t), .features = D_});
  }
}

// squared distance of the latents from those of the observations, which get no gradient
void PanelLearner::learn_consistency(int64_t p, Scratch& s) {
  const int64_t rows = rows_of(p);
  for (int64_t t = 1; t <= H_; ++t) {
    const float *z = latent(p, t), *next = s.next + (t - 1) * wide_;
    float* d = d_latent(p, t);
    if (t == H_) std::fill_n(d, D_ * stride_, 0.f);  // the first to write there
    const float slope =
        float(2 * options_.consistency_coef * double(rho_[size_t(t - 1)]) / double(H_ * all_ * D_));
    std::fill_n(s.loss, stride_, 0.f);
    for (int64_t f = 0; f < D_; ++f)
      for (int64_t r = 0; r < rows; ++r) {
        const float off = z[f * stride_ + r] - next[f * stride_ + r];
        s.loss[r] += off * off;
        d[f * stride_ + r] += slope * off;
      }
    model_sums_[size_t(p)].consistency += double(rho_[size_t(t - 1)]) * sum_of(s.loss, rows);
  }
}

void PanelLearner::learn_value(int64_t p, Scratch& s) {
  // every network learns from the same targets
  for (size_t n = 0; n < q_.size(); ++n) {
    q_[n].begin_part(q_waiting_[n], p);
    for (int64_t t = 0; t < H_; ++t) {
      q_[n].aim(q_waiting_[n], p * H_ + t, s.q_back);
      float* logits = s.q_back.dz.back();
      const float* factor = draw_dropout(UpdateNumbers::value_dropout, int64_t(n), H_, p, t, s);
      q_[n].forward(words(p, t), s.q, s.stack, factor, logits);
      two_hot_loss_cpu({.bins = kTwoHot,
                        .logits = logits,
                        .target = s.target + t * stride_,
                        .weight = float(options_.value_coef * double(rho_[size_t(t)]) /
                                        double(H_ * all_ * shape_.num_q)),
                        .loss = s.loss,
                        .stride = stride_,
                        .rows = rows_of(p)});
      model_sums_[size_t(p)].value += double(rho_[size_t(t)]) * sum_of(s.loss, rows_of(p));
      q_[n].backward(words(p, t), s.q, s.stack, factor, nullptr, s.q_back,
                     {.dx = d_latent(p, t), .features = D_, .add = true});
    }
  }
}

// binary cross-entropy at the next latents
void PanelLearner::learn_termination(const Sequences& batch, int64_t p, Scratch& s) {
  const PanelStack& net = termination_.front();
  net.begin_part(termination_waiting_, p);
  const float weight = float(options_.termination_coef / double(H_ * all_));
  for (int64_t t = 0; t < H_; ++t) {
    net.aim(termination_waiting_, p * H_ + t, s.termination_back);
    float* logit = s.termination_back.dz.back();
    net.forward(words(p, t + 1), s.termination, s.stack, nullptr, logit);
    const float* terminated = batch.terminated.const_data_ptr<float>() + t * B_ + p * stride_;
    // without overflow; the gradient takes the logit's place, 0 in padding columns
    for (int64_t r = 0; r < rows_of(p); ++r) {
      const float x = logit[r], likely = 1 / (1 + std::exp(-x));
      s.loss[r] = std::max(x, 0.f) - x * terminated[r] + std::log1p(std::exp(-std::abs(x)));
      logit[r] = weight * (likely - terminated[r]);
    }
    std::fill(logit + rows_of(p), logit + stride_, 0.f);
    model_sums_[size_t(p)].termination += sum_of(s.loss, rows_of(p));
    net.backward(words(p, t + 1), s.termination, s.stack, nullptr, nullptr, s.termination_back,
                 {.dx = d_latent(p, t + 1), .features = D_, .add = true});
  }
}

void PanelLearner::roll_back(int64_t p, Scratch& s) {
  dynamics_.begin_part(dynamics_waiting_, p);
  // the gradient of each latent is complete once the later ones have been gone through
  for (int64_t t = H_ - 1; t >= 0; --t) {
    dynamics_.aim(dynamics_waiting_, p * H_ + t, s.dynamics_back);
    dynamics_.backward(words(p, t), s.dynamics[size_t(t)], s.stack, nullptr, latent(p, t + 1),
                       s.dynamics_back, {.dx = d_latent(p, t), .features = D_, .add = true});
  }
  // observations want no gradient
  encoder_.begin_part(encoder_waiting_, p);
  encoder_.aim(encoder_waiting_, p, s.encoder_back);
  encoder_.backward(s.obs, s.encoder, s.stack, nullptr, latent(p, 0), s.encoder_back, {});
}

// values of the policy's actions and their gradients, before the scale is known
void PanelLearner::policy_panel(int64_t p, int64_t t) {
  const int64_t i = p * (H_ + 1) + t, rows = rows_of(p);
  float *z = latent(p, t), *head = policy_head_ + i * 2 * A_ * stride_;
  float* noise = policy_noise_ + i * A_ * stride_;
  float* q = policy_q_ + i * stride_;
  PolicySums& sums = policy_sums_[size_t(i)];
  with_scratch([&](Scratch& s) {
    policy_.forward(words(p, t), policy_saved_[size_t(i)], s.stack, nullptr, head);
    draw_normals(UpdateNumbers::policy_action, p, t, s, noise);
    squashed_gaussian_cpu({.bounds = kLogStd,
                           .entropy_of = options_.entropy_of,
                           .actions = A_,
                           .head = head,
                           .noise = noise,
                           .action = z + D_ * stride_,
                           .entropy = s.loss,
                           .scaled_entropy = s.column,
                           .stride = stride_});
    sums.entropy = sum_of(s.loss, rows), sums.scaled_entropy = sum_of(s.column, rows);
    const float* words = round(z, s.words);
    // the gradient passes through both networks to the actions and leaves none for their weights
    for (int64_t k : {0, 1}) {
      const PanelStack& net = q_[size_t(k ? policy_pair_.second : policy_pair_.first)];
      const float* factor = draw_dropout(UpdateNumbers::policy_dropout, k, H_ + 1, p, t, s);
      float* logits = s.q_passing.dz.back();
      net.forward(words, s.q, s.stack, factor, logits);
      two_hot_value_grad_cpu({.bins = kTwoHot,
                              .logits = logits,
                              .value = s.value[k],
                              .stride = stride_,
                              .rows = rows});
      net.backward(
          words, s.q, s.stack, factor, nullptr, s.q_passing,
          {.dx = policy_d_action_ + i * A_ * stride_, .first = D_, .features = A_, .add = k > 0});
    }
    for (int64_t r = 0; r < rows; ++r) q[r] = 0.5f * (s.value[0][r] + s.value[1][r]);
    sums.q = sum_of(q, rows);
  });
}

// towards the range between the 5th and 95th percentile of values at step 0, linearly interpolated
void PanelLearner::move_scale() {
  float* begins = begins_.data_ptr<float>();
  for (int64_t p = 0; p < panels_; ++p)
    std::copy_n(policy_q_ + p * (H_ + 1) * stride_, rows_of(p), begins + p * stride_);
  // of the whole batch
  const at::Tensor all = gathered(group_, begins_);
  float* sorted = all.data_ptr<float>();
  // what is no number goes last: with a plain < the order would be undefined
  std::sort(sorted, sorted + all_,
            [](float a, float b) { return a < b || (std::isnan(b) && !std::isnan(a)); });
  const auto percentile = [&](double share) {
    const double place = share * double(all_ - 1);
    const int64_t low = int64_t(place), high = std::min(low + 1, all_ - 1);
    return sorted[low] + float(place - double(low)) * (sorted[high] - sorted[low]);
  };
  float& scale = *state_->scale.data_ptr<float>();
  // a batch that is no numbers moves nothing for good
  const float range = percentile(0.95) - percentile(0.05);
  if (std::isfinite(range)) scale += float(options_.tau) * (std::max(1.f, range) - scale);
}

void PanelLearner::policy_back(int64_t p, int64_t t) {
  const int64_t i = p * (H_ + 1) + t;
  const double weight = -double(rho_[size_t(t)]) / double(all_ * (H_ + 1));
  // a value is the mean of two networks', over the scale
  const float value = float(weight * 0.5 / double(*state_->scale.const_data_ptr<float>()));
  float* d_action = policy_d_action_ + i * A_ * stride_;
  for (int64_t k = 0; k < A_ * stride_; ++k) d_action[k] *= value;
  policy_.begin_part(policy_waiting_, i);
  with_scratch([&](Scratch& s) {
    policy_.aim(policy_waiting_, i, s.policy_back);
    const float* head = policy_head_ + i * 2 * A_ * stride_;
    squashed_gaussian_grad_cpu({.bounds = kLogStd,
                                .entropy_of = options_.entropy_of,
                                .actions = A_,
                                .head = head,
                                .noise = policy_noise_ + i * A_ * stride_,
                                .action = latent(p, t) + D_ * stride_,
                                .d_action = d_action,
                                .d_scaled_entropy = float(weight * options_.entropy_coef),
                                .d_head = s.policy_back.dz.back(),
                                .stride = stride_,
                                .rows = rows_of(p)});
    policy_.backward(words(p, t), policy_saved_[size_t(i)], s.stack, nullptr, nullptr,
                     s.policy_back, {});
  });
}

}  // namespace maglev::tdmpc2
