#include "kernels/image_towers/image_towers_op.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "base/simd/tiles.h"
#include "engine/device/aten_only.h"
#include "engine/device/kernel.h"
#include "kernels/image_towers/image_towers.h"

namespace maglev {
namespace {

constexpr double kTowerEps = 1e-4;
constexpr int64_t kPerStage = 3;

enum class TowerKind { encoder, decoder };

// a tower's parameters as kernels take them; keeps them alive
struct TowerParameters {
  TowerKind kind;
  bool rounded;
  Tensors tensors;
  std::vector<int64_t> channels;
  std::vector<TowerStage> stages;

  TowerParameters(TowerKind kind, at::TensorList parameters, Precision products = Precision::fp32)
      : kind(kind), rounded(products == Precision::bf16 && tiles_available()) {
    for (const auto& p : parameters) tensors.push_back(p.detach().contiguous());
    for (size_t i = 0; i < tensors.size(); i += kPerStage) {
      const bool scaled = i + 2 < tensors.size();
      stages.push_back({data(i), data(i + 1), scaled ? data(i + 2) : nullptr});
      if (i == 0) channels.push_back(tensors[0].size(1));
      channels.push_back(tensors[i].size(0));
    }
    // the image's channels first
    if (kind == TowerKind::decoder) std::reverse(channels.begin(), channels.end());
  }
  const float* data(size_t i) const { return tensors[i].const_data_ptr<float>(); }
  ImageTower tower(const at::Tensor& images) const {
    return {images.size(1), images.size(2), channels, rounded};
  }
  TowerSizes sizes(const at::Tensor& images) const {
    return kind == TowerKind::encoder ? encoder_sizes(tower(images)) : decoder_sizes(tower(images));
  }
  at::Tensor packed(const at::Tensor& images) const {
    auto memory = at::empty({sizes(images).packed}, tensors[0].options());
    const auto pack = kind == TowerKind::encoder ? pack_encoder_cpu : pack_decoder_cpu;
    pack(tower(images), stages, memory.data_ptr<float>());
    return memory;
  }
};

// zeros like the parameters, and where kernels add into them
struct TowerGradients {
  Tensors tensors;
  std::vector<TowerGrad> into;

  explicit TowerGradients(const TowerParameters& of) {
    for (const auto& p : of.tensors) tensors.push_back(at::zeros_like(p));
    for (size_t i = 0; i < tensors.size(); i += kPerStage)
      into.push_back({data(i), data(i + 1), i + 2 < tensors.size() ? data(i + 2) : nullptr});
  }
  float* data(size_t i) { return tensors[i].data_ptr<float>(); }
};

// what a batch is worked on in, panel by panel; without gradients one panel's place serves all
struct TowerMemory {
  at::Tensor packed, kept, scratch;

