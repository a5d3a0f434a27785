#include "kernels/laprop/laprop_op.h"

#include <algorithm>
#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"

namespace maglev {
namespace {

// a state that has run a while; one tensor is 0, as some are at first
struct LaPropInputs {
  LaPropTensors tensors;
  at::Tensor lanes, lr, skip;
};

LaPropInputs laprop_inputs(const std::vector<int64_t>& sizes, int64_t lanes, at::Device device) {
  std::vector<std::pair<int64_t, int64_t>> spans;
  int64_t P = 0;
  for (int64_t size : sizes) spans.push_back({P, size}), P += size;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(P + lanes));
  auto data = at::randn({P}, gen);
  data.narrow(0, spans.back().first, spans.back().second).zero_();
  LaPropInputs in{.tensors = make_laprop_tensors(data.to(device), spans)};
  in.tensors.momentum.copy_(at::randn({P}, gen) * 0.1);
  in.tensors.squares.copy_(at::rand({P}, gen) * 0.1);
  in.tensors.steps.fill_(5);
  in.lanes = at::randn({lanes, P}, gen).to(device);
  in.lr = at::full({}, 1e-2f, data.options().device(device)), in.skip = at::zeros_like(in.lr);
  return in;
}

Tensors laprop_stepped(const LaPropInputs& in, const LaPropNumbers& n, bool fused) {
  // every run begins at the same state
  LaPropTensors t = in.tensors;
  for (auto* one : {&t.data, &t.momentum, &t.squares, &t.steps, &t.nonfinite, &t.step})
    *one = one->clone();
  auto lanes = in.lanes.clone();
  if (fused) {
    ThreadPool pool(1);
    LaPropArgs args = laprop_args(t, n);
    laprop_reduce(args, lanes, {}, pool);
    laprop_clip(args, in.skip);
    laprop_step(args, in.lr, pool);
  } else {
    for (int64_t l = 1; l < lanes.size(0); ++l) lanes[0].add_(lanes[l]);
    laprop_clip_reference(t, n, lanes[0], in.skip);
    laprop_step_reference(t, n, lanes[0], in.lr);
  }
  return {t.data, t.momentum, t.squares, t.steps, t.step.narrow(0, 0, 2), lanes[0]};
}

std::vector<KernelCase> laprop_cases(at::Device device) {
  std::vector<KernelCase> list;
  constexpr int64_t kOfAStep = 30;  // roundings of an element
  const LaPropNumbers numbers{
      .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-20, .clip = 0.3, .least = 1e-3};
  LaPropNumbers free = numbers;
  free.clip = 0;
  for (const auto& [sizes, lanes] : {std::pair<std::vector<int64_t>, int64_t>{{1, 1}, 1},
                                     {{17, 300, 5}, 3},
                                     {{70001, 64, 20000, 12}, 4}})
    for (bool clips : {true, false}) {
      const LaPropInputs in = laprop_inputs(sizes, lanes, device);
      const LaPropNumbers n = clips ? numbers : free;
      const int64_t P = in.tensors.data.numel();
      list.push_back({.name = std::string(clips ? "clipped" : "free") + " P=" + std::to_string(P) +
                              " L=" + std::to_string(lanes),
                      .reference = [=](const Tensors&) { return laprop_stepped(in, n, false); },
                      .fused = [=](const Tensors&) { return laprop_stepped(in, n, true); },
                      // norms of f32 in whatever order a library adds
                      .tolerance = Tolerance::of_sums(
                          *std::max_element(sizes.begin(), sizes.end()) + kOfAStep),
                      .bytes = P * 4 * (lanes + 9),
                      .flops = P * (lanes + 20)});
    }
  return list;
}

}  // namespace

LaPropTensors make_laprop_tensors(const at::Tensor& data,
                                  const std::vector<std::pair<int64_t, int64_t>>& spans) {
  const int64_t most = data.device().is_cuda() ? kLaPropDeviceChunk : kLaPropChunk;
  std::vector<int64_t> chunks;
  for (size_t i = 0; i < spans.size(); ++i)
    for (int64_t done = 0; done < spans[i].second; done += most)
      for (int64_t x : {spans[i].first + done, std::min(most, spans[i].second - done), int64_t(i)})
        chunks.push_back(x);
  const auto f32 = data.options();
  const auto on_host = at::tensor(chunks).view({-1, 3});
  return {.data = data,
          .momentum = at::zeros_like(data),
          .squares = at::zeros_like(data),
          .steps = at::zeros({}, f32),
          .nonfinite = at::zeros({}, f32),
          .spans = spans,
          .chunks = on_host.to(data.device()),
          .partial = at::zeros({on_host.size(0), 2}, f32.dtype(at::kDouble)),
          .factor = at::zeros({int64_t(spans.size())}, f32),
          .step = at::zeros({4}, f32)};
}

