#include "kernels/action_head/action_head.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/action_head/action_head_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/math-inl.h"
#include "base/simd/order-inl.h"
#include "base/simd/run-inl.h"
#include "base/simd/tanh-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ActionTag = hn::CappedTag<float, 16>;
using Vector = hn::Vec<ActionTag>;

// choices have few categories: one number at a time, as vectors compute it
float exp_of(float x) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(exp_vector(d, hn::Set(d, x)));
}
float log_of(float x) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(log_vector(d, hn::Set(d, x)));
}

// some dimensions of a normal
struct NormalAction {
  Vector mean, sigmoid, std;
};
template <class Part>
HWY_INLINE NormalAction normal_of(Part part, const float* head, const float* bias, int64_t A,
                                  int64_t i) {
  const ActionTag d;
  const auto one = hn::Set(d, 1.f);
  const auto s = part.load(head + A + i) + part.load(bias + A + i) + hn::Set(d, kFirstStd);
  const auto sigmoid = one / (one + exp_vector(d, hn::Neg(s)));
  return {tanh_vector(d, part.load(head + i) + part.load(bias + i)), sigmoid,
          hn::MulAdd(sigmoid, hn::Set(d, kStdSpan), hn::Set(d, kLeastStd))};
}

// largest logit of a choice, and the sum of exponentials below it
struct ChoiceSums {
  float largest, sum = 0;

  ChoiceSums(const float* head, const float* bias, int64_t count) : largest(head[0] + bias[0]) {
    for (int64_t c = 1; c < count; ++c) largest = std::max(largest, head[c] + bias[c]);
    for (int64_t c = 0; c < count; ++c) sum += exp_of(head[c] + bias[c] - largest);
  }
};

// work(k, first, end) for each choice and its columns
template <class Work>
void for_each_choice(const ActionHead& of, const Work& work) {
  int64_t first = 0;
  for (int64_t k = 0; k < of.choice_count; first += of.choices[k++])
    work(k, first, first + of.choices[k]);
}

void draw_actions(const ActionDraw& a) {
  const ActionTag d;
  const int64_t A = a.of.actions;
  const auto one = hn::Set(d, 1.f);
  for (int64_t r = 0; r < a.of.rows; ++r) {
    const float *head = a.head + r * a.of.width(), *bias = a.bias;
    const float* number = a.number + r * a.of.numbers();
    float *action = a.action + r * A, *bounded = a.bounded + r * A;
    if (a.of.choice_count == 0) {
      for_each_vector(d, A, [&](int64_t i, auto part) HWY_ATTR {
        const NormalAction normal = normal_of(part, head, bias, A, i);
        const auto drawn = hn::MulAdd(normal.std, part.load(number + i), normal.mean);
        part.store(drawn, action + i);
        part.store(smaller_of(larger_of(drawn, hn::Neg(one)), one), bounded + i);
      });
      continue;
    }
    std::fill_n(action, A, 0.f), std::fill_n(bounded, A, 0.f);
    for_each_choice(a.of, [&](int64_t k, int64_t first, int64_t last) {
      // how many categories end below the uniform; the last one ends where all do
      const ChoiceSums choice(head + first, bias + first, last - first);
      int64_t drawn = first;
      float end = 0;
      for (int64_t c = first; c + 1 < last; ++c) {
        end += exp_of(head[c] + bias[c] - choice.largest) / choice.sum;
        drawn += end <= number[k];
      }
      action[drawn] = bounded[drawn] = 1.f;
    });
  }
}

// what a row of the loss adds up
struct RowTerms {
  float likelihood = 0, entropy = 0;
};

RowTerms normal_row(const ActionLoss& a, int64_t r, float share, float advantage) {
  const ActionTag d;
  constexpr int64_t kLanes = int64_t(hn::MaxLanes(ActionTag()));
  const int64_t A = a.of.actions;
  const float *head = a.head + r * 2 * A, *action = a.action + r * A;
  float* d_head = a.d_head + r * 2 * A;
  const auto one = hn::Set(d, 1.f), half = hn::Set(d, 0.5f);
  RowTerms terms;
  for_each_vector(d, A, [&](int64_t i, auto part) HWY_ATTR {
    const NormalAction n = normal_of(part, head, a.bias, A, i);
    const auto away = (part.load(action + i) - n.mean) / n.std, log_std = log_vector(d, n.std);
    const auto by_std = hn::Set(d, share) / n.std;
    const auto d_std =
        hn::MulAdd(hn::Set(d, advantage), hn::MulSub(away, away, one), hn::Set(d, a.entropy_coef));
    part.store(by_std * hn::Set(d, advantage) * away * hn::NegMulAdd(n.mean, n.mean, one),
               d_head + i);
    part.store(by_std * d_std * hn::Set(d, kStdSpan) * n.sigmoid * (one - n.sigmoid),
               d_head + A + i);
    // dimension after dimension, so that sums do not depend on a vector's width
    HWY_ALIGN float squares[kLanes], logs[kLanes];
    hn::Store(half * away * away, d, squares), hn::Store(log_std, d, logs);
    for (int64_t k = 0; k < std::min(kLanes, A - i); ++k) {
      terms.likelihood -= squares[k] + logs[k] + kHalfLogTwoPi;
      terms.entropy += logs[k] + kHalfLogTwoPi + 0.5f;
    }
  });
  return terms;
}

RowTerms choices_row(const ActionLoss& a, int64_t r, float share, float advantage) {
  const int64_t A = a.of.actions;
  const float *head = a.head + r * A, *bias = a.bias, *action = a.action + r * A;
  float* d_head = a.d_head + r * A;
  RowTerms terms;
  for_each_choice(a.of, [&](int64_t, int64_t first, int64_t end) {
    const ChoiceSums choice(head + first, bias + first, end - first);
    const float log_sum = log_of(choice.sum);
    const auto log_p = [&](int64_t c) { return head[c] + bias[c] - choice.largest - log_sum; };
    float entropy = 0;
    for (int64_t c = first; c < end; ++c) {
      terms.likelihood += action[c] * log_p(c);
      entropy -= exp_of(log_p(c)) * log_p(c);
    }
    for (int64_t c = first; c < end; ++c) {
      const float p = exp_of(log_p(c)), of_entropy = p * (log_p(c) + entropy);
      d_head[c] = share * (advantage * (action[c] - p) - a.entropy_coef * of_entropy);
    }
    terms.entropy += entropy;
  });
  return terms;
}

void loss_of_actions(const ActionLoss& a) {
  for (int64_t r = 0; r < a.of.rows; ++r) {
    const float advantage = (a.returns[r] - a.value[r]) / *a.range;
    const float share = -a.factor * a.weight[r];
    const RowTerms terms = a.of.choice_count == 0 ? normal_row(a, r, share, advantage)
                                                  : choices_row(a, r, share, advantage);
    a.loss[r] = share * (terms.likelihood * advantage + a.entropy_coef * terms.entropy);
    a.entropy[r] = terms.entropy;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(draw_actions);
HWY_EXPORT(loss_of_actions);

void action_draw_cpu(const ActionDraw& args) { HWY_DYNAMIC_DISPATCH(draw_actions)(args); }
void action_loss_cpu(const ActionLoss& args) { HWY_DYNAMIC_DISPATCH(loss_of_actions)(args); }

}  // namespace maglev
#endif
