#include <algorithm>

#include "base/core/error.h"
#include "base/trace/span.h"
#include "kernels/image_towers/image_towers.h"
#include "kernels/image_towers/weights.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image_towers/decoder_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/image_towers/decoder-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {

void decode_by_vectors(const DecoderForward& args) { decoder_forward<FloatWay>(args); }
void decode_back_by_vectors(const DecoderBackward& args) { decoder_backward<FloatWay>(args); }
#ifdef MAGLEV_TILES
void decode_by_tiles(const DecoderForward& args) { decoder_forward<TileWay<Tiles>>(args); }
void decode_back_by_tiles(const DecoderBackward& args) { decoder_backward<TileWay<Tiles>>(args); }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(decode_by_vectors);
HWY_EXPORT(decode_back_by_vectors);
#ifdef MAGLEV_TILES
HWY_EXPORT(decode_by_tiles);
HWY_EXPORT(decode_back_by_tiles);
#endif

TowerSizes decoder_sizes(const ImageTower& tower) {
  TowerSizes sizes = towers::each_decoder_stage(tower, [](int64_t, const towers::DecoderStage&) {});
  sizes.scratch = towers::DecoderScratch(tower).end;
  return sizes;
}

void pack_decoder_cpu(const ImageTower& tower, std::span<const TowerStage> stages, float* packed) {
  using namespace towers;
  std::fill_n(packed, decoder_sizes(tower).packed, 0.f);
  each_decoder_stage(tower, [&](int64_t s, const DecoderStage& stage) {
    KernelWeights forward(tower.rounded, stage.outs(), kSmallKernel, kSmallKernel, stage.in);
    KernelWeights turned(tower.rounded, stage.in, stage.turned_rows(), kSmallKernel, stage.pair());
    const float* from = stages[s].weight;
    // tap r of rows with corner a above or below falls on row (r + a) / 2 of the small image
    const auto add = [&](int64_t o, int64_t c, int64_t r, int64_t k, int64_t a, int64_t b) {
      const int64_t row = (r + a) / kDouble, column = (k + b) / kDouble, out = b * stage.out + o;
      forward.at(a * stage.pair() + out, row, column, c) += *from;
      turned.at(c, (kSmallKernel - 1 - row) * kDouble + a, kSmallKernel - 1 - column, out) += *from;
    };
    for (int64_t o = 0; o < stage.out; ++o) {
      for (int64_t corner = 0; corner < kDouble * kDouble; ++corner)
        packed[stage.start + corner * stage.out + o] = stages[s].bias[o];
      for (int64_t c = 0; c < stage.in; ++c)
        for (int64_t r = 0; r < kKernel; ++r)
          for (int64_t k = 0; k < kKernel; ++k, ++from)
            for (int64_t a = 0; a < kDouble; ++a)
              for (int64_t b = 0; b < kDouble; ++b) add(o, c, r, k, a, b);
    }
    forward.write(stage.pair(), packed + stage.weight);
    turned.write(stage.in, packed + stage.turned);
  });
}

void decoder_forward_cpu(const DecoderForward& args) {
  const auto span = trace::kernel("image_decoder_forward");
#ifdef MAGLEV_TILES
  if (args.tower.rounded) return HWY_DYNAMIC_DISPATCH(decode_by_tiles)(args);
#endif
  MAGLEV_ASSERT(!args.tower.rounded, "no tiles here");
  HWY_DYNAMIC_DISPATCH(decode_by_vectors)(args);
}
void decoder_backward_cpu(const DecoderBackward& args) {
  const auto span = trace::kernel("image_decoder_backward");
#ifdef MAGLEV_TILES
  if (args.tower.rounded) return HWY_DYNAMIC_DISPATCH(decode_back_by_tiles)(args);
#endif
  MAGLEV_ASSERT(!args.tower.rounded, "no tiles here");
  HWY_DYNAMIC_DISPATCH(decode_back_by_vectors)(args);
}

}  // namespace maglev
#endif
