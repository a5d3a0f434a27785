#include "kernels/dense/dense_op.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/dense/dense_bf16.h"

namespace maglev {
namespace {

// of [N, rows, G, features]
DenseSteps dense_steps(const at::Tensor& t) {
  return {.env = t.stride(0), .row = t.stride(1), .net = t.stride(2)};
}

// a layer over any number of rows, panel by panel as the engine drives it; memory made once
class PanelLayer {
 public:
  // inputs: the segments side by side [rows, in]; parameters: weight, bias, gain, shift
  PanelLayer(const Tensors& parameters, std::vector<int64_t> segments, DenseEnd end)
      : parameters_(parameters), end_(end), out_(parameters[0].size(0)) {
    const int64_t in = parameters[0].size(1);
    packed_ = aligned(packed_dense_size(out_, in));
    pack_dense({.weight = parameters[0].data_ptr<float>(),
                .out = out_,
                .in = in,
                .out_step = in,
                .in_step = 1,
                .packed = packed_.data_ptr<float>()});
    x_ = aligned(in * kPanelRows), y_ = aligned(out_ * kPanelRows);
    xhat_ = aligned(out_ * kPanelRows), rstd_ = aligned(kPanelRows);
    // segments lie behind one another, in the panel as in the weight
    int64_t first = 0;
    for (int64_t features : segments) {
      segments_.push_back({x_.data_ptr<float>() + first * kPanelRows, first, features});
      first += features;
    }
  }

  /// y, xhat [rows, out] and rstd [rows].
  Tensors forward(const at::Tensor& x) {
    const int64_t rows = x.size(0);
    Tensors out{at::empty({rows, out_}), at::empty({rows, out_}), at::empty({rows, 1})};
    for (int64_t first = 0; first < rows; first += kPanelRows) {
      const int64_t count = std::min(kPanelRows, rows - first);
      load(x.narrow(0, first, count));
      run(count, true);
      const Tensors panels{y_, xhat_, rstd_};
      for (size_t i = 0; i < out.size(); ++i)
        panel_to_rows(panels[i].data_ptr<float>(), count, out[i].size(1),
                      out[i].data_ptr<float>() + first * out[i].size(1));
    }
    // without an end there are no moments to keep
    if (end_ == DenseEnd::none) out.resize(1);
    return out;
  }

  /// The panel that was loaded last.
  void run(int64_t rows, bool keep) {
    dense_cpu({.weight = packed_.data_ptr<float>(),
               .in = parameters_[0].size(1),
               .out = out_,
               .start = parameters_[1].data_ptr<float>(),
               .segments = segments_,
               .end = end_,
               .gain = parameters_[2].data_ptr<float>(),
               .shift = parameters_[3].data_ptr<float>(),
               .y = y_.data_ptr<float>(),
               .xhat = keep ? xhat_.data_ptr<float>() : nullptr,
               .rstd = keep ? rstd_.data_ptr<float>() : nullptr,
               .stride = kPanelRows,
               .rows = rows});
  }

 private:
  // ATen aligns to 64 bytes
  static at::Tensor aligned(int64_t count) { return at::zeros({count}); }
  void load(const at::Tensor& x) {
    auto rows = x.contiguous();
    rows_to_panel(rows.data_ptr<float>(), rows.size(0), rows.size(1), x_.data_ptr<float>());
  }

