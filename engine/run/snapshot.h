#pragma once
// A visited state (engine/data/state.h) kept in memory, to be put back exactly.

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/data/state.h"

namespace maglev {

class StateSnapshot {
 public:
  /// Copies everything `visit` names; tensors stay on their devices. On a processor their memory
  /// goes back to the system with this.
  explicit StateSnapshot(const std::function<void(StateVisitor&)>& visit);

  /// Writes every value back in place. `visit` must name what it named before, in the same order.
  void restore(const std::function<void(StateVisitor&)>& visit) const;

 private:
  class Saver;
  class Restorer;

  std::vector<at::Tensor> tensors_;
  std::vector<int64_t> integers_;
  std::vector<double> reals_;
  std::vector<std::string> texts_;
};

}  // namespace maglev
