// Milliseconds that the images of one update of Dreamer take on the CPU, forward and back through
// encoder and decoder: kernels/image_towers over panels of 16 images shared by threads, the same
// rounded to bfloat16 where the processor has tiles, and by ATen's operations and autograd on as
// many threads.
//
//   image_tower_throughput [--images 1024] [--depth 4] [--threads N] [--repeats 5]
//
// A line of JSON a way and number of threads (1 and all, unless given), the ways in turn. Times are
// medians over the repeats, of wall clock and of the process' processor time.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/core/clock.h"
#include "base/core/thread_pool.h"
#include "base/simd/tiles.h"
#include "engine/host/machine.h"
#include "kernels/image_towers/image_towers.h"
#include "kernels/image_towers/image_towers_op.h"

namespace maglev {
namespace {

constexpr int64_t kSide = 64, kLanes = 16;

struct Tower {
  std::vector<int64_t> channels;  // the image's first
  bool rounded;
  std::vector<at::Tensor> leaves;  // weight, bias, scale of each stage
  std::vector<TowerStage> stages;
  at::Tensor packed, lanes;  // [kLanes, parameters]

  Tower(std::vector<int64_t> of, bool decoder, bool rounded) : channels(of), rounded(rounded) {
    if (decoder) std::reverse(of.begin(), of.end());
    int64_t parameters = 0;
    for (size_t i = 0; i + 1 < of.size(); ++i) {
      const bool last = decoder && i + 2 == of.size();
      leaves.push_back(at::randn({of[i + 1], of[i], 5, 5}) / std::sqrt(25. * double(of[i])));
      leaves.push_back(at::zeros({of[i + 1]}));
      if (!last) leaves.push_back(at::ones({of[i + 1]}));
      const size_t first = 3 * i;
      stages.push_back({data(first), data(first + 1), last ? nullptr : data(first + 2)});
    }
    for (auto& leaf : leaves) parameters += leaf.set_requires_grad(true).numel();
    packed = at::empty({sizes(decoder).packed});
    lanes = at::zeros({kLanes, parameters});
  }
  float* data(size_t i) { return leaves[i].data_ptr<float>(); }
  ImageTower shape() const { return {kSide, kSide, channels, rounded}; }
  TowerSizes sizes(bool decoder) const {
    return decoder ? decoder_sizes(shape()) : encoder_sizes(shape());
  }
  // where a lane's gradients are added, parameter behind parameter
  std::vector<TowerGrad> grads(int64_t lane) {
    float* next = lanes[lane].data_ptr<float>();
    std::vector<TowerGrad> list;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (i % 3 == 0) list.push_back({next, nullptr, nullptr});
      if (i % 3 == 1) list.back().bias = next;
      if (i % 3 == 2) list.back().scale = next;
      next += leaves[i].numel();
    }
    return list;
  }
};

struct Batch {
  at::Tensor images, small, d_tokens;
};

void by_aten(Tower& encoder, Tower& decoder, const Batch& batch) {
  image_encoder_reference(batch.images, encoder.leaves).backward(batch.d_tokens);
  auto x = batch.small.detach().set_requires_grad(true);
  image_decoder_loss_reference(x, batch.images, decoder.leaves).mean().backward();
}

// memory of all panels, made once
struct Kernels {
  at::Tensor kept, decoder_kept, scratch, tokens, dx, loss, d_loss;

  Kernels(const Tower& encoder, const Tower& decoder, const Batch& batch) {
    const TowerSizes e = encoder.sizes(false), d = decoder.sizes(true);
    const int64_t N = batch.images.size(0), panels = N / kImageLanes;
    kept = at::empty({panels, e.kept}), decoder_kept = at::empty({kLanes, d.kept});
    scratch = at::empty({kLanes, std::max(e.scratch, d.scratch)});
    tokens = at::empty_like(batch.d_tokens), dx = at::empty_like(batch.small);
    loss = at::empty({N}), d_loss = at::full({N}, 1. / double(N));
  }

