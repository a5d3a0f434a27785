#pragma once
// What an environment throws that cannot be drawn as it is, where only drawing it finds that out.

#include "base/core/error.h"

namespace maglev {

/// Its text says what is missing. Steps go on as before.
struct NoPicture : Error {
  using Error::Error;
};

}  // namespace maglev
