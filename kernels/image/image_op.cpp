#include "kernels/image/image_op.h"

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/aten_only.h"
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

void shift_images_(at::Tensor& out, const at::Tensor& bytes, const at::Tensor& uniforms,
                   int64_t pad) {
  MAGLEV_ASSERT(bytes.scalar_type() == at::kByte && bytes.dim() == 4 && bytes.is_contiguous() &&
                    uniforms.scalar_type() == at::kFloat && uniforms.is_contiguous(),
                "contiguous u8 [N, H, W, C] and f32 [N, 2]");
  const at::Device device = device_of("image shift", out, bytes, uniforms);
  const ImageShift args{.bytes = bytes.const_data_ptr<uint8_t>(),
                        .uniforms = uniforms.const_data_ptr<float>(),
                        .N = bytes.size(0),
                        .H = bytes.size(1),
                        .W = bytes.size(2),
                        .C = bytes.size(3),
                        .pad = pad,
                        .out = out.data_ptr<float>()};
  launch<image_shift_cuda>("image shift", device, image_shift_cpu, args);
}

at::Tensor shift_reference(const at::Tensor& bytes, const at::Tensor& uniforms, int64_t pad) {
  const auto moves =
      (uniforms * double(2 * pad + 1)).to(at::kLong).clamp_max(2 * pad).sub(pad).unsqueeze(1);
  // the place each pixel comes from
  const auto places = [&](int64_t side, int64_t which) {
    return (at::arange(side, moves.options()).unsqueeze(0) + moves.select(2, which))
        .clamp(0, side - 1);
  };
  const auto row = at::arange(bytes.size(0), moves.options()).view({-1, 1, 1});
  const auto moved = bytes.index(
      {row, places(bytes.size(1), 0).unsqueeze(2), places(bytes.size(2), 1).unsqueeze(1)});
  // a number on the host would be a factor on a device, whose rounding is another
  const auto most = at::full({}, 255.f, moved.options().dtype(at::kFloat));
  return moved.permute({0, 3, 1, 2}).to(at::kFloat) / most - 0.5;
}

void add_shift_cases(std::vector<KernelCase>& list, at::Device device) {
  struct Shape {
    int64_t rows, height, width, channels, pad;
  };
  for (auto [rows, height, width, channels, pad] :
       {Shape{1, 1, 1, 1, 1}, {5, 6, 9, 3, 4}, {64, 64, 64, 3, 3}, {256, 64, 64, 9, 3}}) {
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows));
    auto bytes =
        at::randint(0, 256, {rows, height, width, channels}, gen, at::TensorOptions(at::kByte))
            .to(device);
    auto uniforms = at::rand({rows, 2}, gen).to(device);
    // both ends of the range
    uniforms[0][0].fill_(0), uniforms[0][1].fill_(1);
    auto out = at::empty(bytes.sizes(), bytes.options().dtype(at::kFloat));
    list.push_back(
        {.name = "shift rows=" + std::to_string(rows) + " " + std::to_string(height) + "x" +
                 std::to_string(width) + "x" + std::to_string(channels),
         .reference =
             [=, pad = pad](const Tensors&) {
               return Tensors{shift_reference(bytes, uniforms, pad)};
             },
         .fused =
             [=, pad = pad](const Tensors&) { return Tensors{shift_images(bytes, uniforms, pad)}; },
         .tolerance = 0,
         .bytes = bytes.numel() * 5,
         .flops = 2 * bytes.numel(),
         .repeat_fused = [=, pad = pad]() mutable { shift_images_(out, bytes, uniforms, pad); }});
  }
}

at::Tensor scale_reference(const at::Tensor& bytes, double scale, at::ScalarType dtype) {
  return bytes.to(at::kFloat).mul_(scale).to(dtype);
}

std::vector<KernelCase> image_cases(at::Device device) {
  std::vector<KernelCase> list;
  add_shift_cases(list, device);
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
             [=](const Tensors&) { return Tensors{scale_reference(bytes, 1.0 / 255, dtype)}; },
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
  if (AtenOnly::on()) return scale_reference(bytes, scale, dtype);
  auto out = at::empty(bytes.sizes(), bytes.options().dtype(dtype));
  scale_image_(out, bytes.contiguous(), scale);
  return out;
}

at::Tensor shift_images(const at::Tensor& bytes, const at::Tensor& uniforms, int64_t pad) {
  auto out = at::empty(bytes.sizes(), bytes.options().dtype(at::kFloat));
  shift_images_(out, bytes.contiguous(), uniforms.contiguous(), pad);
  return out.permute({0, 3, 1, 2});
}

namespace kernels::image {
KernelEntry entry() {
  return {"image", "bytes of images, scaled as f32 or bf16; moved at random", image_cases};
}
}  // namespace kernels::image

}  // namespace maglev
