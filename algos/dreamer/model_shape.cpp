#include "algos/dreamer/model_shape.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "base/core/error.h"
#include "base/env/pictures.h"

namespace maglev::dreamer {
namespace {

struct Widths {
  int64_t deter, hidden, classes, depth, units;
};
// in the order of ModelSize
constexpr Widths kWidths[] = {{512, 64, 4, 4, 64},        {2048, 256, 16, 16, 256},
                              {3072, 384, 24, 24, 384},   {4096, 512, 32, 32, 512},
                              {6144, 768, 48, 48, 768},   {8192, 1024, 64, 64, 1024},
                              {12288, 1536, 96, 96, 1536}};
static_assert(std::size(kWidths) == names_of(ModelSize{}).size());

// of fewer convolutions the last, so that what they leave of an image has the same channels
constexpr int64_t kMultiples[kMostStages] = {2, 3, 4, 4};

void take_image(const ObsColumn& column, ModelShape& shape) {
  const std::vector<int64_t> image = image_shape(column);
  const int64_t height = image[0], width = image[1];
  if (shape.channels > 0 && (shape.height != height || shape.width != width))
    throw Error("[dreamer] images must be of one size, " + std::to_string(shape.height) + " x " +
                std::to_string(shape.width) + " as the first, and column '" + column.name +
                "' is " + std::to_string(height) + " x " + std::to_string(width));
  shape.height = height, shape.width = width;
  shape.channels += image[2];
}

void take_observations(const EnvSpec& spec, ModelShape& shape) {
  for (const auto& column : spec.observations) {
    if (column.audience == Audience::critic) continue;
    if (!image_shape(column).empty()) take_image(column, shape);
    else if (column.dtype == DType::f32) shape.vector += column.elements();
    else
      throw Error(
          "[dreamer] takes columns of numbers, images [height, width, channels] of bytes and cell "
          "codes, not column '" +
          column.name + "'; use ppo" + (spec.tasks.empty() ? "" : ", or tdmpc2 for several tasks"));
  }
  shape.cells = shape.channels > 0 && !sees_picture(spec);
  if (shape.channels == 0 && shape.vector == 0)
    throw Error("[dreamer] the environment shows nothing that the policy may see");
}

void take_actions(const EnvSpec& spec, ModelShape& shape) {
  const ActionSpec& action = spec.action;
  if (action.masked)
    throw Error(
        "[dreamer] acts in imagination, where nobody says which actions are allowed; an "
        "environment with masks is for ppo, but of gymnasium's one whose masks are advice alone: "
        "env.masks=false does not look at them");
  shape.heads = action.heads;
  shape.actions = action.discrete() ? action.categories() : action.dims();
  for (size_t d = 0; d < action.low.size(); ++d)
    if (!std::isfinite(action.high[d] - action.low[d]))
      throw Error("[dreamer] acts within bounds, and an action of this environment has none");
}

}  // namespace

int64_t ModelShape::stages() const {
  int64_t stages = kMostStages;
  while (stages > 1 && filled_side(std::min(height, width), stages) >> stages < kLeastPlaces)
    --stages;
  return stages;
}

int64_t ModelShape::stage_channels(int64_t stage) const {
  return depth * kMultiples[kMostStages - stages() + stage];
}

ModelShape model_shape(const Options& options, const EnvSpec& spec) {
  options.check();
  const Widths& size = kWidths[size_t(options.size)];
  const auto given = [](int64_t option, int64_t named) { return option > 0 ? option : named; };
  // widths that were given go before those of the named size
  ModelShape shape{.deter = given(options.deter, size.deter),
                   .hidden = given(options.hidden, size.hidden),
                   .stoch = options.stoch,
                   .classes = given(options.classes, size.classes),
                   .blocks = options.blocks,
                   .depth = given(options.depth, size.depth),
                   .units = given(options.units, size.units),
                   .unimix = options.unimix,
                   .decodes = options.objective == Objective::reconstruction,
                   .fused_images = options.fused_images};
  take_observations(spec, shape);
  take_actions(spec, shape);
  // where the deter of a size meets blocks that were given, or an image the decoder's blocks
  const auto divides = [&](const char* what, int64_t width) {
    if (width % shape.blocks != 0)
      throw Error("[dreamer] dreamer.blocks must divide " + std::string(what) + " = " +
                  std::to_string(width) + ", got " + std::to_string(shape.blocks));
  };
  divides("the width of the recurrent state", shape.deter);
  if (shape.decodes && shape.channels > 0)
    divides("the channels of the decoder's first image", shape.small_channels());
  return shape;
}

}  // namespace maglev::dreamer
