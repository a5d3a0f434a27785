#include "algos/dreamer/dreams.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "algos/dreamer/numbers.h"
#include "algos/dreamer/reference/loss.h"
#include "engine/data/step_window.h"
#include "kernels/noise/noise_op.h"
#include "tests/close.h"
#include "tests/errors.h"

namespace maglev::dreamer {
namespace {

constexpr int64_t kSteps = 9, kRows = 3, kShown = 4;
// one whose draws lie where other sights make other states
constexpr uint64_t kSeed = 1;

Options dream_options() {
  Options o;
  o.deter = 32, o.hidden = 16, o.classes = 4, o.stoch = 6, o.depth = 2, o.units = 24;
  return o;
}

/// 2 bits a cell, two channels.
CellCoding map_of_cells() {
  return {.bits = 2, .grid = {12, 20}, .channels = 2, .policy = {0, 0, 1, 0, 0, 1, 0.5, 0.5}};
}

/// Two pictures, a grid of cells and vectors, of which one is for the critic alone.
EnvSpec many_columns() {
  return {
      .observations = {{.name = "left", .dtype = DType::u8, .shape = {12, 20, 3}},
                       {.name = "speed", .shape = {2}},
                       {.name = "state", .shape = {4}, .audience = Audience::critic},
                       {.name = "depth", .dtype = DType::u8, .shape = {12, 20, 1}},
                       {.name = "grip", .shape = {2, 2}},
                       {.name = "map", .dtype = DType::u8, .shape = {60}, .cells = map_of_cells()}},
      .action = {.low = {-2}, .high = {2}}};
}

/// Writes numbers into all that is visited, the same into the same.
struct AnyWeights : PartialVisitor {
  AnyWeights() { at::manual_seed(7); }

