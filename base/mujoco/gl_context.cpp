#include "base/mujoco/gl_context.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <string>

#include "base/core/error.h"

namespace maglev::mujoco {
namespace {

// names are global: MuJoCo's renderer finds the library's eglGetProcAddress or OSMesaGetProcAddress
// among what the program has loaded
void* open_library(const char* name) { return dlopen(name, RTLD_NOW | RTLD_GLOBAL); }

template <class Function>
Function function(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// EGL 1.5 with EGL_EXT_device_enumeration and EGL_EXT_platform_device (registry.khronos.org/EGL)
namespace egl {

using Handle = void*;
using Int = int32_t;
constexpr Int kPlatformDevice = 0x313F, kOpenGlApi = 0x30A2, kNone = 0x3038;
constexpr std::array<Int, 17> kConfig{0x3024, 8,       // red, green, blue, alpha, depth, stencil
                                      0x3023, 8,       //
                                      0x3022, 8,       //
                                      0x3021, 8,       //
                                      0x3025, 24,      //
                                      0x3026, 8,       //
                                      0x3033, 0x0001,  // surface type: pbuffer
                                      0x3040, 0x0008,  // renderable: OpenGL
                                      kNone};

struct Api {
  unsigned (*initialize)(Handle display, Int* major, Int* minor);
  unsigned (*choose_config)(Handle, const Int* wanted, Handle* found, Int most, Int* count);
  unsigned (*bind_api)(unsigned api);
  Handle (*create_context)(Handle display, Handle config, Handle share, const Int* attributes);
  unsigned (*make_current)(Handle display, Handle draw, Handle read, Handle context);
  unsigned (*destroy_context)(Handle display, Handle context);
  Handle display = nullptr;  ///< initialised; null: EGL does not work here
  Handle config = nullptr;
};

// the first device that initialises, or the one that was chosen
Handle device_display(const Api& api, void* library) {
  using Function = void (*)();
  const auto address = function<Function (*)(const char*)>(library, "eglGetProcAddress");
  if (!address) return nullptr;
  const auto devices =
      reinterpret_cast<unsigned (*)(Int, Handle*, Int*)>(address("eglQueryDevicesEXT"));
  const auto display_of =
      reinterpret_cast<Handle (*)(Int, Handle, const Int*)>(address("eglGetPlatformDisplayEXT"));
  std::array<Handle, 32> found{};
  Int count = 0;
  if (!devices || !display_of || !devices(Int(found.size()), found.data(), &count)) return nullptr;
  Int first = 0, end = count;
  if (const char* chosen = std::getenv("MUJOCO_EGL_DEVICE_ID")) {
    first = std::atoi(chosen), end = first + 1;
    if (first < 0 || first >= count)
      throw Error("[render] MUJOCO_EGL_DEVICE_ID=" + std::string(chosen) + " must be below " +
                  std::to_string(count) + ", the number of EGL's devices");
  }
  for (Int i = first; i < end; ++i)
    if (Handle display = display_of(kPlatformDevice, found[size_t(i)], nullptr))
      if (api.initialize(display, nullptr, nullptr)) return display;
  return nullptr;
}

Api opened() {
  Api api{};
  void* library = open_library("libEGL.so.1");
  if (!library) return api;
  const auto find = [library](auto& member, const char* name) {
    member = function<std::remove_reference_t<decltype(member)>>(library, name);
    return member != nullptr;
  };
  if (!find(api.initialize, "eglInitialize") || !find(api.choose_config, "eglChooseConfig") ||
      !find(api.bind_api, "eglBindAPI") || !find(api.create_context, "eglCreateContext") ||
      !find(api.make_current, "eglMakeCurrent") || !find(api.destroy_context, "eglDestroyContext"))
    return api;
  Handle display = device_display(api, library);
  Int count = 0;
  if (display && api.choose_config(display, kConfig.data(), &api.config, 1, &count) && count > 0)
    api.display = display;
  return api;
}

const Api& api() {
  static const Api opened_once = opened();
  return opened_once;
}

class Context final : public GlContext {
 public:
  Context() {
    api().bind_api(kOpenGlApi);
    context_ = api().create_context(api().display, api().config, nullptr, nullptr);
    if (!context_) throw Error("[render] EGL gave no OpenGL context; try MUJOCO_GL=osmesa");
  }
  ~Context() override {
    api().make_current(api().display, nullptr, nullptr, nullptr);
    api().destroy_context(api().display, context_);
  }
  void make_current() override {
    if (!api().make_current(api().display, nullptr, nullptr, context_))
      throw Error("[render] EGL's context cannot be used by this thread; try MUJOCO_GL=osmesa");
  }

 private:
  Handle context_;
};

}  // namespace egl

// docs.mesa3d.org/osmesa.html, GL/osmesa.h
namespace osmesa {

constexpr unsigned kRgba = 0x1908, kUnsignedByte = 0x1401;

struct Api {
  void* (*create_context)(unsigned format, int depth, int stencil, int accumulated, void* share);
  unsigned char (*make_current)(void* context, void* buffer, unsigned type, int width, int height);
  void (*destroy_context)(void* context);
  bool works = false;
};

Api opened() {
  Api api{};
  void* library = open_library("libOSMesa.so.8");
  if (!library) library = open_library("libOSMesa.so.6");
  if (!library) return api;
  api.create_context = function<decltype(api.create_context)>(library, "OSMesaCreateContextExt");
  api.make_current = function<decltype(api.make_current)>(library, "OSMesaMakeCurrent");
  api.destroy_context = function<decltype(api.destroy_context)>(library, "OSMesaDestroyContext");
  api.works = api.create_context && api.make_current && api.destroy_context;
  return api;
}

const Api& api() {
  static const Api opened_once = opened();
  return opened_once;
}

class Context final : public GlContext {
 public:
  Context() : context_(api().create_context(kRgba, 24, 8, 0, nullptr)) {
    if (!context_) throw Error("[render] OSMesa gave no OpenGL context; try MUJOCO_GL=egl");
  }
  ~Context() override { api().destroy_context(context_); }
  void make_current() override {
    // MuJoCo draws into a buffer of its own: the context's is as small as one can be
    if (!api().make_current(context_, pixel_, kUnsignedByte, 1, 1))
      throw Error("[render] OSMesa's context cannot be used by this thread; try MUJOCO_GL=egl");
  }

 private:
  void* context_;
  alignas(4) unsigned char pixel_[4] = {};
};

}  // namespace osmesa

std::string opened_backend() {
  const char* variable = std::getenv("MUJOCO_GL");
  const std::string chosen = variable ? variable : "";
  if (!chosen.empty() && chosen != "egl" && chosen != "osmesa")
    throw Error("[render] MUJOCO_GL must be egl or osmesa, or not set, got '" + chosen + "'");
  // Mesa's software renderer would start threads of its own for each context, of which we have one
  // a thread: it draws on ours. Read when a library is opened
  setenv("LP_NUM_THREADS", "0", /*overwrite=*/0);
  if (chosen != "osmesa" && egl::api().display) return "egl";
  if (chosen == "egl" || !osmesa::api().works) return "";
  // else MuJoCo's renderer, which asks it too, would take functions of an EGL that was opened
  setenv("MUJOCO_GL", "osmesa", /*overwrite=*/1);
  return "osmesa";
}

}  // namespace

std::unique_ptr<GlContext> make_gl_context() {
  static const std::string backend = opened_backend();
  if (backend == "egl") return std::make_unique<egl::Context>();
  if (backend == "osmesa") return std::make_unique<osmesa::Context>();
  const char* chosen = std::getenv("MUJOCO_GL");
  throw Error(
      "[render] pictures need OpenGL without a window, and neither EGL nor OSMesa works here" +
      (chosen && *chosen ? " as MUJOCO_GL=" + std::string(chosen) : "") +
      "; install one, on Debian: apt-get install libegl1 libgl1-mesa-dri (or libosmesa6); " +
      "on a GPU its driver brings EGL");
}

}  // namespace maglev::mujoco
