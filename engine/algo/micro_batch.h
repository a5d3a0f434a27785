#pragma once
// How many rows of a minibatch a learner takes at once, and what it does where memory does not
// suffice for them: it takes half as many and does the same minibatch again. A gradient is a sum over
// rows, so the step is the same up to rounding.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <c10/core/Device.h>

namespace maglev {

class MicroBatch {
 public:
  /// Times rows are halved at most: what does not fit then never will.
  static constexpr int kMostHalvings = 3;

  /// `rows` >= 1 at once to begin with, their memory on `device`. `unit`: what notes call them.
  MicroBatch(int64_t rows, at::Device device, std::string unit = "rows")
      : first_(rows), rows_(rows), device_(device), unit_(std::move(unit)) {}

  int64_t rows() const { return rows_; }

  /// Calls learn(rows()), which begins anew whatever an earlier call left behind and steps nothing.
  /// Where that throws c10::OutOfMemoryError, rows are halved from here on, what no tensor holds is
  /// given back, and it is called again. Throws the error on where rows were halved often enough, and
  /// within a capture, which keeps its memory.
  void run(const std::function<void(int64_t rows)>& learn);

  /// What became of it, one line for people; empty: nothing was halved. `rows`: taken at once where
  /// those of rows() cannot be.
  std::string note(int64_t rows) const;
  std::string note() const { return note(rows_); }

 private:
  bool halve();

  int64_t first_, rows_;
  int halvings_ = 0;
  at::Device device_;
  std::string unit_;
};

}  // namespace maglev
