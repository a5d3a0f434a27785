#pragma once
// Adds the seconds a scope takes to a sum of its owner's.

#include "base/core/clock.h"

namespace maglev {

class Timed {
 public:
  explicit Timed(double& sum) : sum_(sum), begin_(steady_s()) {}
  ~Timed() { sum_ += steady_s() - begin_; }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& sum_;
  double begin_;
};

}  // namespace maglev
