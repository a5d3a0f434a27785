#pragma once
// What a call complains of, for tests of errors.

#include <functional>
#include <string>

#include "base/core/error.h"

namespace maglev {

/// The message of the Error that `call` throws; empty when it throws none.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace maglev
