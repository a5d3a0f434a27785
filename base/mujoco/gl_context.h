#pragma once
// OpenGL without a window, for MuJoCo's renderer: through EGL, which a GPU's driver or Mesa brings,
// or through OSMesa, which is software alone. Both libraries are opened at the first use.

#include <memory>

namespace maglev::mujoco {

/// A context of the thread that made it and destroys it, current there from then on. The variable
/// MUJOCO_GL (egl, osmesa), which MuJoCo's own programs know too, chooses; unset: EGL where it
/// works, else OSMesa. EGL takes its first device that works, or number MUJOCO_EGL_DEVICE_ID.
class GlContext {
 public:
  virtual ~GlContext() = default;
  GlContext(const GlContext&) = delete;
  GlContext& operator=(const GlContext&) = delete;
  virtual void make_current() = 0;

 protected:
  GlContext() = default;
};

/// Throws Error that names what to install where there is neither.
std::unique_ptr<GlContext> make_gl_context();

}  // namespace maglev::mujoco
