#include "kernels/philox/philox_op.h"

#include <cmath>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"

namespace maglev {
namespace {

template <auto Cuda, class Cpu>
void fill_philox_(at::Tensor& out, PhiloxFill fill, Cpu cpu) {
  const at::Device device = device_of("philox", out);
  MAGLEV_ASSERT(out.dim() == 2 && out.is_contiguous() && out.scalar_type() == at::kFloat,
                "[rows, width] f32");
  fill.rows = out.size(0);
  fill.width = out.size(1);
  launch<Cuda>("philox", device, cpu, fill, out.data_ptr<float>());
}

// element by element, with nothing shared between them
Tensors uniform_reference(const PhiloxFill& fill) {
  auto out = at::empty({fill.rows, fill.width});
  for (int64_t i = 0; i < fill.rows; ++i)
    for (int64_t j = 0; j < fill.width; ++j)
      out[i][j] = open_uniform(philox_row_block(fill, i, j / 4).word[j % 4]);
  return {out};
}

// two neighbours are the polar form of one pair (Box and Muller, 1958)
Tensors normal_reference(const PhiloxFill& fill) {
  auto out = at::empty({fill.rows, fill.width});
  for (int64_t i = 0; i < fill.rows; ++i)
    for (int64_t j = 0; j < fill.width; ++j) {
      const PhiloxBlock block = philox_row_block(fill, i, j / 2);
      const double radius = std::sqrt(-2 * std::log(double(open_uniform(block.word[0]))));
      const double angle = 6.283185307179586 * double(open_uniform(block.word[1]));
      out[i][j] = radius * (j % 2 == 0 ? std::cos(angle) : std::sin(angle));
    }
  return {out};
}

KernelCase permutation_case(int64_t size, int64_t first, int64_t count, at::Device device) {
  const PermutationKey key{.seed = 11, .counter = 3, .n = size};
  auto out = at::empty({count}, at::TensorOptions(at::kLong).device(device));
  return {.name = "permutation of " + std::to_string(size) + ", " + std::to_string(count) +
                  " from " + std::to_string(first),
          .reference =
              [=](const Tensors&) {
                auto places = at::empty({count}, at::kLong);
                for (int64_t i = 0; i < count; ++i)
                  places[i] = int64_t(permutation_of(key)(uint64_t(first + i)));
                return Tensors{places};
              },
          .fused =
              [=](const Tensors&) {
                auto fresh = at::empty_like(out);
                fill_permutation(fresh, key, first);
                return Tensors{fresh};
              },
          .tolerance = 0,
          .bytes = count * 8,
          .repeat_fused = [=]() mutable { fill_permutation(out, key, first); }};
}

std::vector<KernelCase> philox_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (auto [rows, width] : {std::pair<int64_t, int64_t>{8, 2}, {33, 7}, {256, 8}}) {
    PhiloxFill fill{.seed = 11,
                    .purpose = Purpose::act,
                    .first_row = 5,
                    .step = 77,
                    .rows = rows,
                    .width = width};
    auto out = at::empty({rows, width}, at::TensorOptions(at::kFloat).device(device));
    list.push_back(
        {.name = "uniform rows=" + std::to_string(rows) + " width=" + std::to_string(width),
         .reference = [=](const Tensors&) { return uniform_reference(fill); },
         .fused =
             [=](const Tensors&) {
               auto fresh = at::empty_like(out);
               philox_uniform_(fresh, fill);
               return Tensors{fresh};
             },
         .tolerance = 0,
         .bytes = rows * width * 4,
         .repeat_fused = [=]() mutable { philox_uniform_(out, fill); }});
    list.push_back(
        {.name = "normal rows=" + std::to_string(rows) + " width=" + std::to_string(width),
         .reference = [=](const Tensors&) { return normal_reference(fill); },
         .fused =
             [=](const Tensors&) {
               auto fresh = at::empty_like(out);
               philox_normal_(fresh, fill);
               return Tensors{fresh};
             },
         .tolerance = 2e-6,
         .bytes = rows * width * 4,
         .repeat_fused = [=]() mutable { philox_normal_(out, fill); }});
  }
  list.push_back(permutation_case(1000, 0, 1000, device));
  list.push_back(permutation_case(77, 13, 33, device));
  return list;
}

}  // namespace

void philox_uniform_(at::Tensor& out, PhiloxFill fill) {
  fill_philox_<philox_uniform_cuda>(out, fill, philox_uniform_cpu);
}
void philox_normal_(at::Tensor& out, PhiloxFill fill) {
  fill_philox_<philox_normal_cuda>(out, fill, philox_normal_cpu);
}

void fill_permutation(at::Tensor& out, const PermutationKey& key, int64_t first) {
  const at::Device device = device_of("permutation", out);
  MAGLEV_ASSERT(out.dim() == 1 && out.is_contiguous() && out.scalar_type() == at::kLong,
                "[count] i64");
  launch<permutation_cuda>("permutation", device, permutation_cpu, key, first, out.size(0),
                           out.data_ptr<int64_t>());
}

namespace kernels::philox {
KernelEntry entry() {
  return {"philox", "counter-based uniform and normal random numbers", philox_cases};
}
}  // namespace kernels::philox

}  // namespace maglev
