#pragma once
// A policy as it is exported: ATen's operations and nothing else.

namespace maglev {

/// While one lives, this thread computes what policies are made of by ATen's operations alone: a
/// kernel on that way steps aside for its reference. Slow; for `maglev export`, which records the
/// operations.
class AtenOnly {
 public:
  AtenOnly() : before_(on_) { on_ = true; }
  ~AtenOnly() { on_ = before_; }
  AtenOnly(const AtenOnly&) = delete;
  AtenOnly& operator=(const AtenOnly&) = delete;

  static bool on() { return on_; }

 private:
  inline static thread_local bool on_ = false;
  bool before_;
};

}  // namespace maglev