  Tensors parameters_;
  DenseEnd end_;
  int64_t out_;
  at::Tensor packed_, x_, y_, xhat_, rstd_;
  std::vector<DenseSegment> segments_;
};

Tensors layer_reference(const Tensors& in, DenseEnd end) {
  auto z = at::linear(in[0], in[1], in[2]);
  if (end == DenseEnd::none) return {z};
  // moments are outputs too: the way back reads them
  auto variance = z.var(-1, /*unbiased=*/false, /*keepdim=*/true);
  auto rstd = at::rsqrt(variance + double(kLayerNormEps));
  return {dense_end_reference(z, in[3], in[4], end), (z - z.mean(-1, true)) * rstd, rstd};
}

const char* name_of(DenseEnd end) {
  return end == DenseEnd::none ? "none" : end == DenseEnd::mish ? "mish" : "simnorm";
}

void add_layer_cases(std::vector<KernelCase>& list) {
  struct Shape {
    int64_t rows, out;
    std::vector<int64_t> segments;
    DenseEnd end;
  };
  for (const Shape& s : {Shape{64, 512, {512}, DenseEnd::mish},
                         {64, 512, {512, 4}, DenseEnd::simnorm},
                         {64, 101, {512}, DenseEnd::none},
                         {24, 512, {512, 4, 96}, DenseEnd::mish},
                         {16, 8, {512}, DenseEnd::none},
                         {48, 512, {512}, DenseEnd::mish},
                         {131, 40, {7, 5}, DenseEnd::mish},
                         {1, 16, {3}, DenseEnd::simnorm}}) {
    int64_t in = 0;
    for (int64_t features : s.segments) in += features;
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.rows * 1000 + in));
    const Tensors inputs{at::randn({s.rows, in}, gen),
                         at::randn({s.out, in}, gen) / std::sqrt(double(in)),
                         at::randn({s.out}, gen) * 0.1, 1 + at::randn({s.out}, gen) * 0.1,
                         at::randn({s.out}, gen) * 0.1};
    const Tensors parameters(inputs.begin() + 1, inputs.end());
    auto layer = std::make_shared<PanelLayer>(parameters, s.segments, s.end);
    // leaves the last panel loaded, which the bench repeats
    layer->forward(inputs[0]);
    const auto end = s.end;
    const int64_t last = (s.rows - 1) % kPanelRows + 1;
    list.push_back({.name = std::string("layer ") + name_of(end) + " " + std::to_string(in) + "-" +
                            std::to_string(s.out) + " rows=" + std::to_string(s.rows),
                    .reference = [=](const Tensors&) { return layer_reference(inputs, end); },
                    .fused = [=](const Tensors&) { return layer->forward(inputs[0]); },
                    // over inputs, then two moments over outputs
                    .tolerance = Tolerance::of_sums(in + 2 * s.out),
                    .bytes = 4 * (in * s.out + last * (in + s.out)),
                    .flops = 2 * in * s.out * last,
                    .repeat_reference =
                        [=] {
                          auto part = inputs;
                          part[0] = inputs[0].narrow(0, 0, last);
                          layer_reference(part, end);
                        },
                    .repeat_fused = [=] { layer->run(last, false); }});
  }
}

// a layer of bfloat16 pairs on one panel; the odd last input of the first segment has no pair
class PairLayer {
 public:
  PairLayer(const Tensors& inputs, int64_t first, DenseEnd end)
      : inputs_(inputs), rows_(inputs[0].size(0)), out_(inputs[1].size(0)), end_(end) {
    // every segment begins a block
    const int64_t in = inputs[0].size(1), own = whole_pair_blocks((first + 1) / 2);
    const int64_t pairs = own + (in - first + 1) / 2;
    auto words = [](int64_t count) { return at::zeros({count}, at::kInt); };
    packed_ = words(pair_blocks_size(out_, pairs)), x_ = words(pairs * kPanelRows);
    y_ = words(out_ * kPanelRows), sums_ = at::zeros({out_, kPanelRows});
    // each segment from the pair it begins at
    for (auto [begin, count, pair] :
         {std::array{int64_t(0), first, int64_t(0)}, std::array{first, in - first, own}}) {
      if (count == 0) continue;
      pack_dense_bf16({.weight = inputs[1].data_ptr<float>() + begin,
                       .out = out_,
                       .in = count,
                       .out_step = in,
                       .in_step = 1,
                       .pairs = pairs,
                       .first = pair,
                       .packed = bits(packed_)});
      auto panel = at::zeros({count, kPanelRows});
      panel.narrow(1, 0, rows_).copy_(inputs[0].narrow(1, begin, count).t());
      uint32_t* x = bits(x_) + pair * kPanelRows;
      panel_to_pairs(panel.data_ptr<float>(), count, kPanelRows, rows_, x);
      segments_.push_back({x, pair, (count + 1) / 2});
    }
    pairs_ = pairs;
  }