  TowerMemory(const TowerParameters& parameters, const at::Tensor& images, bool keep)
      : packed(parameters.packed(images)) {
    const TowerSizes sizes = parameters.sizes(images);
    const int64_t panels = (images.size(0) + kImageLanes - 1) / kImageLanes;
    kept = at::empty({keep ? panels : 1, sizes.kept}, packed.options());
    scratch = at::empty({sizes.scratch}, packed.options());
  }
  float* kept_of(int64_t panel) {
    return kept.data_ptr<float>() + (kept.size(0) > 1 ? panel : 0) * kept.size(1);
  }
};

template <class Work>
void each_panel(const at::Tensor& images, const Work& work) {
  for (int64_t first = 0; first < images.size(0); first += kImageLanes)
    work(first / kImageLanes, first, std::min(kImageLanes, images.size(0) - first));
}

void encode(const TowerParameters& parameters, const at::Tensor& images, TowerMemory& memory,
            at::Tensor& tokens) {
  const ImageTower tower = parameters.tower(images);
  each_panel(images, [&](int64_t panel, int64_t first, int64_t count) {
    encoder_forward_cpu({.tower = tower,
                         .stages = parameters.stages,
                         .packed = memory.packed.const_data_ptr<float>(),
                         .images = images.const_data_ptr<uint8_t>() + first * tower.pixels(),
                         .count = count,
                         .tokens = tokens.data_ptr<float>() + first * tower.token(),
                         .token_row = tower.token(),
                         .kept = memory.kept_of(panel),
                         .scratch = memory.scratch.data_ptr<float>()});
  });
}

void encode_back(const TowerParameters& parameters, const at::Tensor& images, TowerMemory& memory,
                 const at::Tensor& d_tokens, TowerGradients& grads) {
  const ImageTower tower = parameters.tower(images);
  each_panel(images, [&](int64_t panel, int64_t first, int64_t count) {
    encoder_backward_cpu({.tower = tower,
                          .stages = parameters.stages,
                          .grads = grads.into,
                          .packed = memory.packed.const_data_ptr<float>(),
                          .images = images.const_data_ptr<uint8_t>() + first * tower.pixels(),
                          .count = count,
                          .d_tokens = d_tokens.const_data_ptr<float>() + first * tower.token(),
                          .token_row = tower.token(),
                          .kept = memory.kept_of(panel),
                          .scratch = memory.scratch.data_ptr<float>()});
  });
}

void decode(const TowerParameters& parameters, const at::Tensor& x, const at::Tensor& images,
            TowerMemory& memory, at::Tensor& loss, ImageError error) {
  const ImageTower tower = parameters.tower(images);
  each_panel(images, [&](int64_t panel, int64_t first, int64_t count) {
    decoder_forward_cpu({.tower = tower,
                         .stages = parameters.stages,
                         .packed = memory.packed.const_data_ptr<float>(),
                         .x = x.const_data_ptr<float>() + first * tower.token(),
                         .images = images.const_data_ptr<uint8_t>() + first * tower.pixels(),
                         .count = count,
                         .error = error,
                         .loss = loss.data_ptr<float>() + first,
                         .kept = memory.kept_of(panel),
                         .scratch = memory.scratch.data_ptr<float>()});
  });
}

void decode_back(const TowerParameters& parameters, const at::Tensor& x, const at::Tensor& images,
                 TowerMemory& memory, const at::Tensor& d_loss, at::Tensor& dx,
                 TowerGradients& grads) {
  const ImageTower tower = parameters.tower(images);
  each_panel(images, [&](int64_t panel, int64_t first, int64_t count) {
    decoder_backward_cpu({.tower = tower,
                          .stages = parameters.stages,
                          .grads = grads.into,
                          .packed = memory.packed.const_data_ptr<float>(),
                          .x = x.const_data_ptr<float>() + first * tower.token(),
                          .count = count,
                          .d_loss = d_loss.const_data_ptr<float>() + first,
                          .dx = dx.data_ptr<float>() + first * tower.token(),
                          .kept = memory.kept_of(panel),
                          .scratch = memory.scratch.data_ptr<float>()});
  });
}

// what a forward pass leaves for the way back
struct TowerPass : torch::CustomClassHolder {
  TowerParameters parameters;
  TowerMemory memory;
  at::Tensor images, x;

  TowerPass(TowerParameters with, const at::Tensor& images, const at::Tensor& x)
      : parameters(std::move(with)), memory(parameters, images, true), images(images), x(x) {}
};

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class EncodeImages : public torch::autograd::Function<EncodeImages> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images,
                            at::TensorList parameters, Precision products) {
    auto pass = c10::make_intrusive<TowerPass>(
        TowerParameters(TowerKind::encoder, parameters, products), images, at::Tensor());
    const ImageTower tower = pass->parameters.tower(images);
    auto tokens = at::empty({images.size(0), tower.token()}, parameters[0].options());
    encode(pass->parameters, images, pass->memory, tokens);
    context->saved_data["pass"] = c10::IValue::make_capsule(std::move(pass));
    return tokens;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    auto capsule = context->saved_data["pass"].toCapsule();
    auto& pass = static_cast<TowerPass&>(*capsule);
    TowerGradients grads(pass.parameters);
    encode_back(pass.parameters, pass.images, pass.memory, grad[0].contiguous(), grads);
    context->saved_data.clear();  // what was kept is large, and the graph may live on
    variable_list all{at::Tensor()};
    all.insert(all.end(), grads.tensors.begin(), grads.tensors.end());
    all.emplace_back();  // the precision's
    return all;
  }
};

