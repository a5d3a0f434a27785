#pragma once
// What each operation of ATen becomes in ONNX.

#include <functional>
#include <string>

#include "engine/export/emitted.h"

namespace maglev {

/// Adds an operation's nodes and gives its results names.
using EmitOperation = std::function<void(Emitted&)>;
/// By ATen's name, with or without the _ of what is done in place. Null: there is none.
const EmitOperation* find_operation(const std::string& name);

}  // namespace maglev
