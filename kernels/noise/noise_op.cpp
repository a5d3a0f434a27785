#include "kernels/noise/noise_op.h"

#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"

namespace maglev {
namespace {

template <auto Cuda, class Cpu>
void fill_noise_(at::Tensor& out, NoiseFill fill, Cpu cpu) {
  const at::Device device = device_of("noise", out);
  MAGLEV_ASSERT(out.is_contiguous() && out.scalar_type() == at::kFloat, "contiguous f32");
  if (fill.rows < 1 || out.numel() % fill.rows)
    throw Error("[noise] out must hold whole rows of " + std::to_string(fill.rows) +
                " streams, got " + std::to_string(out.numel()) + " numbers");
  fill.count = out.numel() / fill.rows;
  launch<Cuda>("noise", device, cpu, fill, out.data_ptr<float>());
}

// number by number, in f64 where there is rounding
Tensors noise_reference(const NoiseFill& fill, bool normals) {
  auto out = at::empty({fill.rows, fill.count});
  for (int64_t r = 0; r < fill.rows; ++r)
    for (int64_t i = 0; i < fill.count; ++i) {
      const uint64_t stream = stream_of(fill, r), index = fill.first + uint64_t(i);
      const uint64_t pair = index & ~1ull;
      const double u = uniform(fill.seed, stream, pair), v = uniform(fill.seed, stream, pair + 1);
      const double radius = std::sqrt(-2 * std::log(u)), angle = 6.28318530717958648 * v;
      if (!normals) out[r][i] = float(index % 2 ? v : u);
      else out[r][i] = float(radius * (index % 2 ? std::sin(angle) : std::cos(angle)));
    }
  return {out};
}

std::vector<KernelCase> noise_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (auto [rows, first, count] :
       {std::array<int64_t, 3>{1, 0, 4}, {3, 5, 61}, {2, (1ll << 34) + 2, 2048}})
    for (bool normals : {false, true}) {
      const NoiseFill fill{.seed = 11,
                           .stream = stream_id(Purpose::update, 3),
                           .first = uint64_t(first),
                           .rows = rows,
                           .count = count};
      auto out = at::empty({rows, count}, at::TensorOptions(at::kFloat).device(device));
      const auto draw = normals ? noise_normal_ : noise_uniform_;
      list.push_back({.name = (normals ? "normal rows=" : "uniform rows=") + std::to_string(rows) +
                              " first=" + std::to_string(first) + " count=" + std::to_string(count),
                      .reference = [=](const Tensors&) { return noise_reference(fill, normals); },
                      .fused =
                          [=](const Tensors&) {
                            auto fresh = at::empty_like(out);
                            draw(fresh, fill);
                            return Tensors{fresh};
                          },
                      .tolerance = normals ? 3e-6 : 0,
                      .bytes = rows * count * 4,
                      .repeat_fused = [=]() mutable { draw(out, fill); }});
    }
  return list;
}

}  // namespace

void noise_uniform_(at::Tensor& out, NoiseFill fill) {
  fill_noise_<noise_uniform_cuda>(out, fill, noise_uniform_cpu);
}
void noise_normal_(at::Tensor& out, NoiseFill fill) {
  fill_noise_<noise_normal_cuda>(out, fill, noise_normal_cpu);
}

namespace kernels::noise {
KernelEntry entry() {
  return {"noise", "numbered uniforms and normals: any range of a stream", noise_cases};
}
}  // namespace kernels::noise

}  // namespace maglev