class DecodeImages : public torch::autograd::Function<DecodeImages> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& images,
                            at::TensorList parameters, Precision products, ImageError error) {
    auto pass = c10::make_intrusive<TowerPass>(
        TowerParameters(TowerKind::decoder, parameters, products), images, x.detach());
    auto loss = at::empty({images.size(0)}, x.options());
    decode(pass->parameters, x, images, pass->memory, loss, error);
    context->saved_data["pass"] = c10::IValue::make_capsule(std::move(pass));
    return loss;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    auto capsule = context->saved_data["pass"].toCapsule();
    auto& pass = static_cast<TowerPass&>(*capsule);
    TowerGradients grads(pass.parameters);
    auto dx = at::empty_like(pass.x);
    decode_back(pass.parameters, pass.x, pass.images, pass.memory, grad[0].contiguous(), dx, grads);
    context->saved_data.clear();
    variable_list all{dx, at::Tensor()};
    all.insert(all.end(), grads.tensors.begin(), grads.tensors.end());
    all.resize(all.size() + 2);  // the precision's and the error's
    return all;
  }
};

void check_images(const char* name, const at::Tensor& images, const Tensors& parameters,
                  TowerKind kind) {
  const auto refuse = [&](const std::string& what) {
    throw Error("[" + std::string(name) + "] " + what);
  };
  const int64_t in = kind == TowerKind::encoder ? parameters[0].size(1) : parameters.back().size(0);
  if (images.dim() != 4 || images.scalar_type() != at::kByte || images.size(3) != in)
    refuse("images must be [N, H, W, " + std::to_string(in) + "] u8, got " +
           c10::str(images.sizes()) + " " + c10::toString(images.scalar_type()));
  if (images.size(1) == 0 || images.size(2) == 0)
    refuse("images must have pixels, got " + c10::str(images.sizes()));
}

int64_t stages_of(const Tensors& parameters) {
  return (int64_t(parameters.size()) + 1) / kPerStage;
}

// weight, bias and scale of each stage, each stage's outputs the next one's inputs
void check_parameters(const char* name, const Tensors& parameters, TowerKind kind) {
  const size_t count = parameters.size();
  const bool whole = kind == TowerKind::encoder ? count % kPerStage == 0 : count % kPerStage == 2;
  const auto refuse = [&](size_t i, const std::string& must) {
    throw Error("[" + std::string(name) + "] parameter " + std::to_string(i) + " must be " + must +
                ", got " + c10::str(parameters[i].sizes()) + " " +
                c10::toString(parameters[i].scalar_type()));
  };
  if (count == 0 || !whole)
    throw Error(
        "[" + std::string(name) +
        "] takes weight, bias and scale of each stage (a decoder's last has no scale), got " +
        std::to_string(count) + " tensors");
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor& weight = parameters[i - i % kPerStage];
    if (i % kPerStage != 0) {
      if (parameters[i].sizes() != at::IntArrayRef({weight.size(0)}))
        refuse(i, "[" + std::to_string(weight.size(0)) + "]");
      continue;
    }
    if (weight.dim() != 4 || weight.size(2) != 5 || weight.size(3) != 5)
      refuse(i, "[out, in, 5, 5]");
    if (i > 0 && weight.size(1) != parameters[i - kPerStage].size(0))
      refuse(i, "[out, " + std::to_string(parameters[i - kPerStage].size(0)) + ", 5, 5]");
  }
}

// a panel costs the same with one image as with 16, and ATen's operations by the image: they meet
// at 6 images of 64 x 64 where the first stage has 8 channels, at 9 of 16 and at 15 of 32 (AMD
// EPYC)
bool fills_panels(int64_t images, int64_t channels) {
  const int64_t panels = (images + kImageLanes - 1) / kImageLanes;
  return images >= panels * std::min<int64_t>(15, 3 + 3 * channels / 8);
}

