#include "base/device/dependent_launch.h"

namespace maglev {

bool& dependent_launch() {
  static bool is_on = false;
  return is_on;
}

}  // namespace maglev
