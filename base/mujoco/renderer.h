#pragma once
// Pictures of a simulation by MuJoCo's own renderer, without a window.
//
// Threads: a thread that renders has a context of its own, made at its first picture and kept as
// long as the thread. Any number of threads render at once.

#include <cstdint>

#include "base/mujoco/model.h"

namespace maglev::mujoco {

struct PictureOptions {
  int width = 64, height = 64;
  int camera = 0;        ///< of the model's cameras
  bool shadows = false;  ///< of its lights, each another pass over the scene
  int samples = 0;       ///< a pixel's, for smooth edges
  bool operator==(const PictureOptions&) const = default;
};

/// Throws Error where this machine has no OpenGL without a window.
void expect_pictures();

/// Writes the picture [height, width, 3] u8, rows from the top. Throws Error where this machine has
/// no OpenGL without a window.
void render(const Model& model, const Simulation& simulation, const PictureOptions& options,
            uint8_t* pixels);

}  // namespace maglev::mujoco
