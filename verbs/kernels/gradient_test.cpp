#include "verbs/kernels/gradient.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev::verbs::kernels {
namespace {

// sin and a figure without gradient; the fused side's own gradient is `slope` times the right one
KernelCase sine(double slope) {
  return {
      .name = "sine",
      .inputs = {at::linspace(-3, 3, 200)},
      .reference =
          [](const Tensors& in) {
            return Tensors{at::sin(in[0]), in[0].sum().detach()};
          },
      .fused =
          [](const Tensors& in) {
            return Tensors{at::sin(in[0]), in[0].sum()};
          },
      .backward = [=](const Tensors& in,
                      const Tensors& grads) { return Tensors{slope * grads[0] * at::cos(in[0])}; },
      .tolerance = 1e-5};
}

TEST(Gradient, a_right_backward_passes_and_a_wrong_one_fails) {
  EXPECT_TRUE(check_gradient(sine(1), 1).ok());
  const GradientCheck wrong = check_gradient(sine(1.01), 1);
  EXPECT_TRUE(wrong.reference.ok);
  EXPECT_FALSE(wrong.fused.ok);
  EXPECT_TRUE(check_parity(sine(1), 1).ok);
  EXPECT_FALSE(check_parity(sine(1.01), 1).ok) << "test looks at gradients too";
}

TEST(Gradient, autograd_goes_through_the_fused_side_without_a_backward_of_its_own) {
  KernelCase one = sine(1);
  one.backward = {};
  one.fused = [](const Tensors& in) { return Tensors{at::cos(in[0] - M_PI / 2), in[0].sum()}; };
  EXPECT_TRUE(check_gradient(one, 1).ok());
  one.fused = [](const Tensors& in) {
    return Tensors{at::sin(in[0].detach()) + 0 * in[0], in[0].sum()};
  };
  EXPECT_FALSE(check_gradient(one, 1).fused.ok);
  one.fused = [](const Tensors& in) { return Tensors{at::sin(in[0].detach()), in[0].sum()}; };
  EXPECT_THROW(check_gradient(one, 1), Error);
}

// an operation whose own gradient leaves a term out: only differences can tell
TEST(Gradient, a_reference_that_detaches_too_much_is_found_by_differences) {
  KernelCase one = sine(1);
  one.reference = [](const Tensors& in) {
    return Tensors{in[0] * in[0].detach(), in[0].sum().detach()};
  };
  EXPECT_FALSE(check_gradient(one, 1).reference.ok);
}

TEST(Gradient, the_last_element_of_a_long_input_is_differenced_too) {
  KernelCase one = sine(1);
  one.reference = [](const Tensors& in) {
    auto y = at::sin(in[0]);
    auto last = y.narrow(0, 199, 1);
    return Tensors{at::cat({y.narrow(0, 0, 199), last.detach() + 0 * last}), in[0].sum().detach()};
  };
  EXPECT_FALSE(check_gradient(one, 1).reference.ok);
}

TEST(Gradient, a_case_without_inputs_has_none) {
  KernelCase one = sine(1);
  one.inputs = {};
  EXPECT_FALSE(check_gradient(one, 1).has_gradient);
  EXPECT_TRUE(check_gradient(one, 1).ok());
}

}  // namespace
}  // namespace maglev::verbs::kernels