  void run() {
    dense_bf16_cpu({.weight = bits(packed_),
                    .pairs = pairs_,
                    .out = out_,
                    .start = inputs_[2].data_ptr<float>(),
                    .segments = segments_,
                    .end = end_,
                    .gain = inputs_[3].data_ptr<float>(),
                    .shift = inputs_[4].data_ptr<float>(),
                    .sums = sums_.data_ptr<float>(),
                    .y = bits(y_),
                    .stride = kPanelRows,
                    .rows = rows_});
  }
  /// [rows, out] f32.
  at::Tensor result() const {
    if (end_ == DenseEnd::none) return sums_.narrow(1, 0, rows_).t().contiguous();
    // a word's halves are two features
    auto halves = y_.view(at::kBFloat16).view({out_, kPanelRows, 2}).narrow(0, 0, out_ / 2);
    return halves.narrow(1, 0, rows_).permute({1, 0, 2}).reshape({rows_, out_}).to(at::kFloat);
  }

 private:
  static uint32_t* bits(const at::Tensor& words) {
    return reinterpret_cast<uint32_t*>(words.data_ptr<int32_t>());
  }

  Tensors inputs_;
  int64_t rows_, out_, pairs_ = 0;
  DenseEnd end_;
  at::Tensor packed_, x_, y_, sums_;
  std::vector<DenseSegmentBf16> segments_;
};

void add_pair_cases(std::vector<KernelCase>& list) {
  struct Shape {
    int64_t rows, out, first, second;
    DenseEnd end;
  };
  for (const Shape& s : {Shape{64, 512, 512, 0, DenseEnd::mish},
                         {64, 512, 512, 5, DenseEnd::simnorm},
                         {64, 101, 512, 0, DenseEnd::none},
                         {24, 40, 7, 3, DenseEnd::mish},
                         {48, 16, 30, 1, DenseEnd::none}}) {
    const int64_t in = s.first + s.second;
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.rows * 1000 + in));
    const Tensors inputs{at::randn({s.rows, in}, gen),
                         at::randn({s.out, in}, gen) / std::sqrt(double(in)),
                         at::randn({s.out}, gen) * 0.1, 1 + at::randn({s.out}, gen) * 0.1,
                         at::randn({s.out}, gen) * 0.1};
    auto layer = std::make_shared<PairLayer>(inputs, s.first, s.end);
    const auto reference = [inputs, end = s.end](const Tensors&) {
      // what is multiplied is rounded, sums are not
      auto rounded = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
      auto z = at::linear(rounded(inputs[0]), rounded(inputs[1]), inputs[2]);
      auto y = dense_end_reference(z, inputs[3], inputs[4], end);
      return Tensors{end == DenseEnd::none ? y : rounded(y)};
    };
    list.push_back({.name = std::string("bf16 layer ") + name_of(s.end) + " " + std::to_string(in) +
                            "-" + std::to_string(s.out) + " rows=" + std::to_string(s.rows),
                    .reference = reference,
                    .fused =
                        [layer](const Tensors&) {
                          layer->run();
                          return Tensors{layer->result()};
                        },
                    // a number beside the middle between two bfloat16 may round the other way
                    .tolerance = s.end == DenseEnd::none ? Tolerance::of_sums(in) : 4 * kRoundBf16,
                    .bytes = 2 * (in * s.out + s.rows * (in + s.out)),
                    .flops = 2 * in * s.out * s.rows,
                    .repeat_fused = [layer] { layer->run(); }});
  }
}

