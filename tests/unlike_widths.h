#pragma once
// A TD-MPC2 whose networks have other widths and depths each.

#include "algos/tdmpc2/options.h"

namespace maglev::tdmpc2 {

inline HiddenWidths unlike_widths() {
  return {.encoder = {16, 32, 24},
          .dynamics = {40, 24},
          .reward = {48},
          .termination = {24, 16},
          .q = {32, 56, 16},
          .policy = {64, 24}};
}

}  // namespace maglev::tdmpc2
