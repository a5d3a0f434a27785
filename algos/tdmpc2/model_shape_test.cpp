#include "algos/tdmpc2/model_shape.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "algos/tdmpc2/world_model.h"
#include "base/core/error.h"
#include "engine/nn/flat_params.h"

namespace maglev::tdmpc2 {
namespace {

EnvSpec hockey_like() {
  return {.observations = {{.name = "vector", .shape = {18}}},
          .action = {.low = std::vector<float>(8, -1), .high = std::vector<float>(8, 1)}};
}

int64_t parameters(ModelSize size) {
  Options o;
  o.size = size, o.episodic = false;
  return model_layout(model_shape(o, hockey_like())).size();
}

// the published sizes, counted for 18 observations and 8 actions without a termination head
TEST(Tdmpc2ModelShape, named_sizes_have_the_published_numbers_of_parameters) {
  EXPECT_EQ(parameters(ModelSize::m1), 1'217'727);
  EXPECT_EQ(parameters(ModelSize::m5), 4'968'302);
  EXPECT_EQ(parameters(ModelSize::m19), 18'074'734);
  EXPECT_EQ(parameters(ModelSize::m48), 47'229'806);
  EXPECT_EQ(parameters(ModelSize::m317), 312'669'149);
}

TEST(Tdmpc2ModelShape, the_layout_is_where_the_modules_parameters_are) {
  Options o;
  o.mlp_dim = 24, o.enc_dim = 16, o.latent_dim = 32, o.num_q = 3, o.task_dim = 6;
  EnvSpec several = hockey_like(), image = hockey_like();
  several.tasks = {{.name = "a", .obs_dims = 18, .action_dims = 8}, {.name = "b"}};
  image.observations = {{.name = "image", .dtype = DType::u8, .shape = {64, 64, 3}}};
  for (const auto& [spec, alignment] : {std::pair{hockey_like(), 1},
                                        {several, 1},
                                        {image, 1},
                                        {hockey_like(), 16},
                                        {several, 16},
                                        {image, 16}}) {
    ModelShape shape = model_shape(o, spec);
    shape.alignment = alignment;
    WorldModel model(shape, false, Initializer(1));
    const ModelLayout& layout = model.layout();
    FlatParams params(model, alignment);
    ASSERT_EQ(params.size(), layout.size());
    auto lies_at = [&](const at::Tensor& t) {
      return t.data_ptr<float>() - params.data().data_ptr<float>();
    };
    const Layer& last = *model.policy_head().layers.back();
    EXPECT_EQ(lies_at(last.weight), layout.policy.back().weight());
    EXPECT_EQ(lies_at(last.bias), layout.policy.back().bias());
    const Layer& dynamics = *model.dynamics_head().layers[0];
    EXPECT_EQ(lies_at(dynamics.gain), layout.dynamics[0].gain());
    EXPECT_EQ(lies_at(dynamics.shift), layout.dynamics[0].shift());
    const auto q = model.named_parameters()["q2.1.weight"];
    EXPECT_EQ(lies_at(q), layout.q[2][1].weight());
    for (const FlatRange& range : params.ranges())
      if (range.count > 1) {
        EXPECT_EQ(range.begin % alignment, 0);
      }
    EXPECT_EQ(layout.q_end() - layout.q_begin(), 3 * layout.q_size());
    if (layout.termination.empty()) continue;
    EXPECT_EQ(lies_at(model.termination_head()->layers[2]->weight), layout.termination[2].weight());
  }
}

TEST(Tdmpc2ModelShape, each_network_may_have_widths_of_its_own) {
  Options o;
  o.hidden.reward = {384, 384}, o.hidden.q = {64}, o.hidden.encoder = {128, 96, 32};
  const ModelShape shape = model_shape(o, hockey_like());
  const auto widths = [](const MlpPlaces& net) {
    std::vector<int64_t> all{net.front().in};
    for (const LayerPlace& layer : net) all.push_back(layer.out);
    return all;
  };
  const ModelLayout layout = model_layout(shape);
  EXPECT_EQ(widths(layout.encoder), (std::vector<int64_t>{18, 128, 96, 32, 512}));
  EXPECT_EQ(widths(layout.reward), (std::vector<int64_t>{520, 384, 384, kBins}));
  EXPECT_EQ(widths(layout.q[4]), (std::vector<int64_t>{520, 64, kBins}));
  EXPECT_EQ(widths(layout.dynamics), (std::vector<int64_t>{520, 512, 512, 512}));
  EXPECT_TRUE(layout.q[4].front().normed && !layout.q[4].back().normed);
}

TEST(Tdmpc2Options, one_width_for_all_takes_the_place_of_lists_that_were_given_before) {
  Options o;
  OptionTable table;
  table.section("tdmpc2", [&](OptionTable& t) { o.describe(t); });
  for (const char* network : {"encoder", "q", "policy"})
    table.set("tdmpc2.hidden." + std::string(network), "[64, 32]", "a file", Origin::file);
  table.override_with("tdmpc2.mlp_dim=24");
  EXPECT_TRUE(o.hidden.q.empty() && o.hidden.policy.empty());
  EXPECT_EQ(o.hidden.encoder, (std::vector<int64_t>{64, 32}));
  table.override_with("tdmpc2.size=1");
  EXPECT_TRUE(o.hidden.encoder.empty());
}

TEST(Tdmpc2Options, widths_that_cannot_be_are_told_with_the_next_ones) {
  const auto refusal = [](const HiddenWidths& hidden) -> SettingError::What {
    Options o;
    o.hidden = hidden;
    try {
      o.check();
    } catch (const SettingError& e) {
      return e.what_is_wrong;
    }
    return {};
  };
  EXPECT_EQ(refusal({.encoder = {20}, .q = {64, 8}}).setting, "");
  const auto odd = refusal({.reward = {64, 20}});
  EXPECT_EQ(odd.setting, "tdmpc2.hidden.reward");
  EXPECT_EQ(odd.got, "[64, 20]");
  EXPECT_EQ(odd.nearest, "[64, 24]");
  EXPECT_EQ(refusal({.policy = std::vector<int64_t>(9, 8)}).must, "at most 8 layers");
}

TEST(Tdmpc2ModelShape, what_the_model_cannot_take_is_refused) {
  Options o;
  EnvSpec categories = hockey_like(), picture = hockey_like(), tasks = hockey_like();
  categories.action = {.heads = {3}};
  picture.observations[0] = {.name = "image", .dtype = DType::u8, .shape = {32, 32, 3}};
  tasks.tasks = {{.name = "a"}};
  o.episodic = true;
  for (const auto& spec : {categories, picture, tasks}) EXPECT_THROW(model_shape(o, spec), Error);
  // what another size of the picture would not mend is said first
  picture.observations.push_back({.name = "vector", .shape = {3}});
  try {
    model_shape(o, picture);
    FAIL() << "a picture and numbers were taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("not both"), std::string::npos) << e.what();
  }
  o.latent_dim = 20;
  EXPECT_THROW(model_shape(o, hockey_like()), Error);
  o.latent_dim = 64, o.num_q = 1;
  EXPECT_THROW(model_shape(o, hockey_like()), Error);
}

TEST(Tdmpc2ModelShape, the_discount_comes_from_the_episodes_length) {
  EXPECT_DOUBLE_EQ(discount_of(250), 0.98);
  EXPECT_DOUBLE_EQ(discount_of(500), 0.99);
  EXPECT_DOUBLE_EQ(discount_of(1000), 0.995);
  EXPECT_DOUBLE_EQ(discount_of(20), 0.95);
  EXPECT_DOUBLE_EQ(discount_of(0), 0.995);
}

TEST(Tdmpc2ModelShape, two_more_rounds_are_planned_from_20_actions_on) {
  Options o;
  EXPECT_EQ(plan_iterations(o, 19), 6);
  EXPECT_EQ(plan_iterations(o, 20), 8);
}

}  // namespace
}  // namespace maglev::tdmpc2
