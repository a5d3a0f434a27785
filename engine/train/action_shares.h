#pragma once
// The share of each category among the actions that were taken, as figures `actions/<category>`, or
// `actions/<head>/<category>` where there are several heads: whatever the algorithm, counted where
// the collected steps lie.

#include <map>
#include <string>
#include <vector>

#include "engine/algo/metrics.h"
#include "engine/data/step_window.h"

namespace maglev {

class ActionShares {
 public:
  /// Nothing is counted of continuous actions, or of more categories than kCountedCategories.
  explicit ActionShares(const ActionSpec& action);

  /// Adds the T steps of `window`. CPU only.
  void add(StepWindow& window, Metrics& metrics);
  /// Adds collected steps, one behind another, in one launch.
  void add(const Batch& collected, Metrics& metrics);

  /// Empty: nothing is counted.
  const std::vector<std::string>& names() const { return names_; }
  /// What people call the category of each, by these names; empty where categories have none.
  static std::map<std::string, std::string> labels(const ActionSpec& action);

 private:
  /// Where the sums of the figures stand, [2, categories].
  const at::Tensor& sums(Metrics& metrics);

  std::vector<int64_t> heads_;
  std::vector<std::string> names_;
  at::Tensor all_, ours_;  ///< the sums of all figures, and the view of ours that was made of them
};

}  // namespace maglev
