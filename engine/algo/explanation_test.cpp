#include "engine/algo/explanation.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <gtest/gtest.h>

#include "engine/nn/network.h"
#include "engine/nn/network_entry.h"
#include "tests/close.h"

namespace maglev {
namespace {

Explanation attributed(const at::Tensor& input, const RowsToValue& value, int64_t points) {
  at::NoGradGuard no_grad;
  Explanation found;
  found.inputs.push_back({.name = "x"});
  attribute(found, {input}, value, points);
  return found;
}

// what the midpoint rule may err by, from the derivative along the path in many more points
double error_bound(const at::Tensor& input, const RowsToValue& value, int64_t points) {
  constexpr int64_t kFine = 4096;
  std::vector<int64_t> sizes(size_t(input.dim()), 1);
  sizes[0] = kFine + 1;
  auto path = (input * at::linspace(0, 1, kFine + 1).view(sizes)).detach().requires_grad_(true);
  const auto gradient = torch::autograd::grad({value({path}).sum()}, {path})[0];
  const auto along = (gradient * input).flatten(1).sum(1);
  const double variation = along.diff().abs().sum().item<double>();
  return variation / double(2 * points) + 1e-5 * along.abs().max().item<double>();
}

TEST(Explanation, of_an_action_names_what_was_asked) {
  const AskedOfAction one = asked_of_action({.heads = {5}}, at::tensor({3}, at::kInt), {});
  EXPECT_EQ(one.places.item<int64_t>(), 3);
  EXPECT_EQ(one.words, "the logit of category 3");
  const AskedOfAction two = asked_of_action({.heads = {5, 2}}, at::tensor({4, 1}, at::kInt), {});
  EXPECT_TRUE(at::equal(two.places, at::tensor({4, 6}, at::kLong)));
  EXPECT_EQ(two.words, "the logits of categories 0/4, 1/1");
  const AskedOfAction far = asked_of_action({.low = {-1, -1, -1}, .high = {1, 1, 1}}, {},
                                            at::tensor({0.2f, -0.9f, 0.3f}));
  EXPECT_EQ(far.places.item<int64_t>(), 1);
  EXPECT_EQ(far.words, "the mean of action 1");
}

TEST(Explanation, of_a_linear_function_is_its_weights) {
  const auto weights = at::tensor({2.f, -1.f, 0.5f}),
             input = at::tensor({3.f, 4.f, -2.f}).unsqueeze(0);
  const auto found =
      attributed(input, [&](const auto& x) { return (x[0] * weights).sum(1) + 7; }, 5);
  EXPECT_TRUE(close(found.inputs[0].gradient, weights, 0));
  EXPECT_TRUE(close(found.inputs[0].integrated, input[0] * weights, Tolerance::of_sums(5)));
  EXPECT_EQ(found.asked, 2 * 3 - 4 - 1 + 7);
  EXPECT_EQ(found.baseline, 7);
}

TEST(Explanation, an_input_that_nothing_depends_on_did_not_matter) {
  at::NoGradGuard no_grad;
  Explanation found;
  found.inputs = {{.name = "a"}, {.name = "b"}};
  attribute(
      found, {at::ones({1, 2}), at::ones({1, 3})}, [](const auto& x) { return x[0].sum(1); }, 4);
  EXPECT_TRUE(at::equal(found.inputs[1].gradient, at::zeros({3})));
  EXPECT_TRUE(at::equal(found.inputs[1].integrated, at::zeros({3})));
}

// completeness: attributions sum to what the observation changed, but for the rule's error
TEST(Explanation, attributions_of_networks_sum_to_the_difference_to_the_baseline) {
  const EnvSpec vector{.observations = {{.name = "vector", .shape = {6}}},
                       .action = {.heads = {3}}};
  const EnvSpec image{.observations = {{.name = "image", .dtype = DType::u8, .shape = {6, 5, 2}}},
                      .action = {.low = {-1, -1}, .high = {1, 1}}};
  for (const EnvSpec& spec : {vector, image})
    for (auto activation :
         {HiddenActivation::tanh, HiddenActivation::relu, HiddenActivation::silu}) {
      const auto network = make_network({.hidden = {24, 16}, .activation = activation},
                                        {.spec = spec}, Initializer(3));
      at::manual_seed(5);
      const bool pixels = spec.observations[0].dtype == DType::u8;
      const auto column = pixels ? at::randint(256, {1, 6, 5, 2}, at::kByte) : at::randn({1, 6});
      const EncodedObs seen = network->encode({column}).value();
      const auto output = [&](const std::vector<at::Tensor>& x, bool of_value) {
        EncodedObs changed = seen;
        (pixels ? changed.policy.image : changed.policy.vector) = x[0];
        const NetworkOutput out = network->look(changed, nullptr);
        // outputs begin near 0: times what makes a difference seen
        return of_value ? out.value : 100 * out.logits.select(1, 1);
      };
      for (bool of_value : {false, true})
        for (int64_t points : {4, 32}) {
          const RowsToValue value = [&](const auto& x) { return output(x, of_value); };
          const at::Tensor& input = pixels ? seen.policy.image : seen.policy.vector;
          const auto found = attributed(input, value, points);
          const double sum = found.inputs[0].integrated.to(at::kDouble).sum().item<double>();
          const double difference = found.asked - found.baseline;
          EXPECT_GT(std::abs(difference), 1e-3);
          EXPECT_NEAR(sum, difference, error_bound(input, value, points)) << points << " points";
          EXPECT_EQ(found.inputs[0].gradient.sizes(), input[0].sizes());
        }
    }
}

TEST(Explanation, a_gradient_is_what_a_small_change_does) {
  const auto network = make_network(
      {.hidden = {8}},
      {.spec = {.observations = {{.name = "v", .shape = {4}}}, .action = {.heads = {2}}}},
      Initializer(9));
  const auto input = at::tensor({0.3f, -0.8f, 0.1f, 1.2f}).unsqueeze(0);
  const RowsToValue value = [&](const auto& x) {
    return network->look({.policy = {{}, x[0]}, .privileged = {}}, nullptr).value;
  };
  const auto found = attributed(input, value, 1);
  constexpr float kStep = 1e-2f;
  at::NoGradGuard no_grad;
  for (int64_t i = 0; i < 4; ++i) {
    auto less = input.clone(), more = input.clone();
    less[0][i] -= kStep, more[0][i] += kStep;
    const auto slope = (value({more}) - value({less})).item<float>() / (2 * kStep);
    EXPECT_NEAR(found.inputs[0].gradient[i].item<float>(), slope, 1e-3);
  }
}

}  // namespace
}  // namespace maglev