bool any_gradient(const Tensors& parameters) {
  return at::GradMode::is_enabled() &&
         std::any_of(parameters.begin(), parameters.end(),
                     [](const at::Tensor& p) { return p.requires_grad(); });
}

// a norm over the channels of x [N, C, H, W] at each place, with SiLU
at::Tensor tower_norm_silu(const at::Tensor& x, const at::Tensor& scale) {
  const auto last = x.permute({0, 2, 3, 1});
  return at::silu(at::rms_norm(last, {last.size(3)}, scale, kTowerEps)).permute({0, 3, 1, 2});
}

at::Tensor same_convolution(const at::Tensor& x, const Tensors& parameters, size_t i) {
  return at::conv2d(x, parameters[i], parameters[i + 1], /*stride=*/1, /*padding=*/2);
}

// whether convolutions of x in ATen round their factors
bool rounds_in_aten(const at::Tensor& x, Precision products) {
  return x.is_cuda() && products == Precision::bf16;
}

// the same of rounded factors, in bf16 and without the bias
at::Tensor rounded_convolution(const at::Tensor& x, const Tensors& parameters, size_t i) {
  return at::conv2d(x.to(at::kBFloat16), parameters[i].to(at::kBFloat16), {}, /*stride=*/1,
                    /*padding=*/2);
}

// in f32, as the bias is
at::Tensor with_bias(const at::Tensor& convolution, const Tensors& parameters, size_t i) {
  return convolution + parameters[i + 1].view({-1, 1, 1});
}

}  // namespace

at::Tensor image_encoder_reference(const at::Tensor& images, const Tensors& parameters,
                                   Precision products) {
  const bool rounds = rounds_in_aten(images, products);
  auto x = (images.to(parameters[0].dtype()) / 255 - 0.5).permute({0, 3, 1, 2});
  const int64_t stages = stages_of(parameters);
  const int64_t below = filled_side(x.size(2), stages) - x.size(2);
  const int64_t right = filled_side(x.size(3), stages) - x.size(3);
  if (below > 0 || right > 0) x = at::constant_pad_nd(x, {0, right, 0, below});
  for (size_t i = 0; i < parameters.size(); i += kPerStage) {
    // the largest is the largest with the bias too, and they are a fourth by then
    x = rounds ? with_bias(at::max_pool2d(rounded_convolution(x, parameters, i), {2, 2}),
                           parameters, i)
               : at::max_pool2d(same_convolution(x, parameters, i), {2, 2});
    x = tower_norm_silu(x, parameters[i + 2]);
  }
  return x.permute({0, 2, 3, 1}).flatten(1);
}

at::Tensor image_decoder_reference(const at::Tensor& x, at::IntArrayRef sides,
                                   const Tensors& parameters, Precision products) {
  const bool rounds = rounds_in_aten(x, products);
  auto image = x.permute({0, 3, 1, 2});
  for (size_t i = 0; i < parameters.size(); i += kPerStage) {
    // rounded before they are doubled
    if (rounds) image = image.to(at::kBFloat16);
    image = at::upsample_nearest2d(image, {2 * image.size(2), 2 * image.size(3)});
    image = rounds ? with_bias(rounded_convolution(image, parameters, i), parameters, i)
                   : same_convolution(image, parameters, i);
    if (i + 2 < parameters.size()) image = tower_norm_silu(image, parameters[i + 2]);
  }
  if (image.size(2) > sides[0] || image.size(3) > sides[1])
    image = image.narrow(2, 0, sides[0]).narrow(3, 0, sides[1]);
  return image.permute({0, 2, 3, 1});
}

at::Tensor image_errors(const at::Tensor& logits, const at::Tensor& images, ImageError error) {
  const auto target = images.to(logits.dtype()) / 255;
  const auto errors = error == ImageError::squared ? (at::sigmoid(logits) - target).square()
                                                   : at::binary_cross_entropy_with_logits(
                                                         logits, target, /*weight=*/{},
                                                         /*pos_weight=*/{}, at::Reduction::None);
  return errors.flatten(1).sum(1);
}

