#include "engine/nn/panel_network.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/simd/pairs.h"
#include "engine/device/tolerance.h"
#include "engine/nn/flat_params.h"
#include "engine/nn/network.h"
#include "tests/close.h"

namespace maglev {
namespace {

EnvSpec spec_of(bool privileged) {
  EnvSpec spec;
  spec.observations = {{.name = "vector", .shape = {5}},
                       {.name = "codes", .dtype = DType::i32, .shape = {2}}};
  if (privileged)
    spec.observations.push_back({.name = "truth", .shape = {3}, .audience = Audience::critic});
  spec.action.heads = {3, 2};
  return spec;
}

struct Built {
  EnvSpec spec;
  std::shared_ptr<ActorCritic> network;
  std::unique_ptr<FlatParams> flat;
  std::vector<at::Tensor> obs;
};

Built build(const NetworkOptions& options, bool privileged, int64_t rows) {
  Built b{spec_of(privileged), nullptr, nullptr, {}};
  b.network = make_network(options, {.spec = b.spec}, Initializer(7));
  b.flat = std::make_unique<FlatParams>(*b.network);
  auto gen = at::make_generator<at::CPUGeneratorImpl>(5);
  b.flat->data().add_(at::randn({b.flat->size()}, gen) * 0.05);
  b.obs.push_back(at::randn({rows, 5}, gen) * 2 + 1);
  b.obs.push_back(at::randint(0, 4, {rows, 2}, gen).to(at::kInt));
  if (privileged) b.obs.push_back(at::randn({rows, 3}, gen));
  b.network->absorb(b.obs, /*is_first=*/{}, rows, /*group=*/nullptr);
  return b;
}

ObsRows rows_of(const std::vector<at::Tensor>& obs) {
  ObsRows rows;
  for (size_t i = 0; i < obs.size(); ++i)
    rows.column[i] = static_cast<const std::byte*>(obs[i].data_ptr());
  return rows;
}

// [rows, features] -> panel, and back
void to_panel(const at::Tensor& t, float* panel, int64_t stride) {
  for (int64_t f = 0; f < t.size(1); ++f)
    for (int64_t r = 0; r < stride; ++r)
      panel[f * stride + r] = r < t.size(0) ? t[r][f].item<float>() : 0.f;
}

at::Tensor from_panel(const float* panel, int64_t features, int64_t stride, int64_t rows) {
  return at::from_blob(const_cast<float*>(panel), {features, stride})
      .narrow(1, 0, rows)
      .t()
      .clone();
}

void expect_same(const NetworkOptions& options, bool privileged) {
  const int64_t rows = 41;
  Built b = build(options, privileged, 100);
  auto index = at::randperm(100, at::kLong).narrow(0, 0, rows).contiguous();
  std::vector<at::Tensor> chosen;
  for (const auto& o : b.obs) chosen.push_back(o.index_select(0, index));
  ASSERT_EQ(PanelNetwork::obstacle(*b.network, b.spec), "");
  const PanelNetwork panels(*b.network, b.spec, b.flat->data());
  PanelNetwork::Panel panel(panels);
  panels.load(panel, rows_of(b.obs), index.data_ptr<int64_t>(), 0, rows);
  panels.forward(panel, true, true);

  auto out = b.network->forward(chosen, {.policy = true, .value = true});
  auto logits = from_panel(panel.logits(), 5, panel.stride(), rows);
  auto value = from_panel(panel.value(), 1, panel.stride(), rows).squeeze(1);
  EXPECT_TRUE(close(logits, out.logits.detach(), 1e-5));
  EXPECT_TRUE(close(value, out.value.detach(), 1e-5));

  auto d_logits = at::randn({rows, 5}), d_value = at::randn({rows, 1});
  (out.logits * d_logits).sum().add((out.value * d_value.squeeze(1)).sum()).backward();
  to_panel(d_logits, panel.d_logits(), panel.stride());
  to_panel(d_value, panel.d_value(), panel.stride());
  auto grad = at::zeros({b.flat->size()});
  panels.backward(panel, panels.gradients(grad.data_ptr<float>()));
  int64_t offset = 0;
  for (const auto& p : b.network->named_parameters()) {
    auto expected =
        p.value().grad().defined() ? p.value().grad().reshape(-1) : at::zeros({p.value().numel()});
    EXPECT_TRUE(close(grad.narrow(0, offset, p.value().numel()), expected, 1e-4)) << p.key();
    offset += p.value().numel();
  }
}

TEST(PanelNetwork, gives_what_the_module_gives_and_its_gradients) {
  for (HiddenActivation activation :
       {HiddenActivation::tanh, HiddenActivation::relu, HiddenActivation::silu})
    for (bool shared : {false, true})
      for (bool privileged : {false, true}) {
        SCOPED_TRACE(std::string(name_of(activation)) + (shared ? " shared" : "") +
                     (privileged ? " privileged" : ""));
        NetworkOptions options;
        options.hidden = {24, 17};
        options.activation = activation;
        options.shared = shared;
        options.critic_hidden = privileged ? std::vector<int64_t>{9} : std::vector<int64_t>{};
        options.normalize_obs = privileged;
        expect_same(options, privileged);
      }
}

TEST(PanelNetwork, a_row_gives_the_same_bits_in_any_panel) {
  Built b = build({}, false, 64);
  const PanelNetwork panels(*b.network, b.spec, b.flat->data());
  PanelNetwork::Panel full(panels), part(panels);
  panels.load(full, rows_of(b.obs), nullptr, 0, 64);
  panels.forward(full, true, true);
  for (int64_t first : {0, 5, 50}) {
    panels.load(part, rows_of(b.obs), nullptr, first, 8);
    panels.forward(part, true, false);
    for (int64_t f = 0; f < 5; ++f)
      for (int64_t r = 0; r < 8; ++r)
        ASSERT_EQ(part.logits()[f * part.stride() + r],
                  full.logits()[f * full.stride() + first + r]);
  }
}

TEST(PanelNetwork, in_pairs_of_bfloat16_a_row_gives_the_same_bits_in_any_panel) {
  if (!pair_products_available()) GTEST_SKIP() << "this processor has no products of pairs";
  NetworkOptions options;
  options.hidden = {40, 33, 16};
  Built b = build(options, false, 64);
  PanelNetwork panels(*b.network, b.spec, b.flat->data(), /*pairs=*/true);
  ThreadPool pool(2);
  panels.round_weights(pool);
  PanelNetwork::Panel full(panels), part(panels);
  const auto run = [&](PanelNetwork::Panel& panel, int64_t first, int64_t rows) {
    panels.load(panel, rows_of(b.obs), nullptr, first, rows);
    panels.forward(panel, true, true);
    return from_panel(panel.logits(), 5, panel.stride(), rows);
  };
  const auto before = run(full, 0, 64);
  for (int64_t first : {0, 5, 50})
    for (int64_t rows : {1, 8, 13})
      EXPECT_TRUE(at::equal(run(part, first, rows), before.narrow(0, first, rows)));
  // weights are those of the last rounding
  b.flat->data().mul_(1.5);
  const auto narrow_moved = run(full, 0, 64);
  panels.round_weights(pool);
  EXPECT_FALSE(at::equal(run(full, 0, 64), narrow_moved));
  const auto expected = b.network->forward(b.obs, {.policy = true, .value = true}).logits.detach();
  EXPECT_LE(share_used(expected, run(full, 0, 64), Tolerance::of_sums(8, kRoundBf16)), 1);
}

TEST(PanelNetwork, names_what_stands_in_the_way) {
  EnvSpec image;
  image.observations = {{.name = "image", .dtype = DType::u8, .shape = {8, 8, 3}}};
  image.action.heads = {2};
  const auto obstacle = [&](const char* kind) {
    const auto network =
        make_network({.kind = &find_network(kind)}, {.spec = image}, Initializer(1));
    return PanelNetwork::obstacle(*network, image);
  };
  EXPECT_EQ(obstacle("cnn"), "the network is more than fully connected layers");
  EXPECT_EQ(obstacle("mlp"), "observation 'image' is an image");
}

}  // namespace
}  // namespace maglev
