#pragma once
// How an action is drawn, and where its random numbers come from: what acting, its kernels and
// players share.

#include <array>
#include <cstdint>

#include "base/core/philox.h"

namespace maglev {

enum class ActMode {
  sample,  ///< draw from the policy
  mean,    ///< the most likely category, or the mean
};
constexpr auto names_of(ActMode) { return std::array{"sample", "mean"}; }

/// Where act draws from: a row's numbers are a function of these and its index alone.
struct ActKey {
  uint64_t seed = 0;
  Purpose purpose = Purpose::act;
  int64_t step = 0;   ///< time steps since the run began, less `*base`
  int64_t first = 0;  ///< rows of the run before this process's
  /// Added to `step` where it is not null: a counter on the device of the rows, for a captured
  /// graph keeps what the host said once. Kernels read it; on CPU now() may too.
  const int64_t* base = nullptr;
  /// The index of each row in the whole batch, for rows picked out of one; null: they follow each
  /// other from row_from(TimeStep::first) on. On the device of the rows.
  const int64_t* rows = nullptr;
  /// Above 0: what a policy draws is as if its logits were divided by this, and its deviations are
  /// multiplied by it; 1: as it learned. Policies that cannot say why
  /// (Policy::temperature_obstacle).
  float temperature = 1;

  int64_t now() const { return step + (base ? *base : 0); }
  /// Of rows in host memory: the index of row `r` of those that begin at this process's row `begin`.
  int64_t row(int64_t begin, int64_t r) const { return rows ? rows[r] : row_from(begin) + r; }
  /// The run's index of this process's row `begin`.
  int64_t row_from(int64_t begin) const { return first + begin; }
};

}  // namespace maglev
