#include "kernels/image/image_op.h"

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/image/image.h"

namespace maglev {
namespace {

template <class T>
void convert_image(const at::Tensor& bytes, float scale, at::Tensor& out) {
  const at::Device device = device_of("image", out, bytes);
  const auto* from = bytes.const_data_ptr<uint8_t>();
  auto* to = static_cast<T*>(out.data_ptr());
  launch<image_cuda<T>>(
      "image", device, [](auto... args) { image_cpu(args...); }, from, out.numel(), scale, to);
}

void scale_image_(at::Tensor& out, const at::Tensor& bytes, double scale) {
  MAGLEV_ASSERT(bytes.scalar_type() == at::kByte && bytes.is_contiguous(), "contiguous u8");
  if (out.scalar_type() == at::kFloat) return convert_image<float>(bytes, float(scale), out);
  MAGLEV_ASSERT(out.scalar_type() == at::kBFloat16, "f32 or bf16");
  convert_image<uint16_t>(bytes, float(scale), out);
}

std::vector<KernelCase> image_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (auto [rows, side, dtype] : {std::tuple<int64_t, int64_t, at::ScalarType>{1, 1, at::kFloat},
                                   {3, 7, at::kFloat},
                                   {3, 7, at::kBFloat16},
                                   {64, 84, at::kFloat},
                                   {64, 84, at::kBFloat16}}) {
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows));
    auto bytes =
        at::randint(0, 256, {rows, side, side, 3}, gen, at::TensorOptions(at::kByte)).to(device);
    auto out = at::empty(bytes.sizes(), bytes.options().dtype(dtype));
    list.push_back(
        {.name = "rows=" + std::to_string(rows) + " " + std::to_string(side) + "x" +
                 std::to_string(side) + "x3" + (dtype == at::kFloat ? "" : " bf16"),
         .reference =
             [=](const Tensors&) {
               return Tensors{bytes.to(at::kFloat).mul_(1.0 / 255).to(dtype)};
             },
         .fused = [=](const Tensors&) { return Tensors{scale_image(bytes, 1.0 / 255, dtype)}; },
         .tolerance = 0,
         .bytes = bytes.numel() * (1 + int64_t(out.element_size())),
         .flops = bytes.numel(),
         .repeat_fused = [=]() mutable { scale_image_(out, bytes, 1.0 / 255); }});
  }
  return list;
}

}  // namespace

at::Tensor scale_image(const at::Tensor& bytes, double scale, at::ScalarType dtype) {
  auto out = at::empty(bytes.sizes(), bytes.options().dtype(dtype));
  scale_image_(out, bytes.contiguous(), scale);
  return out;
}

namespace kernels::image {
KernelEntry entry() { return {"image", "bytes of images, scaled, as f32 or bf16", image_cases}; }
}  // namespace kernels::image

}  // namespace maglev
