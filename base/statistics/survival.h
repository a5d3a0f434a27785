#pragma once
// How long lives are when some were still going on as one stopped looking.

#include <cstdint>
#include <vector>

namespace maglev {

/// Lives by their length in whole steps: two counts a length, however many lives there are. A life
/// that begins when another ends is as good as any: over renewals the product-limit estimate of all
/// of them is consistent (Peña, Strawderman and Hollander, "Nonparametric estimation with recurrent
/// event data", 2001).
class LifeTable {
 public:
  /// Lives of at most `longest` >= 1 steps.
  explicit LifeTable(int64_t longest);

  /// A life of 0 to `longest` steps that ended, or, right-censored, was seen no further.
  void add(int64_t steps, bool ended);

  int64_t ended() const { return total_ended_; }
  int64_t lives() const { return total_; }
  int64_t longest() const { return int64_t(ended_.size()) - 1; }
  /// The share that lives longer than t steps, t = 0 .. longest, by the product-limit estimate
  /// (Kaplan and Meier, 1958). Where nobody was seen so long it stays what it was. 1 without any
  /// lives.
  std::vector<double> survival() const;
  /// Mean steps of a life that is counted as at most longest(): the area under survival().
  double restricted_mean() const;

 private:
  std::vector<int64_t> ended_, censored_;  ///< [longest + 1], by length
  int64_t total_ended_ = 0, total_ = 0;
};

}  // namespace maglev