// x [N, rows, G, features] to rows that lie apart, network by network
void add_end_cases(std::vector<KernelCase>& list, at::Device device) {
  struct Shape {
    int64_t N, rows, G, features;
  };
  // more than a grid is deep
  constexpr Shape kManyEnvs{65537, 1, 1, 8};
  for (auto type : {at::kFloat, at::kBFloat16})
    for (auto end : {DenseEnd::mish, DenseEnd::simnorm})
      for (const auto& [N, rows, G, features] :
           {Shape{1, 3, 1, 24}, {2, 50, 3, 384}, {1, 512, 1, 512}, {5, 14, 2, 1376}, kManyEnvs}) {
        // once: an emulated device takes seconds for them
        if (N == kManyEnvs.N && (type != at::kFloat || end != DenseEnd::mish)) continue;
        auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(N * rows + features));
        auto x = (at::randn({N, rows, G, features}, gen) * 3 + 1).to(device, type);
        // rows longer than their features, network after network, as planners have them
        auto y = at::empty({N, G, rows, features + 8}, x.options())
                     .narrow(3, 0, features)
                     .transpose(1, 2);
        auto start = at::randn({N, G, features}, gen).to(device);
        auto gain = (1 + at::randn({1, G, features}, gen) * 0.5).to(device);
        auto shift = at::randn({1, G, features}, gen).to(device);
        const DenseEndTensors in{.x = x, .start = start, .gain = gain, .shift = shift, .end = end};
        auto fused = [=] { dense_end_(y, in); };
        list.push_back(
            {.name = std::string("end ") + name_of(end) + (type == at::kFloat ? "" : " bf16") +
                     " N=" + std::to_string(N) + " rows=" + std::to_string(rows) +
                     " G=" + std::to_string(G) + " features=" + std::to_string(features),
             .reference = [=](const Tensors&) { return Tensors{dense_end_reference(in).to(type)}; },
             .fused =
                 [=](const Tensors&) {
                   fused();
                   return Tensors{y.contiguous()};
                 },
             .tolerance = type == at::kFloat ? Tolerance::of_sums(2 * features) : 4 * kRoundBf16,
             .bytes = 2 * x.numel() * int64_t(x.element_size()),
             .flops = x.numel() * 20,
             .repeat_fused = fused});
      }
}

// dropout before the norm; what was rounded, also unrounded
void add_dropout_cases(std::vector<KernelCase>& list, at::Device device) {
  constexpr double kShare = 0.25;
  for (auto type : {at::kFloat, at::kBFloat16}) {
    const int64_t rows = 21, G = 2, features = 72;
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(features));
    const auto random = [&](const at::Tensor& t) { return t.to(device); };
    const DenseEndTensors in{.x = random(at::randn({1, rows, G, features}, gen)).to(type),
                             .start = random(at::randn({1, G, features}, gen)),
                             .gain = random(1 + at::randn({1, G, features}, gen) * 0.5),
                             .shift = random(at::randn({1, G, features}, gen)),
                             .end = DenseEnd::mish,
                             .uniform = random(at::rand({1, G, rows, features}, gen)),
                             .share = kShare};
    auto y = at::empty_like(in.x);
    auto exact = at::empty_like(in.uniform);
    auto fused = [=] { dense_end_(y, in, exact); };
    list.push_back(
        {.name = std::string("end dropout") + (type == at::kFloat ? "" : " bf16"),
         .reference =
             [=](const Tensors&) {
               const auto keep = (in.uniform >= kShare).to(at::kFloat) / (1 - kShare);
               auto all = (in.x.to(at::kFloat) + in.start).transpose(1, 2) * keep;
               auto out = at::empty_like(in.uniform);
               for (int64_t g = 0; g < G; ++g)
                 out.select(1, g).copy_(
                     dense_end_reference(all.select(1, g), in.gain[0][g], in.shift[0][g], in.end));
               return Tensors{out.transpose(1, 2).to(type).to(at::kFloat), out};
             },
         .fused =
             [=](const Tensors&) {
               fused();
               return Tensors{y.to(at::kFloat), exact};
             },
         .tolerance = type == at::kFloat ? Tolerance::of_sums(2 * features) : 4 * kRoundBf16,
         .bytes = 3 * in.x.numel() * int64_t(in.x.element_size()),
         .flops = in.x.numel() * 22,
         .repeat_fused = fused});
  }
}

std::vector<KernelCase> dense_cases(at::Device device) {
  std::vector<KernelCase> list;
  if (device.is_cpu()) add_layer_cases(list);
  if (device.is_cpu() && pair_products_available()) add_pair_cases(list);
  add_end_cases(list, device);
  add_dropout_cases(list, device);
  return list;
}

}  // namespace

