#pragma once
// NVIDIA's NVML and AMD's ROCm SMI as far as the engine asks them: opened at run time, each
// function by its name, so that nothing is linked. What is laid out here is so in nvml.h and
// rocm_smi.h.

#include <dlfcn.h>
#include <string>

namespace maglev {

/// A library that is open as long as the object lives; "": none.
class OpenLibrary {
 public:
  explicit OpenLibrary(const std::string& path)
      : handle_(path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  OpenLibrary(const OpenLibrary&) = delete;
  OpenLibrary& operator=(const OpenLibrary&) = delete;
  ~OpenLibrary() {
    if (handle_) dlclose(handle_);
  }

  /// Calls `name`; whether it is there and answered with 0, which is success in both libraries.
  template <class... A>
  bool call(const char* name, A... arguments) const {
    void* found = handle_ ? dlsym(handle_, name) : nullptr;
    return found && reinterpret_cast<int (*)(A...)>(found)(arguments...) == 0;
  }

 private:
  void* handle_;
};

struct NvmlMemory {
  unsigned long long total, free, used;  ///< bytes
};
struct NvmlUse {
  unsigned gpu, memory;  ///< percent
};
struct NvmlSample {
  unsigned long long time;  ///< microseconds of the driver's clock
  union {
    unsigned number;
    unsigned long long whole;
  } value;
};
struct NvmlGpmSupport {
  unsigned version, supported;
};
struct NvmlGpmMetric {
  unsigned id;
  int error;     ///< 0: none
  double value;  ///< percent, of those that are asked here
  char* names[3];
};
struct NvmlGpmMetrics {
  unsigned version, count;  ///< so many are asked
  void *from, *to;
  NvmlGpmMetric metrics[333];  ///< as long as in the newest header
};
/// Kinds of samples, of values, of sensors and of clocks.
constexpr int kNvmlUseSamples = 1, kNvmlUnsigned = 1, kNvmlCore = 0, kNvmlMultiprocessors = 1;

/// The device's own memory; the driver as a component; sensors at the edge and where it is hottest;
/// what a sensor says now.
constexpr int kRocmVideoMemory = 0, kRocmDriver = 0, kRocmCurrent = 0;
constexpr unsigned kRocmEdge = 0, kRocmJunction = 1;

}  // namespace maglev