  void run(Tower& encoder, Tower& decoder, const Batch& batch, ThreadPool& pool) {
    const ImageTower shape = encoder.shape();
    const int64_t panels = kept.size(0);
    float* packed = encoder.packed.data_ptr<float>();
    float* decoder_packed = decoder.packed.data_ptr<float>();
    pack_encoder_cpu(shape, encoder.stages, packed);
    pack_decoder_cpu(shape, decoder.stages, decoder_packed);
    encoder.lanes.zero_(), decoder.lanes.zero_();
    const auto each_panel = [&](const auto& work) {
      pool.run(kLanes, [&](int64_t lane) {
        for (int64_t p = lane; p < panels; p += kLanes) work(lane, p, p * kImageLanes);
      });
    };
    const auto* images = batch.images.const_data_ptr<uint8_t>();
    const int64_t token = shape.token(), pixels = shape.pixels();
    each_panel([&](int64_t lane, int64_t p, int64_t first) {
      encoder_forward_cpu({.tower = shape,
                           .stages = encoder.stages,
                           .packed = packed,
                           .images = images + first * pixels,
                           .count = kImageLanes,
                           .tokens = tokens.data_ptr<float>() + first * token,
                           .token_row = token,
                           .kept = kept[p].data_ptr<float>(),
                           .scratch = scratch[lane].data_ptr<float>()});
    });
    // a decoder's gradients follow at once, while what it keeps is in the cache
    each_panel([&](int64_t lane, int64_t, int64_t first) {
      const float* x = batch.small.const_data_ptr<float>() + first * token;
      float* made = decoder_kept[lane].data_ptr<float>();
      decoder_forward_cpu({.tower = shape,
                           .stages = decoder.stages,
                           .packed = decoder_packed,
                           .x = x,
                           .images = images + first * pixels,
                           .count = kImageLanes,
                           .loss = loss.data_ptr<float>() + first,
                           .kept = made,
                           .scratch = scratch[lane].data_ptr<float>()});
      decoder_backward_cpu({.tower = shape,
                            .stages = decoder.stages,
                            .grads = decoder.grads(lane),
                            .packed = decoder_packed,
                            .x = x,
                            .count = kImageLanes,
                            .d_loss = d_loss.const_data_ptr<float>() + first,
                            .dx = dx.data_ptr<float>() + first * token,
                            .kept = made,
                            .scratch = scratch[lane].data_ptr<float>()});
    });
    each_panel([&](int64_t lane, int64_t p, int64_t first) {
      encoder_backward_cpu({.tower = shape,
                            .stages = encoder.stages,
                            .grads = encoder.grads(lane),
                            .packed = packed,
                            .images = images + first * pixels,
                            .count = kImageLanes,
                            .d_tokens = batch.d_tokens.const_data_ptr<float>() + first * token,
                            .token_row = token,
                            .kept = kept[p].data_ptr<float>(),
                            .scratch = scratch[lane].data_ptr<float>()});
    });
  }
};

struct Times {
  std::vector<double> wall, cpu;

  template <class Work>
  void add(const Work& work) {
    const double wall_start = steady_s(), start = process_cpu_s();
    work();
    wall.push_back(steady_s() - wall_start);
    cpu.push_back(process_cpu_s() - start);
  }
  static double median(std::vector<double> of) {
    std::nth_element(of.begin(), of.begin() + int64_t(of.size() / 2), of.end());
    return of[of.size() / 2];
  }
  void print(const char* way, int threads) const {
    std::printf("{\"way\": \"%s\", \"threads\": %d, \"ms\": %.1f, \"cpu_ms\": %.1f}\n", way,
                threads, median(wall) * 1e3, median(cpu) * 1e3);
    std::fflush(stdout);
  }
};

void run(const std::vector<std::string>& words) {
  int64_t images = 1024, depth = 4;
  int repeats = 5, threads = 0;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == "--images") images = std::stoi(words[i + 1]) / kImageLanes * kImageLanes;
    if (words[i] == "--depth") depth = std::stoi(words[i + 1]);
    if (words[i] == "--threads") threads = std::stoi(words[i + 1]);
    if (words[i] == "--repeats") repeats = std::stoi(words[i + 1]);
  }
  claim_threads();
  const std::vector<int64_t> channels{3, 2 * depth, 3 * depth, 4 * depth, 4 * depth};
  Tower encoder(channels, false, false), decoder(channels, true, false);
  Tower low_encoder(channels, false, true), low_decoder(channels, true, true);
  const Batch batch{at::randint(0, 256, {images, kSide, kSide, 3}, at::kByte),
                    at::randn({images, kSide / 16, kSide / 16, 4 * depth}),
                    at::randn({images, encoder.shape().token()})};
  Kernels kernels(encoder, decoder, batch), low(low_encoder, low_decoder, batch);
  std::vector<int> counts{threads > 0 ? threads : 1};
  if (threads == 0 && usable_cpus() > 1) counts.push_back(usable_cpus());
  for (int count : counts) {
    ThreadPool pool(count, [] { at::set_num_threads(1); });
    Times aten, fused, rounded;
    for (int r = 0; r < repeats; ++r) {
      at::set_num_threads(count);
      aten.add([&] { by_aten(encoder, decoder, batch); });
      at::set_num_threads(1);
      fused.add([&] { kernels.run(encoder, decoder, batch, pool); });
      if (tiles_available()) rounded.add([&] { low.run(low_encoder, low_decoder, batch, pool); });
    }
    aten.print("aten", count), fused.print("kernels", count);
    if (tiles_available()) rounded.print("kernels, bf16 tiles", count);
  }
}

}  // namespace
}  // namespace maglev

int main(int count, char** words) { maglev::run({words + 1, words + count}); }
