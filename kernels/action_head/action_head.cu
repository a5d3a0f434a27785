#include "base/device/launch.cuh"
#include "kernels/action_head/action_head.h"

namespace maglev {
namespace {

constexpr int kThreads = 128;

__device__ float sigmoid_of(float x) { return 1.f / (1.f + expf(-x)); }

// largest logit of a choice, and the sum of exponentials below it
struct ChoiceOfHead {
  float largest, sum;

  __device__ ChoiceOfHead(const float* head, const float* bias, int64_t count) : sum(0) {
    largest = head[0] + bias[0];
    for (int64_t c = 1; c < count; ++c) largest = fmaxf(largest, head[c] + bias[c]);
    for (int64_t c = 0; c < count; ++c) sum += expf(head[c] + bias[c] - largest);
  }
};

// a thread a row
__global__ void draw_actions(ActionDraw a) {
  wait_for_earlier();
  const int64_t r = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, A = a.of.actions;
  if (r >= a.of.rows) return;
  const float *head = a.head + r * a.of.width(), *bias = a.bias;
  const float* number = a.number + r * a.of.numbers();
  float *action = a.action + r * A, *bounded = a.bounded + r * A;
  if (a.of.choice_count == 0) {
    for (int64_t i = 0; i < A; ++i) {
      const float std = kStdSpan * sigmoid_of(head[A + i] + bias[A + i] + kFirstStd) + kLeastStd;
      action[i] = tanhf(head[i] + bias[i]) + std * number[i];
      bounded[i] = fminf(fmaxf(action[i], -1.f), 1.f);
    }
    return;
  }
  int64_t first = 0;
  for (int64_t k = 0; k < a.of.choice_count; first += a.of.choices[k++]) {
    const int64_t count = a.of.choices[k];
    const ChoiceOfHead choice(head + first, bias + first, count);
    int64_t drawn = 0;
    float end = 0;
    for (int64_t c = first; c + 1 < first + count; ++c) {
      end += expf(head[c] + bias[c] - choice.largest) / choice.sum;
      drawn += end <= number[k];
    }
    for (int64_t c = 0; c < count; ++c)
      action[first + c] = bounded[first + c] = c == drawn ? 1.f : 0.f;
  }
}

__global__ void loss_of_actions(ActionLoss a) {
  wait_for_earlier();
  const int64_t r = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, A = a.of.actions;
  if (r >= a.of.rows) return;
  const float *head = a.head + r * a.of.width(), *bias = a.bias, *action = a.action + r * A;
  float* d_head = a.d_head + r * a.of.width();
  const float advantage = (a.returns[r] - a.value[r]) / *a.range;
  const float share = -a.factor * a.weight[r];
  float likelihood = 0, entropy = 0;
  if (a.of.choice_count == 0) {
    for (int64_t i = 0; i < A; ++i) {
      const float mean = tanhf(head[i] + bias[i]);
      const float s = sigmoid_of(head[A + i] + bias[A + i] + kFirstStd);
      const float std = kStdSpan * s + kLeastStd;
      const float away = (action[i] - mean) / std, log_std = logf(std);
      likelihood -= 0.5f * away * away + log_std + kHalfLogTwoPi;
      entropy += log_std + kHalfLogTwoPi + 0.5f;
      d_head[i] = share * advantage * away / std * (1.f - mean * mean);
      d_head[A + i] = share * (advantage * (away * away - 1.f) + a.entropy_coef) / std * kStdSpan *
                      s * (1.f - s);
    }
  } else {
    int64_t first = 0;
    for (int64_t k = 0; k < a.of.choice_count; first += a.of.choices[k++]) {
      const int64_t end = first + a.of.choices[k];
      const ChoiceOfHead choice(head + first, bias + first, end - first);
      const float log_sum = logf(choice.sum);
      float of_choice = 0;
      for (int64_t c = first; c < end; ++c) {
        const float log_p = head[c] + bias[c] - choice.largest - log_sum;
        likelihood += action[c] * log_p;
        of_choice -= expf(log_p) * log_p;
      }
      for (int64_t c = first; c < end; ++c) {
        const float log_p = head[c] + bias[c] - choice.largest - log_sum, p = expf(log_p);
        d_head[c] =
            share * (advantage * (action[c] - p) - a.entropy_coef * p * (log_p + of_choice));
      }
      entropy += of_choice;
    }
  }
  a.loss[r] = share * (likelihood * advantage + a.entropy_coef * entropy);
  a.entropy[r] = entropy;
}

}  // namespace

int action_draw_cuda(const ActionDraw& args, void* stream) {
  return launch_kernel(draw_actions, thread_each(args.of.rows, kThreads), stream, args);
}

int action_loss_cuda(const ActionLoss& args, void* stream) {
  return launch_kernel(loss_of_actions, thread_each(args.of.rows, kThreads), stream, args);
}

}  // namespace maglev
