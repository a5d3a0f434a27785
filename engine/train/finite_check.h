#pragma once
// Whether environments give numbers: what is not finite must not reach the weights.

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "base/env/entry.h"
#include "engine/data/step_window.h"

namespace maglev {

class FiniteCheck {
 public:
  /// `window` holds the rows of the iteration and outlives this; `agents` rows are an environment,
  /// the first of them number `first_env` of the run. `flagged`: what came is looked at where it
  /// lies, and a flag there remembers it.
  FiniteCheck(std::string env, const EnvSpec& spec, int64_t agents, int64_t first_env,
              StepWindow& window, at::Device device, bool flagged);

  /// Whether what a step gave rows [begin, begin + count) is finite. CPU only; any thread.
  bool rows_finite(const StepIo& io, int64_t begin, int64_t count) const;
  /// Lowers the flag where rewards, or observations after a step, are not finite. Waits for
  /// nothing.
  void look(const Batch& collected);
  /// [1] f32 on the device: 0 once something was not finite. Undefined unless flagged.
  const at::Tensor& flag() const { return flag_; }
  void raise_flag();

  /// Throws Error that names the first number of the window that is not finite; returns where there
  /// is none. `first_step`: the time step its row 0 is.
  void name_first(int64_t first_step) const;

 private:
  std::string env_;
  EnvSpec spec_;
  int64_t agents_, first_env_;
  StepWindow* window_;
  at::Tensor flag_;
};

}  // namespace maglev