DenseEndRows dense_end_rows(const DenseEndTensors& in) {
  const auto& [x, start, gain, shift, end, uniform, share] = in;
  const int64_t N = x.size(0), rows = x.size(1), G = x.size(2), features = x.size(3);
  MAGLEV_ASSERT(end != DenseEnd::none && x.stride(3) == 1,
                "an end of rows whose features are contiguous");
  // one for all environments, or one each
  auto fits = [&](const at::Tensor& p) {
    return p.dim() == 3 && (p.size(0) == N || p.size(0) == 1) && p.size(1) == G &&
           p.size(2) == features && p.stride(2) == 1 && p.scalar_type() == at::kFloat;
  };
  if (features % kSimNormGroup || !fits(gain) || !fits(shift) ||
      gain.strides() != shift.strides() || (start.defined() && !fits(start)))
    throw Error(
        "[dense] start, gain and shift must be [N or 1, nets, features], features a "
        "multiple of " +
        std::to_string(kSimNormGroup) + ", got x with " + std::to_string(features) +
        ", gain with " + std::to_string(gain.size(-1)) + ", shift with " +
        std::to_string(shift.size(-1)));
  const bool bf16 = x.scalar_type() == at::kBFloat16;
  if (!bf16 && x.scalar_type() != at::kFloat)
    throw Error(std::string("[dense] x must be f32 or bf16, got ") + x.toString());
  MAGLEV_ASSERT(
      !uniform.defined() || (uniform.numel() == x.numel() && uniform.scalar_type() == at::kFloat &&
                             uniform.is_contiguous()),
      "a number of f32 for each of x");
  // what all environments share has a step of 0
  auto shared = [](const at::Tensor& t) {
    return DenseSteps{.env = t.size(0) == 1 ? 0 : t.stride(0), .net = t.stride(1)};
  };
  return {.end = end,
          .x = x.const_data_ptr(),
          .bf16 = bf16,
          .envs = N,
          .rows = rows,
          .nets = G,
          .features = features,
          .from = dense_steps(x),
          .start = start.defined() ? start.const_data_ptr<float>() : nullptr,
          .start_steps = start.defined() ? shared(start) : DenseSteps{},
          .gain = gain.const_data_ptr<float>(),
          .shift = shift.const_data_ptr<float>(),
          .gain_steps = shared(gain),
          .uniform = uniform.defined() ? uniform.const_data_ptr<float>() : nullptr,
          .share = float(share)};
}

void dense_end_(const at::Tensor& y, const DenseEndTensors& in, const at::Tensor& exact) {
  const at::Device device =
      device_of("dense", in.x, y, in.start, in.gain, in.shift, in.uniform, exact);
  MAGLEV_ASSERT(y.stride(3) == 1 && in.x.sizes() == y.sizes() &&
                    in.x.scalar_type() == y.scalar_type() &&
                    (!exact.defined() || exact.numel() == y.numel()),
                "y like x, its features contiguous");
  MAGLEV_ASSERT(device.is_cpu() || (rows_at_16_bytes(in.x) && rows_at_16_bytes(y) &&
                                    (!exact.defined() || rows_at_16_bytes(exact))),
                "rows that begin at 16 bytes");
  DenseEndRows args = dense_end_rows(in);
  args.y = y.data_ptr(), args.to = dense_steps(y);
  args.exact = exact.defined() ? exact.data_ptr<float>() : nullptr;
  launch<dense_end_cuda>("dense_end", device, dense_end_cpu, args);
}

void dense_end_(const at::Tensor& y, const at::Tensor& x, const at::Tensor& start,
                const at::Tensor& gain, const at::Tensor& shift, DenseEnd end) {
  dense_end_(y, {.x = x, .start = start, .gain = gain, .shift = shift, .end = end});
}

at::Tensor dense_end_reference(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& shift,
                               DenseEnd end) {
  if (end == DenseEnd::none) return x;
  auto y = at::layer_norm(x, {x.size(-1)}, gain, shift, double(kLayerNormEps));
  if (end == DenseEnd::mish) return at::mish(y);
  return at::softmax(y.unflatten(-1, {-1, kSimNormGroup}), -1).flatten(-2);
}

at::Tensor dense_end_reference(const DenseEndTensors& in) {
  const auto all = in.x.to(at::kFloat) + in.start.unsqueeze(1);
  auto out = at::empty_like(all);
  // network by network: each has a gain and a shift of its own
  for (int64_t g = 0; g < all.size(2); ++g)
    out.select(2, g).copy_(
        dense_end_reference(all.select(2, g), in.gain[0][g], in.shift[0][g], in.end));
  return out;
}

namespace kernels::dense {
KernelEntry entry() {
  return {"dense", "one wide layer on a panel with LayerNorm and Mish or SimNorm; the ends on rows",
          dense_cases};
}
}  // namespace kernels::dense

}  // namespace maglev
