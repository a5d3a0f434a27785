#include "base/mujoco/renderer.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/mujoco/gl_context.h"

namespace maglev::mujoco {
namespace {

// contexts come and go one at a time, while nobody draws: OSMesa's first ones race, and MuJoCo
// looks OpenGL's functions up into memory of the whole process, which those who draw read
std::shared_mutex changing_contexts;

// what a thread draws one model with
class Renderer {
 public:
  Renderer(const Model& model, const PictureOptions& options) : model_(&model), options_(options) {
    const std::lock_guard lock(changing_contexts);
    gl_ = make_gl_context();
    gl_->make_current();
    const Library& lib = library();
    lib.default_option(&shown_);
    // as dm_control's pictures
    shown_.flags[mjVIS_RANGEFINDER] = 0;
    lib.default_scene(&scene_);
    lib.make_scene(model.get(), &scene_, kMostGeoms);
    lib.default_context(&context_);
    // a model of the same parts with other settings of its pictures
    mjModel drawn = *model.get();
    drawn.vis.global.offwidth = options.width;
    drawn.vis.global.offheight = options.height;
    drawn.vis.quality.offsamples = options.samples;
    if (!options.shadows) drawn.vis.quality.shadowsize = 0;
    lib.make_context(&drawn, &context_, mjFONTSCALE_100);
    lib.set_buffer(mjFB_OFFSCREEN, &context_);
  }
  ~Renderer() {
    const std::lock_guard lock(changing_contexts);
    gl_->make_current();
    library().free_context(&context_);
    library().free_scene(&scene_);
    gl_.reset();
  }
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

  bool draws(const Model& model, const PictureOptions& options) const {
    return model_ == &model && options_ == options;
  }

  void draw(const Simulation& simulation, uint8_t* pixels) {
    const std::shared_lock lock(changing_contexts);
    gl_->make_current();
    const Library& lib = library();
    mjvCamera camera{};
    camera.type = mjCAMERA_FIXED;
    camera.fixedcamid = options_.camera;
    // it reads the state; what it may write are visual caches of one's own simulation
    auto* data = const_cast<mjData*>(&simulation.data());
    lib.update_scene(model_->get(), data, &shown_, nullptr, &camera, mjCAT_ALL, &scene_);
    const mjrRect whole{0, 0, options_.width, options_.height};
    lib.render(whole, &scene_, &context_);
    lib.read_pixels(pixels, nullptr, whole, &context_);
    // OpenGL's rows are from the bottom
    const size_t row = size_t(options_.width) * 3;
    for (int top = 0, bottom = options_.height - 1; top < bottom; ++top, --bottom)
      std::swap_ranges(pixels + size_t(top) * row, pixels + size_t(top + 1) * row,
                       pixels + size_t(bottom) * row);
  }

 private:
  static constexpr int kMostGeoms = 1000;

  const Model* model_;
  PictureOptions options_;
  std::unique_ptr<GlContext> gl_;
  mjvOption shown_;
  mjvScene scene_;
  mjrContext context_;
};

}  // namespace

void expect_pictures() {
  const std::lock_guard lock(changing_contexts);
  make_gl_context();
}

void render(const Model& model, const Simulation& simulation, const PictureOptions& options,
            uint8_t* pixels) {
  // few at a time: an environment's pictures, and those somebody watches
  thread_local std::vector<std::unique_ptr<Renderer>> renderers;
  auto found = std::find_if(renderers.begin(), renderers.end(),
                            [&](const auto& renderer) { return renderer->draws(model, options); });
  if (found == renderers.end())
    found = renderers.insert(found, std::make_unique<Renderer>(model, options));
  (*found)->draw(simulation, pixels);
}

}  // namespace maglev::mujoco
