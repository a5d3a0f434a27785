#pragma once
// How many rows of a minibatch a learner takes at once, and what it does where memory does not
// suffice for them: it takes half as many and does the same minibatch again. A gradient is a sum
// over rows, so the step is the same up to rounding.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

namespace maglev {

/// Whether `error` says that there was no memory: by its type, or by the words of those who have no
/// type for it (torch's own allocator on a processor, what cuBLAS and cuDNN ask for themselves).
bool is_out_of_memory(const c10::Error& error);

class MicroBatch {
 public:
  /// Times rows are halved at most: what does not fit then never will.
  static constexpr int kMostHalvings = 3;

  /// `rows` >= 1 at once to begin with, their memory on `device`. `unit`: what notes call them.
  /// `fit`: the largest size, at least 1, that can be taken where so many may be, of halved ones,
  /// or the least of all, which is not halved any more; by default as many.
  MicroBatch(int64_t rows, at::Device device, std::string unit = "rows",
             std::function<int64_t(int64_t)> fit = {})
      : first_(rows), rows_(rows), device_(device), unit_(std::move(unit)), fit_(std::move(fit)) {}

  int64_t rows() const { return rows_; }

  /// Calls learn(rows()), which begins anew whatever an earlier call left behind and steps nothing.
  /// Where that throws what tells of memory, rows are halved from here on, what no tensor holds is
  /// given back, and it is called again. Throws the error on where rows were halved often enough,
  /// and within a capture, which keeps its memory.
  void run(const std::function<void(int64_t rows)>& learn);

  /// What became of it, one line for people; empty: nothing was halved.
  std::string note() const;

 private:
  bool halve();

  int64_t first_, rows_;
  int halvings_ = 0;
  at::Device device_;
  std::string unit_;
  std::function<int64_t(int64_t)> fit_;
};

}  // namespace maglev