 protected:
  void visit_tensor(const std::string&, at::Tensor& value) override {
    at::NoGradGuard no_grad;
    value.normal_(0, 0.5);
  }
};

AlgoContext dream_context() { return {.spec = many_columns(), .rows = kRows}; }

Dreams any_dreams() {
  Dreams dreams(dream_options(), dream_context());
  AnyWeights weights;
  dreams.visit_state(weights);
  return dreams;
}

/// Random play; an episode begins in row 1 at step 6.
Batch any_play() {
  at::manual_seed(1);
  Batch play = make_columns(many_columns(), {}, {.observed = kSteps, .acted = kSteps - 1}, kRows,
                            at::TensorOptions(at::kCPU));
  for (auto& column : play.obs) {
    if (column.scalar_type() == at::kByte) column.random_(0, 256);
    else column.normal_();
  }
  play.action.uniform_(-2, 2);
  play.is_first[0].fill_(1);
  play.is_first[6][1] = 1;
  return play;
}

TEST(DreamerDreams, of_what_was_seen_are_the_decoders_of_the_observed_states) {
  Dreams dreams = any_dreams();
  const Batch play = any_play();
  const auto made = dreams.imagine(play, kSteps, kSeed);

  const ModelShape shape = model_shape(dream_options(), many_columns());
  Networks networks(shape, Initializer::none());
  AnyWeights weights;
  networks.visit_acting(weights), networks.visit_learning(weights);
  const Columns columns(many_columns(), shape, at::kCPU);
  // an action leads to the step after it
  const auto action = at::cat({at::zeros({1, kRows, 1}), columns.to_model(play.action)});
  const Sequences batch{.seen = columns.seen(play.obs, 2),
                        .is_first = play.is_first.to(at::kFloat),
                        .action = action,
                        .reward = at::zeros({kSteps, kRows}),
                        .deter = at::zeros({kRows, 32}),
                        .stoch = at::zeros({kRows, 6}, at::kByte)};
  auto uniforms = at::empty({kSteps, kRows, 6});
  noise_uniform_(uniforms, update_fill(kSeed, UpdateNumbers::posterior, nullptr));
  at::NoGradGuard no_grad;
  const auto observed =
      ReferenceLoss(dream_options(), shape, networks, *networks.value).observe(batch, uniforms);
  const auto decoded = networks.decoder->forward(
      {observed.latent.deter.flatten(0, 1), observed.latent.stoch.flatten(0, 1)});

  const auto image = 255 * at::sigmoid(decoded.logits).unflatten(0, {kSteps, kRows});
  const auto vector = symexp(decoded.vector).unflatten(0, {kSteps, kRows});
  EXPECT_TRUE(close(made[0], image.narrow(-1, 0, 3), 1e-3));
  EXPECT_TRUE(close(made[1], vector.narrow(-1, 0, 2), 1e-4));
  EXPECT_FALSE(made[2].defined()) << "what only the critic sees";
  EXPECT_TRUE(close(made[3], image.narrow(-1, 3, 1), 1e-3));
  EXPECT_TRUE(close(made[4].flatten(2), vector.narrow(-1, 2, 4), 1e-4));
  EXPECT_EQ(made[4].sizes(), at::IntArrayRef({kSteps, kRows, 2, 2}));
  EXPECT_TRUE(close(made[5], image.narrow(-1, 4, 2), 1e-3));
  // beside what there was
  const auto shown = dreams.shown(play);
  EXPECT_TRUE(at::equal(shown[0], play.obs[0]) && at::equal(shown[1], play.obs[1]));
  EXPECT_FALSE(shown[2].defined());
  EXPECT_EQ(shown[5].sizes(), made[5].sizes());
}

TEST(DreamerDreams, of_cells_are_images_of_their_palette) {
  const CellCoding cells = map_of_cells();
  const Columns columns(many_columns(), model_shape(dream_options(), many_columns()), at::kCPU);
  const Batch play = any_play();
  const auto image = columns.seen(play.obs, 2).image.narrow(-1, 4, 2);
  ASSERT_EQ(image.sizes(), at::IntArrayRef({kSteps, kRows, 12, 20, 2}));
  const uint8_t pixels[] = {0, 0, 255, 0, 0, 255, 128, 128};
  for (int64_t t = 0; t < kSteps; ++t)
    for (int64_t cell = 0; cell < 240; ++cell) {
      const auto byte = play.obs[5][t][1][cell / 4].item<int64_t>();
      const int64_t code = byte >> (2 * (cell % 4)) & 3;
      for (int64_t c = 0; c < 2; ++c)
        ASSERT_EQ(image[t][1][cell / 20][cell % 20][c].item<int64_t>(), pixels[2 * code + c]);
    }
  // numbers beyond 0 and 1 are the ends
  EnvSpec wide = many_columns();
  wide.observations[5].cells.policy = {-1, 0, 3, 1, 0, 0, 2, 2};
  const auto shown = Columns(wide, model_shape(dream_options(), wide), at::kCPU).shown(play.obs)[5];
  EXPECT_EQ(shown.min().item<int64_t>(), 0);
  EXPECT_EQ(shown.max().item<int64_t>(), 255);
  // of a row of a step, which acting has, the same
  EXPECT_TRUE(at::equal(columns.shown({play.obs[0][3], play.obs[1][3], play.obs[2][3],
                                       play.obs[3][3], play.obs[4][3], play.obs[5][3]})[5],
                        image[3]));
}

TEST(DreamerDreams, imagine_from_actions_alone_what_they_were_not_shown) {
  Dreams dreams = any_dreams();
  Batch play = any_play();
  const auto before = dreams.imagine(play, kShown, kSeed);
  const auto same = [&](const std::vector<at::Tensor>& after, int64_t t, int64_t n) {
    return at::equal(before[1][t][n], after[1][t][n]);
  };
  // other sights from there on, but at the beginning of row 1's second episode
  for (auto& column : play.obs) {
    const auto kept = column[6][1].clone();
    column.narrow(0, kShown, kSteps - kShown).zero_();
    column[6][1].copy_(kept);
  }
  const auto unseen = dreams.imagine(play, kShown, kSeed);
  for (size_t i : {0, 1, 3, 4, 5}) EXPECT_TRUE(at::equal(before[i], unseen[i])) << i;
  // that one is seen
  play.obs[0][6][1].zero_();
  play.obs[3][6][1].fill_(255);
  play.obs[1][6][1].fill_(-300);
  play.obs[4][6][1].fill_(300);
  const auto other = dreams.imagine(play, kShown, kSeed);
  EXPECT_TRUE(same(other, 5, 1));
  EXPECT_FALSE(same(other, 6, 1));
  EXPECT_TRUE(same(other, 8, 0));
  // and other actions lead elsewhere
  play = any_play();
  play.action[5].neg_();
  const auto elsewhere = dreams.imagine(play, kShown, kSeed);
  EXPECT_TRUE(same(elsewhere, 5, 0));
  EXPECT_FALSE(same(elsewhere, 6, 0));
  EXPECT_TRUE(same(elsewhere, 6, 1)) << "where an episode begins nothing led to it";
}

TEST(DreamerDreams, need_a_decoder) {
  Options options = dream_options();
  options.objective = Objective::redundancy;
  EXPECT_TRUE(contains(error_of([&] { Dreams(options, dream_context()); }), "has no decoder"));
}

}  // namespace
}  // namespace maglev::dreamer
