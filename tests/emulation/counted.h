#pragma once
// What reaches the device, counted: operations of ATen, and the names launches are counted by.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

namespace maglev::emulation {

/// As torch calls it (torch_device.cpp).
inline const at::Device kEmulatedDevice(at::kCUDA, 0);

/// Operations of ATen that work on numbers while one lives, by name: on a GPU a launch each, or a
/// few. Views and what only asks are left out, as is what an operation calls itself.
class CountedOperations {
 public:
  CountedOperations() {
    counts.clear(), depth = 0;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end));
  }
  ~CountedOperations() { at::removeCallback(handle_); }

  static const std::map<std::string, int64_t>& of() { return counts; }

 private:
  static bool works(const std::string& name) {
    static const std::set<std::string> views{
        "select",    "narrow",    "slice", "view",    "flatten",    "reshape", "expand",
        "unsqueeze", "t",         "alias", "squeeze", "detach",     "item",    "is_nonzero",
        "transpose", "unflatten", "chunk", "permute", "as_strided", "empty",   "empty_like"};
    return name.starts_with("aten::") && !views.count(name.substr(6));
  }
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& f) {
    const std::string name = f.name();
    if (name.starts_with("aten::") && depth++ == 0 && works(name)) ++counts[name];
    return nullptr;
  }
  static void end(const at::RecordFunction& f, at::ObserverContext*) {
    if (std::string(f.name()).starts_with("aten::")) --depth;
  }

  static inline std::map<std::string, int64_t> counts;
  static inline int depth = 0;
  at::CallbackHandle handle_;
};

/// The name of a kernel, whichever instance of a template it is: "gather (replay.cu)" of
/// "gather<float> (replay.cu)".
inline std::string without_arguments(const std::string& name) {
  const auto open = name.find('<'), close = name.rfind('>');
  return open == std::string::npos ? name : name.substr(0, open) + name.substr(close + 1);
}

}  // namespace maglev::emulation
