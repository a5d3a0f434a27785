#pragma once
// What the outputs of Dreamer V3's policy (Hafner et al., 2025) say of actions, behind a product
// that lacks its bias yet: draws, and the loss of a likelihood times an advantage with its
// gradient.
//   continuous   head [mean A, std A]: normal, mean tanh, std kLeastStd to kMostStd by a sigmoid
//   categorical  head [categories of each choice]: one-hot side by side

#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// Deviations of actions, and what is added to their head before the sigmoid.
constexpr double kLeastActionStd = 0.1, kMostActionStd = 1, kFirstActionStd = 2;
/// The same as kernels compute with.
constexpr float kLeastStd = float(kLeastActionStd), kFirstStd = float(kFirstActionStd);
constexpr float kStdSpan = float(kMostActionStd - kLeastActionStd);
/// Half the logarithm of 2 pi.
constexpr float kHalfLogTwoPi = 0.918938533f;

struct ActionHead {
  int64_t rows, actions;   ///< columns of an action
  const int64_t* choices;  ///< [choice_count], categories of each; on the device of the rows
  int64_t choice_count;    ///< 0: continuous

  /// Columns of the head, and numbers that draw a row.
  MAGLEV_HD int64_t width() const { return choice_count > 0 ? actions : 2 * actions; }
  MAGLEV_HD int64_t numbers() const { return choice_count > 0 ? choice_count : actions; }
};

struct ActionDraw {
  ActionHead of;
  const float *head, *bias;  ///< [rows][width], [width]
  const float* number;       ///< [rows][numbers]: normal, or uniform in (0, 1)
  float* action;             ///< [rows][actions], written
  float* bounded;            ///< the same within [-1, 1], written
};

/// loss = -factor * weight * (log p(action) * advantage + entropy_coef * entropy) of a row, with
/// advantage = (returns - value) / range.
struct ActionLoss {
  ActionHead of;
  const float *head, *bias, *action;      ///< [rows][width], [width], [rows][actions]
  const float *returns, *value, *weight;  ///< [rows] each
  const float* range;                     ///< one number
  float factor, entropy_coef;
  float *loss, *entropy;  ///< [rows] each, written
  float* d_head;          ///< [rows][width], written: of the head; may be where that is
};

void action_draw_cpu(const ActionDraw& args);
void action_loss_cpu(const ActionLoss& args);
/// On `stream` (a cudaStream_t); return a cudaError_t. Only in builds with device code.
int action_draw_cuda(const ActionDraw& args, void* stream);
int action_loss_cuda(const ActionLoss& args, void* stream);

}  // namespace maglev
