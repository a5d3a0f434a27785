#include <algorithm>

#include "base/core/error.h"
#include "base/trace/span.h"
#include "kernels/image_towers/image_towers.h"
#include "kernels/image_towers/weights.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image_towers/encoder_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/image_towers/encoder-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {

void encode_by_vectors(const EncoderForward& args) { encoder_forward<FloatWay>(args); }
void encode_back_by_vectors(const EncoderBackward& args) { encoder_backward<FloatWay>(args); }
#ifdef MAGLEV_TILES
void encode_by_tiles(const EncoderForward& args) { encoder_forward<TileWay<Tiles>>(args); }
void encode_back_by_tiles(const EncoderBackward& args) { encoder_backward<TileWay<Tiles>>(args); }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(encode_by_vectors);
HWY_EXPORT(encode_back_by_vectors);
#ifdef MAGLEV_TILES
HWY_EXPORT(encode_by_tiles);
HWY_EXPORT(encode_back_by_tiles);
#endif

TowerSizes encoder_sizes(const ImageTower& tower) {
  TowerSizes sizes = towers::each_encoder_stage(tower, [](int64_t, const towers::EncoderStage&) {});
  sizes.scratch = towers::EncoderScratch(tower).end;
  return sizes;
}

void pack_encoder_cpu(const ImageTower& tower, std::span<const TowerStage> stages, float* packed) {
  using namespace towers;
  std::fill_n(packed, encoder_sizes(tower).packed, 0.f);
  each_encoder_stage(tower, [&](int64_t s, const EncoderStage& stage) {
    KernelWeights forward(tower.rounded, stage.out, kKernel, kKernel, stage.in);
    KernelWeights turned(tower.rounded, stage.in, kKernel, kKernel, stage.out);
    const float* from = stages[s].weight;
    for (int64_t o = 0; o < stage.out; ++o) {
      packed[stage.start + o] = stages[s].bias[o];
      for (int64_t c = 0; c < stage.in; ++c)
        for (int64_t r = 0; r < kKernel; ++r)
          for (int64_t k = 0; k < kKernel; ++k, ++from) {
            forward.at(o, r, k, c) = *from;
            turned.at(c, kKernel - 1 - r, kKernel - 1 - k, o) = *from;
          }
    }
    forward.write(stage.out, packed + stage.weight);
    turned.write(stage.in, packed + stage.turned);
  });
}

void encoder_forward_cpu(const EncoderForward& args) {
  const auto span = trace::kernel("image_encoder_forward");
#ifdef MAGLEV_TILES
  if (args.tower.rounded) return HWY_DYNAMIC_DISPATCH(encode_by_tiles)(args);
#endif
  MAGLEV_ASSERT(!args.tower.rounded, "no tiles here");
  HWY_DYNAMIC_DISPATCH(encode_by_vectors)(args);
}
void encoder_backward_cpu(const EncoderBackward& args) {
  const auto span = trace::kernel("image_encoder_backward");
#ifdef MAGLEV_TILES
  if (args.tower.rounded) return HWY_DYNAMIC_DISPATCH(encode_back_by_tiles)(args);
#endif
  MAGLEV_ASSERT(!args.tower.rounded, "no tiles here");
  HWY_DYNAMIC_DISPATCH(encode_back_by_vectors)(args);
}

}  // namespace maglev
#endif