at::Tensor image_decoder_loss_reference(const at::Tensor& x, const at::Tensor& images,
                                        const Tensors& parameters, Precision products,
                                        ImageError error) {
  return image_errors(image_decoder_reference(x, images.sizes().slice(1, 2), parameters, products),
                      images, error);
}

at::Tensor image_encoder(const at::Tensor& images, const Tensors& parameters, Precision products) {
  check_parameters("image_encoder", parameters, TowerKind::encoder);
  check_images("image_encoder", images, parameters, TowerKind::encoder);
  if (!images.is_cpu() || AtenOnly::on())
    return image_encoder_reference(images, parameters, products);
  const auto rows = images.contiguous();
  if (any_gradient(parameters))
    return EncodeImages::apply(rows, at::TensorList(parameters), products);
  if (!fills_panels(images.size(0), parameters[0].size(0)))
    return image_encoder_reference(images, parameters);
  const TowerParameters with(TowerKind::encoder, parameters);
  TowerMemory memory(with, rows, false);
  auto tokens = at::empty({rows.size(0), with.tower(rows).token()}, parameters[0].options());
  encode(with, rows, memory, tokens);
  return tokens;
}

at::Tensor image_decoder_loss(const at::Tensor& x, const at::Tensor& images,
                              const Tensors& parameters, Precision products, ImageError error) {
  check_parameters("image_decoder", parameters, TowerKind::decoder);
  check_images("image_decoder", images, parameters, TowerKind::decoder);
  const int64_t stages = stages_of(parameters);
  const std::vector<int64_t> small_image{
      images.size(0), filled_side(images.size(1), stages) >> stages,
      filled_side(images.size(2), stages) >> stages, parameters[0].size(1)};
  if (x.sizes() != at::IntArrayRef(small_image))
    throw Error("[image_decoder] x must be " + c10::str(at::IntArrayRef(small_image)) + ", got " +
                c10::str(x.sizes()));
  if (!images.is_cpu()) return image_decoder_loss_reference(x, images, parameters, products, error);
  const auto small = x.contiguous(), rows = images.contiguous();
  if (any_gradient(parameters) || any_gradient({x}))
    return DecodeImages::apply(small, rows, at::TensorList(parameters), products, error);
  const TowerParameters with(TowerKind::decoder, parameters);
  TowerMemory memory(with, rows, false);
  auto loss = at::empty({rows.size(0)}, x.options());
  decode(with, small, rows, memory, loss, error);
  return loss;
}

