#include "engine/train/action_shares.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "kernels/action_counts/action_counts.h"
#include "kernels/action_counts/action_counts_op.h"

namespace maglev {

ActionShares::ActionShares(const ActionSpec& action) : heads_(action.heads) {
  if (action.categories() > kCountedCategories) return;
  for (size_t head = 0; head < heads_.size(); ++head)
    for (int64_t k = 0; k < heads_[head]; ++k)
      names_.push_back("actions/" + (heads_.size() > 1 ? std::to_string(head) + "/" : "") +
                       std::to_string(k));
}

std::map<std::string, std::string> ActionShares::labels(const ActionSpec& action) {
  std::map<std::string, std::string> labels;
  const ActionShares shares(action);
  for (size_t i = 0; i < std::min(shares.names_.size(), action.names.size()); ++i)
    labels[shares.names_[i]] = action.names[i];
  return labels;
}

const at::Tensor& ActionShares::sums(Metrics& metrics) {
  const int64_t first = metrics.declare(names_);
  // other sums once others have declared figures
  if (!all_.defined() || !all_.is_same(metrics.sums())) {
    all_ = metrics.sums();
    ours_ = all_.narrow(1, first, int64_t(names_.size()));
  }
  return ours_;
}

void ActionShares::add(StepWindow& window, Metrics& metrics) {
  if (names_.empty()) return;
  const at::Tensor& into = sums(metrics);
  // whether a step took an action is said by the row after it
  for (int64_t t = 0; t < window.shape().T; ++t)
    count_actions_(into, window.step(t).action, window.step(t + 1).is_first, heads_);
}

void ActionShares::add(const Batch& collected, Metrics& metrics) {
  if (names_.empty()) return;
  const int64_t T = collected.action.size(0);
  count_actions_(sums(metrics), collected.action.flatten(0, 1),
                 collected.is_first.narrow(0, 1, T).flatten(), heads_);
}

}  // namespace maglev