LaPropArgs laprop_args(const LaPropTensors& t, const LaPropNumbers& n) {
  device_of("laprop", t.data, t.momentum, t.squares, t.steps, t.nonfinite, t.chunks, t.partial,
            t.factor, t.step);
  // what a stage reads besides, it adds itself
  return {.grad = nullptr,
          .lanes = 0,
          .lane_stride = 0,
          .unscale = nullptr,
          .chunks = reinterpret_cast<const LaPropChunk*>(t.chunks.const_data_ptr<int64_t>()),
          .chunk_count = t.chunks.size(0),
          .tensors = t.factor.size(0),
          .data = t.data.data_ptr<float>(),
          .momentum = t.momentum.data_ptr<float>(),
          .squares = t.squares.data_ptr<float>(),
          .lr = nullptr,
          .skip = nullptr,
          .steps = t.steps.data_ptr<float>(),
          .nonfinite = t.nonfinite.data_ptr<float>(),
          .beta1 = n.beta1,
          .beta2 = n.beta2,
          .eps = n.eps,
          .clip = n.clip,
          .least = n.least,
          .partial = t.partial.data_ptr<double>(),
          .factor = t.factor.data_ptr<float>(),
          .step = reinterpret_cast<LaPropStep*>(t.step.data_ptr<float>())};
}

void laprop_reduce(LaPropArgs& args, const at::Tensor& lanes, const at::Tensor& unscale,
                   ThreadPool& pool) {
  const at::Device device = device_of("laprop", lanes, unscale);
  MAGLEV_ASSERT(lanes.dim() == 2 && lanes.stride(1) == 1 && lanes.scalar_type() == at::kFloat,
                "lanes [lanes, P] f32");
  // the later stages read these too
  args.grad = lanes.data_ptr<float>();
  args.lanes = lanes.size(0), args.lane_stride = lanes.stride(0);
  args.unscale = unscale.defined() ? unscale.const_data_ptr<float>() : nullptr;
  const auto chunks = [&pool](const LaPropArgs& a) {
    pool.run(a.chunk_count, [&](int64_t c) { laprop_reduce_cpu(a, c); });
  };
  launch<laprop_reduce_cuda>("laprop_reduce", device, chunks, args);
}

void laprop_clip(LaPropArgs& args, const at::Tensor& skip) {
  args.skip = skip.const_data_ptr<float>();
  launch<laprop_clip_cuda>("laprop_clip", device_of("laprop", skip), laprop_clip_cpu, args);
}

void laprop_step(LaPropArgs& args, const at::Tensor& lr, ThreadPool& pool) {
  args.lr = lr.const_data_ptr<float>();
  const auto chunks = [&pool](const LaPropArgs& a) {
    pool.run(a.chunk_count, [&](int64_t c) { laprop_step_cpu(a, c); });
  };
  launch<laprop_step_cuda>("laprop_step", device_of("laprop", lr), chunks, args);
}

void laprop_clip_reference(LaPropTensors& t, const LaPropNumbers& n, const at::Tensor& sum,
                           const at::Tensor& skip) {
  const auto norm = at::linalg_vector_norm(sum), finite = at::isfinite(norm);
  const auto apply = finite.logical_and(skip == 0);
  t.nonfinite.add_(finite.logical_not());
  t.steps.add_(apply);
  t.step.select(0, 0).copy_(norm), t.step.select(0, 1).copy_(apply);
  if (n.clip == 0) return;
  for (const auto& [begin, count] : t.spans) {
    auto grad = sum.narrow(0, begin, count);
    const auto size = at::linalg_vector_norm(t.data.narrow(0, begin, count));
    const auto most = n.clip * size.clamp_min(n.least);
    grad.div_((at::linalg_vector_norm(grad) / most).clamp_min(1));
  }
}

void laprop_step_reference(LaPropTensors& t, const LaPropNumbers& n, const at::Tensor& sum,
                           const at::Tensor& lr) {
  const auto unbiased = [&](double beta) { return 1 - at::pow(beta, t.steps); };
  // the gradient over its running size, then the running mean of that
  const auto squares = at::lerp(t.squares, sum.square(), 1 - n.beta2);
  const auto size = (squares / unbiased(n.beta2)).sqrt_().add_(n.eps);
  const auto momentum = at::lerp(t.momentum, sum / size, 1 - n.beta1);
  const auto stepped = t.data - lr * momentum / unbiased(n.beta1);
  // a step that is left out changes nothing
  const auto apply = t.step.select(0, 1) != 0;
  for (const auto& [state, next] :
       {std::pair{&t.squares, &squares}, std::pair{&t.momentum, &momentum},
        std::pair{&t.data, &stepped}})
    state->copy_(at::where(apply, *next, *state));
}

namespace kernels::laprop {
KernelEntry entry() {
  return {"laprop", "gradient lanes summed, clipped tensor by tensor and one step of LaProp",
          laprop_cases};
}
}  // namespace kernels::laprop

}  // namespace maglev
