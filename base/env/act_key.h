#pragma once
// How an action is drawn, and where its random numbers come from: what acting, its kernels and
// players share.

#include <cstdint>

#include "base/core/philox.h"

namespace maglev {

enum class ActMode {
  sample,  ///< draw from the policy
  mean,    ///< the most likely category, or the mean
};

/// Where act draws from: a row's numbers are a function of these and its index alone.
struct ActKey {
  uint64_t seed = 0;
  Purpose purpose = Purpose::act;
  int64_t step = 0;  ///< time steps since the run began, less `*base`
  /// Added to `step` where it is not null: a counter on the device of the rows, for a captured
  /// graph keeps what the host said once. Kernels read it; on CPU now() may too.
  const int64_t* base = nullptr;

  int64_t now() const { return step + (base ? *base : 0); }
};

}  // namespace maglev