namespace {

struct TowerShape {
  int64_t N, height, width;
  std::vector<int64_t> channels;  ///< the image's first
};

// parameters of a tower over images, first weights as networks begin
Tensors tower_parameters(const TowerShape& s, TowerKind kind, at::Generator gen) {
  Tensors list;
  std::vector<int64_t> channels = s.channels;
  if (kind == TowerKind::decoder) std::reverse(channels.begin(), channels.end());
  for (size_t i = 0; i + 1 < channels.size(); ++i) {
    const int64_t in = channels[i], out = channels[i + 1];
    list.push_back(at::randn({out, in, 5, 5}, gen) / std::sqrt(double(25 * in)));
    list.push_back(at::randn({out}, gen) * 0.1);
    if (kind == TowerKind::decoder && i + 2 == channels.size()) break;
    list.push_back(1 + at::randn({out}, gen) * 0.1);
  }
  return list;
}

int64_t forward_products(const TowerShape& s, TowerKind kind, bool first) {
  int64_t products = 0;
  for (size_t i = first ? 0 : 1; i + 1 < s.channels.size(); ++i)
    // a decoder's places see 9 numbers a channel, an encoder's 25
    products += (s.height >> i) * (s.width >> i) * s.channels[i] * s.channels[i + 1] *
                (kind == TowerKind::encoder ? 25 : 9);
  return s.N * products;
}

// multiply-adds are two; back to the weights as many as forward, and to the inputs, where an
// encoder has no use for the image's
int64_t tower_flops(const TowerShape& s, TowerKind kind) {
  return 2 * (2 * forward_products(s, kind, true) +
              forward_products(s, kind, kind == TowerKind::decoder));
}

// sums on the way through a tower: windows, norms, and over places for the weights
int64_t tower_sums(const TowerShape& s) {
  int64_t sums = s.N * s.height * s.width;
  for (size_t i = 0; i + 1 < s.channels.size(); ++i)
    sums += 25 * (s.channels[i] + s.channels[i + 1]) + 4 * s.channels[i + 1];
  return sums;
}

std::string tower_name(const char* kind, const TowerShape& s) {
  std::string name = std::string(kind) + " N=" + std::to_string(s.N) + " " +
                     std::to_string(s.height) + "x" + std::to_string(s.width) + "x";
  for (size_t i = 0; i < s.channels.size(); ++i)
    name += (i ? "-" : "") + std::to_string(s.channels[i]);
  return name;
}

struct TowerInputs {
  at::Tensor images, x;
  Tensors parameters;
};

TowerInputs tower_inputs(const TowerShape& s, TowerKind kind, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.N * s.width + s.height));
  const int64_t halved = int64_t(s.channels.size()) - 1;
  TowerInputs in{
      .images = at::randint(0, 256, {s.N, s.height, s.width, s.channels[0]}, gen, at::kByte),
      .x = at::randn({s.N, filled_side(s.height, halved) >> halved,
                      filled_side(s.width, halved) >> halved, s.channels.back()},
                     gen),
      .parameters = tower_parameters(s, kind, gen)};
  in.images = in.images.to(device), in.x = in.x.to(device);
  for (auto& p : in.parameters) p = p.to(device);
  return in;
}

KernelCase encoder_case(const TowerShape& s, at::Device device) {
  const auto in = tower_inputs(s, TowerKind::encoder, device);
  return {
      .name = tower_name("encoder", s),
      .inputs = in.parameters,
      .reference = [images = in.images](
                       const Tensors& p) { return Tensors{image_encoder_reference(images, p)}; },
      .fused = [images = in.images](const Tensors& p) { return Tensors{image_encoder(images, p)}; },
      .tolerance = Tolerance::of_sums(tower_sums(s))};
}

KernelCase decoder_case(const TowerShape& s, at::Device device,
                        ImageError error = ImageError::squared) {
  const auto in = tower_inputs(s, TowerKind::decoder, device);
  Tensors inputs{in.x};
  inputs.insert(inputs.end(), in.parameters.begin(), in.parameters.end());
  const auto parameters = [](const Tensors& all) { return Tensors(all.begin() + 1, all.end()); };
  const char* name = error == ImageError::squared ? "decoder" : "decoder of cells";
  return {.name = tower_name(name, s),
          .inputs = inputs,
          .reference =
              [=, images = in.images](const Tensors& all) {
                return Tensors{image_decoder_loss_reference(all[0], images, parameters(all),
                                                            Precision::fp32, error)};
              },
          .fused =
              [=, images = in.images](const Tensors& all) {
                return Tensors{
                    image_decoder_loss(all[0], images, parameters(all), Precision::fp32, error)};
              },
          .tolerance = Tolerance::of_sums(tower_sums(s))};
}

// leaves of autograd with the same numbers
Tensors leaves_of(const Tensors& parameters) {
  Tensors leaves;
  for (const auto& p : parameters) leaves.push_back(p.clone().set_requires_grad(true));
  return leaves;
}

