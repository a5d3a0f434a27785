// TrunkNetwork as the shipped networks are made of it.

#include "engine/nn/trunk_network.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "engine/host/machine.h"
#include "engine/nn/autocast.h"
#include "engine/nn/flat_params.h"
#include "tests/close.h"

namespace maglev {
namespace {

EnvSpec vectors() {
  return {.observations = {{.name = "vector", .shape = {6}},
                           {.name = "secret", .shape = {3}, .audience = Audience::critic}},
          .action = {.heads = {3, 2}}};
}

// 5x5 cells of 4 bits in 13 bytes, 4 channels; the critic sees 4 more
EnvSpec cells() {
  CellCoding coding{.bits = 4, .grid = {5, 5}, .channels = 4};
  for (int code = 0; code < 16; ++code)
    for (int c = 0; c < 4; ++c) {
      coding.policy.push_back(code == c ? 1.f : 0.1f * float(code % 3));
      coding.critic.push_back(code == 4 + c ? 1.f : 0.f);
    }
  return {.observations = {{.name = "window", .dtype = DType::u8, .shape = {13}, .cells = coding},
                           {.name = "own", .shape = {2}}},
          .action = {.heads = {6}}};
}

EnvSpec pixels() {
  return {.observations = {{.name = "image", .dtype = DType::u8, .shape = {6, 5, 3}}},
          .action = {.low = {-1, -1}, .high = {1, 1}}};
}

EnvSpec one_action() {
  return {.observations = {{.name = "vector", .shape = {6}}}, .action = {.low = {-1}, .high = {1}}};
}

std::vector<at::Tensor> observations(const EnvSpec& spec, int64_t rows) {
  at::manual_seed(6);
  std::vector<at::Tensor> columns;
  for (const auto& o : spec.observations) {
    std::vector<int64_t> sizes{rows};
    sizes.insert(sizes.end(), o.shape.begin(), o.shape.end());
    columns.push_back(o.dtype == DType::u8 ? at::randint(256, sizes, at::kByte) : at::randn(sizes));
  }
  return columns;
}

std::vector<at::Tensor> rows_of(const std::vector<at::Tensor>& columns, int64_t begin,
                                int64_t count) {
  std::vector<at::Tensor> part;
  for (const auto& c : columns) part.push_back(c.narrow(0, begin, count));
  return part;
}

void set(NetworkOptions& options, const char* name, const char* value) {
  OptionTable table;
  options.describe(table);
  table.set(name, value);
}

NetworkOptions small() {
  NetworkOptions options{.hidden = {24, 16}};
  set(options, "cnn.channels", "[4, 6]");
  return options;
}

NetworkOptions strided() {
  NetworkOptions options = small();
  options.activation = HiddenActivation::relu;
  set(options, "cnn.kernels", "[4, 3]");
  set(options, "cnn.strides", "[2, 1]");
  return options;
}

std::shared_ptr<ActorCritic> made(const EnvSpec& spec, const NetworkOptions& options,
                                  bool bf16 = false) {
  return make_network(options, {.spec = spec, .bf16 = bf16}, Initializer(1));
}

struct Variant {
  const char* name;
  EnvSpec spec;
  NetworkOptions options;
  bool bf16 = false;
};

std::vector<Variant> variants() {
  auto with = [](auto change) {
    auto o = small();
    change(o);
    return o;
  };
  return {{"mlp", vectors(), small()},
          {"mlp of 64", vectors(), {}},
          {"mlp shared", vectors(), with([](auto& o) { o.shared = true, o.critic_hidden = {12}; })},
          {"mlp popart relu", vectors(), with([](auto& o) {
             o.value_head = ValueHeadKind::popart, o.activation = HiddenActivation::relu;
           })},
          {"mlp normalised silu", vectors(),
           with([](auto& o) { o.normalize_obs = true, o.activation = HiddenActivation::silu; })},
          {"cnn on cells", cells(), with([](auto& o) { o.activation = HiddenActivation::relu; })},
          {"cnn on cells in bf16", cells(),
           with([](auto& o) { o.activation = HiddenActivation::relu; }), true},
          {"cnn on cells by ATen", cells(), with([](auto& o) {
             o.activation = HiddenActivation::relu;
             set(o, "cnn.fused_layers", "false");
           })},
          {"cnn on cells shared", cells(),
           with([](auto& o) { o.shared = true, o.critic_hidden = {12}; })},
          {"cnn on pixels", pixels(), small()},
          {"cnn with strides", pixels(), strided()},
          {"cnn with strides in bf16", pixels(), strided(), true},
          {"cnn without padding", pixels(), with([](auto& o) {
             o.activation = HiddenActivation::relu;
             set(o, "cnn.paddings", "[0, 0]");
           })},
          {"cnn without padding by ATen", pixels(),
           with([](auto& o) { set(o, "cnn.paddings", "[0, 0]"); })},
          {"mlp with one action", one_action(), small()},
          {"mlp on pixels", pixels(), with([](auto& o) { o.kind = &find_network("mlp"); })}};
}

// in bf16 100.3 would be 100.5: advantages are differences of such numbers
TEST(TrunkNetwork, heads_are_not_rounded_where_trunks_are) {
  for (const EnvSpec& spec : {vectors(), cells()}) {
    const auto network = made(spec, small());
    at::NoGradGuard no_grad;
    for (const auto& parameter : network->named_parameters()) {
      const std::string& name = parameter.key();
      if (name == "policy_weight" || name == "value_head.weight") parameter.value().zero_();
      if (name == "policy_bias" || name == "value_head.bias") parameter.value().fill_(100.3f);
    }
    Autocast guard(Precision::bf16, at::kCPU);
    const NetworkOutput out =
        network->forward(observations(spec, 5), {.policy = true, .value = true});
    for (const at::Tensor& head : {out.logits, out.value})
      EXPECT_TRUE(at::equal(head, at::full_like(head, 100.3f, at::kFloat))) << head;
  }
}

TEST(TrunkNetwork, convolutions_see_windows_of_their_own_and_cost_what_they_compute) {
  // 6 x 5 x 3: four pixels a side, every other place: 3 x 2; then three, every place
  const auto network = made(pixels(), strided());
  std::vector<std::vector<int64_t>> conv;
  for (const auto& p : network->parameters())
    if (p.dim() == 4) conv.push_back(p.sizes().vec());
  const std::vector<std::vector<int64_t>> wanted{{4, 3, 4, 4}, {6, 4, 3, 3}};
  ASSERT_GE(conv.size(), 2u);
  EXPECT_EQ(std::vector(conv.begin(), conv.begin() + 2), wanted);
  // a place costs a kernel's weights; all else is used once a row
  const auto dense = [](const NetworkOptions& options) {
    const auto network = made(pixels(), options);
    int64_t count = 0;
    for (const auto& p : network->parameters())
      if (p.dim() != 4) count += p.numel();
    return std::pair{network->cost(), count};
  };
  const auto [cost, others] = dense(strided());
  const int64_t networks = int64_t(conv.size()) / 2;
  EXPECT_EQ(cost.multiply_adds, networks * 6 * (4 * 3 * 16 + 6 * 4 * 9) + others);
  EXPECT_EQ(cost.convolved, networks * 6 * (4 + 6));

  // without padding 2 x 1 places of the first, and none of the second unless that has some
  NetworkOptions padded = strided();
  set(padded, "cnn.paddings", "[0, 1]");
  EXPECT_EQ(made(pixels(), padded)->cost().convolved, networks * 2 * (4 + 6));

  struct Wrong {
    const char *kernels, *strides, *paddings, *what;
  };
  for (const auto& [kernels, strides, paddings, what] :
       {Wrong{"[3]", "[1, 1]", "[]", "cnn.kernels must name one for each of the 2 layers"},
        Wrong{"[3, 3]", "[1, 1, 1]", "[]", "cnn.strides must name one for each of the 2 layers"},
        Wrong{"[]", "[]", "[0, 0, 0]", "cnn.paddings must name one for each of the 2 layers"},
        Wrong{"[3, 4]", "[6, 1]", "[]", "layer 2 of network.cnn leaves nothing"},
        Wrong{"[4, 3]", "[2, 1]", "[0, 0]", "layer 2 of network.cnn leaves nothing"}}) {
    NetworkOptions options = small();
    set(options, "cnn.kernels", kernels);
    set(options, "cnn.strides", strides);
    set(options, "cnn.paddings", paddings);
    try {
      made(pixels(), options);
      FAIL() << what;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  }
}

TEST(TrunkNetwork, pictures_are_seen_in_strides_unless_windows_are_given) {
  const auto kernels = [](int64_t side, const char* channels) {
    EnvSpec spec = pixels();
    spec.observations[0].shape = {side, side, 3};
    NetworkOptions options{.hidden = {4}};
    set(options, "cnn.channels", channels);
    std::vector<int64_t> sides;
    const auto network = made(spec, options);
    for (const auto& p : network->named_parameters())
      if (p.value().dim() == 4 && p.key().starts_with("policy")) sides.push_back(p.value().size(2));
    return sides;
  };
  EXPECT_EQ(kernels(36, "[4, 4, 4]"), (std::vector<int64_t>{8, 4, 3}));
  EXPECT_EQ(kernels(35, "[4, 4, 4]"), (std::vector<int64_t>{3, 3, 3}));
  EXPECT_EQ(kernels(84, "[4, 4]"), (std::vector<int64_t>{3, 3}));
}

TEST(TrunkNetwork, says_where_convolutions_on_every_pixel_are_dear) {
  const auto note = [](int64_t side, const char* kernels, const char* strides) {
    EnvSpec spec = pixels();
    spec.observations[0].shape = {side, side, 3};
    NetworkOptions options{.hidden = {4}};
    set(options, "cnn.kernels", kernels);
    set(options, "cnn.strides", strides);
    return made(spec, options)->note();
  };
  EXPECT_EQ(note(16, "[]", "[]"), "");
  EXPECT_EQ(note(64, "[8, 4, 3]", "[4, 2, 1]"), "");
  EXPECT_EQ(note(64, "[]", "[]"), "");
  EXPECT_NE(note(64, "[3, 3, 3]", "[]").find("every pixel of 64 x 64"), std::string::npos);
  EXPECT_EQ(made(vectors(), {})->note(), "");
}

TEST(TrunkNetwork, gives_a_row_of_logits_and_a_value_for_each_row) {
  for (const auto& v : variants()) {
    const auto network = made(v.spec, v.options, v.bf16);
    auto out = network->forward(observations(v.spec, 9), {});
    const int64_t width =
        v.spec.action.discrete() ? v.spec.action.categories() : v.spec.action.dims();
    EXPECT_EQ(out.logits.sizes(), (std::vector<int64_t>{9, width})) << v.name;
    EXPECT_EQ(out.value.sizes(), std::vector<int64_t>{9}) << v.name;
    EXPECT_EQ(network->log_std().defined(), !v.spec.action.discrete()) << v.name;
  }
}

// acting sees other numbers of rows at once than learning does, and a library may sum a row's
// products in another order then; layers in bf16 round each of their outputs once more
TEST(TrunkNetwork, how_many_rows_come_together_changes_a_row_by_rounding_alone) {
  claim_threads();
  at::NoGradGuard no_grad;
  for (const auto& v : variants()) {
    const auto network = made(v.spec, v.options, v.bf16);
    const int64_t layers = int64_t(network->parameters().size()) / 2;
    const auto rounding =
        v.bf16 ? Tolerance::of_sums(layers, kRoundBf16) : Tolerance::of_sums(sums_of(*network));
    const auto columns = observations(v.spec, 256);
    const auto whole = network->forward(columns, {});
    // a part's rows in the place of the whole's: few rows alone may all be small
    const auto expect_close = [&](const at::Tensor& part, const at::Tensor& all, int64_t begin) {
      auto joined = all.clone();
      joined.narrow(0, begin, part.size(0)).copy_(part);
      EXPECT_TRUE(close(joined, all, rounding)) << v.name << ", rows " << part.size(0);
    };
    for (int64_t rows : {1, 2, 3, 7, 8, 31, 100})
      for (int64_t begin : {int64_t(0), 256 - rows}) {
        auto part = network->forward(rows_of(columns, begin, rows), {});
        expect_close(part.logits, whole.logits, begin);
        expect_close(part.value, whole.value, begin);
      }
  }
}

TEST(TrunkNetwork, asked_for_one_output_gives_it_alone_and_unchanged) {
  at::NoGradGuard no_grad;
  for (const auto& v : variants()) {
    const auto network = made(v.spec, v.options, v.bf16);
    const auto columns = observations(v.spec, 16);
    auto both = network->forward(columns, {});
    auto policy = network->forward(columns, {.policy = true, .value = false});
    auto value = network->forward(columns, {.policy = false, .value = true});
    EXPECT_TRUE(close(policy.logits, both.logits, 0)) << v.name;
    EXPECT_TRUE(close(value.value, both.value, 0)) << v.name;
    EXPECT_FALSE(policy.value.defined() || value.logits.defined()) << v.name;
  }
}

TEST(TrunkNetwork, looked_at_gives_the_same_and_what_its_layers_gave) {
  at::NoGradGuard no_grad;
  for (const auto& v : variants()) {
    const auto network = made(v.spec, v.options, v.bf16);
    const auto columns = observations(v.spec, 16);
    const auto out = network->forward(columns, {});
    std::vector<LayerOutput> layers;
    const auto seen = network->look(network->encode(columns).value(), &layers);
    EXPECT_TRUE(close(seen.logits, out.logits, 0)) << v.name;
    EXPECT_TRUE(close(seen.value, out.value, 0)) << v.name;
    ASSERT_GE(layers.size(), 2u) << v.name;
    EXPECT_EQ(layers[0].name, v.options.shared ? "shared 1" : "policy 1") << v.name;
    for (const LayerOutput& layer : layers) EXPECT_EQ(layer.output.size(0), 16) << v.name;
  }
}

TEST(TrunkNetwork, looked_at_with_a_memory_gives_the_same_and_what_it_remembers) {
  at::NoGradGuard no_grad;
  constexpr int64_t L = 2, B = 8;
  for (const bool shared : {false, true}) {
    NetworkOptions options = small();
    options.memory = 5, options.shared = shared;
    const auto network = made(vectors(), options);
    const auto columns = observations(vectors(), L * B);
    const at::Tensor state = at::randn({B, network->memory_size()});
    at::Tensor is_first = at::zeros({L, B}, at::kByte);
    is_first[1][3] = 1;
    Recall recall{state, is_first}, again = recall;
    const auto out = network->forward_through(columns, {}, recall);
    std::vector<LayerOutput> layers;
    const auto seen = network->look(network->encode(columns).value(), &layers, &again);
    EXPECT_TRUE(close(seen.logits, out.logits, 0));
    EXPECT_TRUE(close(seen.value, out.value, 0));
    EXPECT_TRUE(close(again.state, recall.state, 0));
    at::Tensor remembered = layers.back().output;
    EXPECT_EQ(layers.back().name, shared ? "memory" : "value memory");
    if (!shared) remembered = at::cat({layers[layers.size() - 2].output, remembered}, 1);
    EXPECT_TRUE(close(remembered, recall.state, 0));
  }
}

TEST(TrunkNetwork, a_privileged_column_moves_the_value_and_never_the_policy) {
  at::NoGradGuard no_grad;
  for (const auto& v : variants()) {
    if (v.spec.observations.size() < 2 || v.spec.observations[1].audience != Audience::critic)
      continue;
    const auto network = made(v.spec, v.options, v.bf16);
    auto columns = observations(v.spec, 16);
    auto before = network->forward(columns, {});
    columns[1] = columns[1] + 1;
    auto after = network->forward(columns, {});
    EXPECT_TRUE(close(after.logits, before.logits, 0)) << v.name;
    EXPECT_TRUE((after.value != before.value).all().item<bool>()) << v.name;
  }
}

// codes 4..7 differ for the critic, and codes 3k+1 look alike to the policy beyond its first four
TEST(TrunkNetwork, what_only_the_critics_palette_tells_apart_never_reaches_the_policy) {
  at::NoGradGuard no_grad;
  for (bool shared : {false, true}) {
    auto options = small();
    options.shared = shared;
    const auto network = made(cells(), options);
    auto columns = observations(cells(), 16);
    columns[0].fill_(0x44);  // both cells of a byte hold code 4
    auto before = network->forward(columns, {});
    columns[0].fill_(0x77);  // 7 % 3 == 4 % 3
    auto after = network->forward(columns, {});
    EXPECT_TRUE(close(after.logits, before.logits, 0));
    EXPECT_TRUE((after.value != before.value).all().item<bool>());
  }
}

TEST(TrunkNetwork, gradients_of_the_policy_reach_nothing_privileged) {
  auto spec = vectors();
  const auto network = made(spec, small());
  auto columns = observations(spec, 8);
  columns[1].requires_grad_(true);
  auto out = network->forward(columns, {});
  auto of_logits = torch::autograd::grad({out.logits.sum()}, {columns[1]}, {}, true, false,
                                         /*allow_unused=*/true);
  auto of_value = torch::autograd::grad({out.value.sum()}, {columns[1]});
  EXPECT_FALSE(of_logits[0].defined());
  EXPECT_GT(of_value[0].abs().sum().item<float>(), 0);
}

TEST(TrunkNetwork, a_shared_trunk_learns_from_both_and_two_trunks_from_one_each) {
  for (bool shared : {false, true}) {
    auto options = small();
    options.shared = shared;
    const auto network = made(vectors(), options);
    network->forward(observations(vectors(), 8), {}).value.sum().backward();
    auto trunk = network->named_parameters()["policy_trunk.fc0_weight"].grad();
    EXPECT_EQ(trunk.defined() && trunk.abs().sum().item<float>() > 0, shared);
    EXPECT_EQ(network->named_parameters().contains("value_trunk.fc0_weight"), !shared);
  }
}

TEST(TrunkNetwork, is_a_policy_and_a_value_which_are_clipped_apart) {
  for (bool shared : {false, true}) {
    auto options = small();
    options.hidden = {8}, options.critic_hidden = {5}, options.shared = shared;
    const auto network = made(one_action(), options);
    const FlatParams flat(*network, 1, [&](const std::string& p) { return network->part_of(p); });
    ASSERT_EQ(flat.module_ranges().size(), 2u);
    EXPECT_EQ(flat.module_ranges()[0].name, "policy");
    EXPECT_EQ(flat.module_ranges()[1].name, "value");
    // the value's hidden layers, and its trunk where it has one of its own
    const int64_t trunk = 7 * 8, behind = 9 * 5 + 6;
    EXPECT_EQ(flat.module_ranges()[1].count, behind + (shared ? 0 : trunk));
  }
}

TEST(TrunkNetwork, weights_begin_orthogonal_with_the_gains_of_ppo) {
  const auto network = made(vectors(), {.hidden = {32, 32}});
  auto gram = [&](const char* name) {
    auto w = network->named_parameters()[name].detach();
    w = w.flatten(1);
    return w.size(0) <= w.size(1) ? w.matmul(w.t()) : w.t().matmul(w);
  };
  EXPECT_TRUE(close(gram("policy_trunk.fc0_weight"), at::eye(6) * 2, 1e-5));
  EXPECT_TRUE(close(gram("value_trunk.fc1_weight"), at::eye(32) * 2, 1e-5));
  EXPECT_TRUE(close(gram("policy_weight") * 1e4, at::eye(5), 1e-4));
  EXPECT_TRUE(close(gram("value_head.weight"), at::eye(1), 1e-5));
  for (const auto& p : network->named_parameters()) {
    if (!p.key().ends_with("bias")) continue;
    EXPECT_EQ(p.value().abs().sum().item<float>(), 0) << p.key();
  }
}

}  // namespace
}  // namespace maglev