// shapes as they are trained, both ways for the bench; their outputs alone are compared
KernelCase encoder_bench(const TowerShape& s) {
  const auto in = tower_inputs(s, TowerKind::encoder, at::kCPU);
  const auto images = in.images;
  const auto leaves = leaves_of(in.parameters);
  auto d_tokens = at::randn_like(image_encoder_reference(images, in.parameters));
  auto parameters = std::make_shared<TowerParameters>(TowerKind::encoder, in.parameters);
  auto memory = std::make_shared<TowerMemory>(*parameters, images, true);
  auto grads = std::make_shared<TowerGradients>(*parameters);
  return {
      .name = tower_name("encoder there and back", s),
      .reference =
          [=](const Tensors&) { return Tensors{image_encoder_reference(images, in.parameters)}; },
      .fused = [=](const Tensors&) { return Tensors{image_encoder(images, in.parameters)}; },
      .tolerance = Tolerance::of_sums(tower_sums(s)),
      .bytes = images.numel(),
      .flops = tower_flops(s, TowerKind::encoder),
      .repeat_reference =
          [=] {
            at::AutoGradMode with_gradients(true);
            image_encoder_reference(images, leaves).backward(d_tokens);
          },
      .repeat_fused =
          [=, tokens = at::empty_like(d_tokens)]() mutable {
            encode(*parameters, images, *memory, tokens);
            encode_back(*parameters, images, *memory, d_tokens, *grads);
          }};
}

KernelCase decoder_bench(const TowerShape& s) {
  const auto in = tower_inputs(s, TowerKind::decoder, at::kCPU);
  const auto images = in.images, x = in.x;
  const auto leaves = leaves_of(in.parameters);
  const auto leaf = x.clone().set_requires_grad(true);
  auto parameters = std::make_shared<TowerParameters>(TowerKind::decoder, in.parameters);
  auto memory = std::make_shared<TowerMemory>(*parameters, images, true);
  auto grads = std::make_shared<TowerGradients>(*parameters);
  const auto d_loss = at::ones({s.N});
  return {.name = tower_name("decoder there and back", s),
          .reference =
              [=](const Tensors&) {
                return Tensors{image_decoder_loss_reference(x, images, in.parameters)};
              },
          .fused =
              [=](const Tensors&) { return Tensors{image_decoder_loss(x, images, in.parameters)}; },
          .tolerance = Tolerance::of_sums(tower_sums(s)),
          .bytes = images.numel(),
          .flops = tower_flops(s, TowerKind::decoder),
          .repeat_reference =
              [=] {
                at::AutoGradMode with_gradients(true);
                image_decoder_loss_reference(leaf, images, leaves).backward(d_loss);
              },
          .repeat_fused =
              [=, loss = at::empty({s.N}), dx = at::empty_like(x)]() mutable {
                decode(*parameters, x, images, *memory, loss, ImageError::squared);
                decode_back(*parameters, x, images, *memory, d_loss, dx, *grads);
              }};
}

std::vector<KernelCase> image_towers_cases(at::Device device) {
  std::vector<KernelCase> list;
  // one image and less than a panel, several panels, sides that differ, channels that fill no block
  for (const TowerShape& s : {TowerShape{1, 16, 16, {3, 8, 12, 16, 16}},
                              {3, 16, 32, {1, 4, 6}},
                              {18, 16, 16, {4, 5, 8, 7}},
                              // wider behind than in front, in one stage and in two
                              {2, 16, 16, {3, 64}},
                              {2, 16, 16, {3, 4, 100}},
                              // sides that do not halve, rows that fill no vector
                              {17, 10, 10, {4, 4, 6, 8, 8}},
                              {3, 10, 10, {7, 8, 12, 16, 16}},
                              {2, 9, 21, {3, 8, 5}},
                              {1, 1, 3, {1, 4, 6}}}) {
    list.push_back(encoder_case(s, device));
    list.push_back(decoder_case(s, device));
    list.push_back(decoder_case(s, device, ImageError::cross_entropy));
  }
  if (!device.is_cpu()) return list;
  for (const TowerShape& s :
       {TowerShape{16, 64, 64, {3, 8, 12, 16, 16}}, {16, 64, 64, {3, 32, 48, 64, 64}}}) {
    list.push_back(encoder_bench(s));
    list.push_back(decoder_bench(s));
  }
  return list;
}

}  // namespace

namespace kernels::image_towers {
KernelEntry entry() {
  return {"image_towers", "Dreamer's image encoder and decoder with its squared error, both ways",
          image_towers_cases};
}
}  // namespace kernels::image_towers

}  // namespace maglev
