#include "engine/nn/optimizer.h"

#include <limits>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <gtest/gtest.h>

#include "engine/nn/flat_params.h"
#include "engine/run/checkpoint.h"
#include "engine/run/snapshot.h"
#include "tests/close.h"

namespace maglev {
namespace {

struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    first = register_module("first", torch::nn::Linear(5, 7));
    second = register_module("second", torch::nn::Linear(7, 2));
    shift = register_buffer("shift", at::zeros({5}));
  }
  at::Tensor forward(const at::Tensor& x) { return second(at::tanh(first(x + shift))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
  at::Tensor shift;
};

at::Tensor no_skip() { return at::zeros({}); }

// one step; the gradient's norm
at::Tensor stepped(FlatAdam& adam, at::Tensor grad, const at::Tensor& lr, const at::Tensor& skip) {
  ThreadPool pool(1);
  adam.reduce(grad, {}, pool);
  adam.clip(skip);
  adam.step(lr, pool);
  return adam.norm().clone();
}

TEST(FlatParams, the_module_keeps_its_values_and_reads_the_flat_buffer) {
  at::manual_seed(1);
  TwoLayers net;
  auto x = at::randn({3, 5});
  auto before = net.forward(x);
  FlatParams flat(net);
  EXPECT_EQ(flat.size(), 5 * 7 + 7 + 7 * 2 + 2);
  EXPECT_TRUE(close(net.forward(x), before, 0));
  flat.data().zero_();
  EXPECT_TRUE(close(net.forward(x), at::zeros({3, 2}), 0));
}

TEST(FlatParams, replicas_share_values_and_buffers_and_own_their_gradients) {
  at::manual_seed(2);
  TwoLayers net, replica, other;
  FlatParams flat(net);
  auto grad = at::zeros({flat.size()}), other_grad = at::zeros({flat.size()});
  flat.bind(net, replica, grad);
  flat.bind(net, other, other_grad);
  net.shift.fill_(0.5);
  auto x = at::randn({4, 5});
  EXPECT_TRUE(close(replica.forward(x), net.forward(x), 0));
  replica.forward(x).sum().backward();
  EXPECT_GT(grad.abs().sum().item<float>(), 0);
  EXPECT_TRUE(close(other_grad, at::zeros({flat.size()}), 0));
  EXPECT_FALSE(net.first->weight.grad().defined());
  flat.data().add_(0.1);
  EXPECT_TRUE(close(replica.forward(x), net.forward(x), 0));
}

TEST(FlatParams, for_a_gpu_begin_at_64_bytes) {
  EXPECT_EQ(flat_alignment(at::kCPU), 1);
  EXPECT_EQ(flat_alignment(at::kCUDA), 16);
  at::manual_seed(1);
  TwoLayers net;
  const auto x = at::randn({3, 5}), before = net.forward(x);
  FlatParams flat(net, 16);
  ASSERT_EQ(flat.ranges().size(), 4u);
  for (const FlatRange& range : flat.ranges()) EXPECT_EQ(range.begin % 16, 0);
  EXPECT_EQ(flat.size() % 16, 0);
  EXPECT_TRUE(close(net.forward(x), before, 0));
  // modules reach to where the next begins: groups have no gaps
  ASSERT_EQ(flat.module_ranges().size(), 2u);
  EXPECT_EQ(flat.module_ranges()[1].begin, flat.module_ranges()[0].count);
  EXPECT_EQ(flat.module_ranges()[1].begin + flat.module_ranges()[1].count, flat.size());
}

// gradients land in the order of the flat buffer
TEST(FlatParams, a_replicas_gradient_is_the_modules_own) {
  at::manual_seed(3);
  TwoLayers net, replica;
  FlatParams flat(net);
  auto grad = at::zeros({flat.size()});
  flat.bind(net, replica, grad);
  auto x = at::randn({4, 5});
  replica.forward(x).square().sum().backward();
  net.forward(x).square().sum().backward();
  std::vector<at::Tensor> own;
  for (const auto& p : net.parameters()) own.push_back(p.grad().flatten());
  EXPECT_TRUE(close(grad, at::cat(own), 0));
}

// gradients of changing size, so that some steps clip and some do not
at::Tensor gradient(int64_t step, int64_t size) {
  at::manual_seed(uint64_t(100 + step));
  return at::randn({size}) * (step % 3 == 0 ? 0.01 : 1.0);
}

void expect_equals_torch(double weight_decay, double max_norm, bool fused = true) {
  torch::manual_seed(4);
  TwoLayers net, reference;
  FlatParams flat(net);
  {
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < net.parameters().size(); ++i)
      reference.parameters()[i].copy_(net.parameters()[i]);
  }
  FlatAdam adam(
      flat, {.eps = 1e-5, .weight_decay = weight_decay, .max_grad_norm = max_norm, .fused = fused});
  std::unique_ptr<torch::optim::Optimizer> torch_adam;
  if (weight_decay > 0)
    torch_adam = std::make_unique<torch::optim::AdamW>(
        reference.parameters(),
        torch::optim::AdamWOptions(1e-2).eps(1e-5).weight_decay(weight_decay));
  else
    torch_adam = std::make_unique<torch::optim::Adam>(reference.parameters(),
                                                      torch::optim::AdamOptions(1e-2).eps(1e-5));
  for (int64_t step = 0; step < 20; ++step) {
    auto grad = gradient(step, flat.size());
    int64_t offset = 0;
    for (auto& p : reference.parameters()) {
      p.mutable_grad() = grad.narrow(0, offset, p.numel()).view(p.sizes()).clone();
      offset += p.numel();
    }
    double norm = max_norm > 0 ? torch::nn::utils::clip_grad_norm_(reference.parameters(), max_norm)
                               : grad.norm().item<double>();
    torch_adam->step();
    auto ours = stepped(adam, grad, at::full({}, 1e-2f), no_skip());
    EXPECT_NEAR(ours.item<double>(), norm, 1e-5);
  }
  for (size_t i = 0; i < net.parameters().size(); ++i)
    EXPECT_TRUE(close(net.parameters()[i], reference.parameters()[i], 1e-6));
}

TEST(FlatAdam, equals_torch_adam_over_20_steps) { expect_equals_torch(0, 0); }
TEST(FlatAdam, equals_torch_adam_behind_clip_grad_norm) { expect_equals_torch(0, 0.5); }
TEST(FlatAdam, equals_torch_adamw) { expect_equals_torch(0.1, 0.5); }
TEST(FlatAdam, in_plain_aten_equals_torch_too) {
  expect_equals_torch(0, 0.5, /*fused=*/false);
  expect_equals_torch(0.1, 0, /*fused=*/false);
}

// moments and step count must stay too, or the next step would differ
void expect_left_out(const at::Tensor& bad_grad, const at::Tensor& skip, float nonfinite) {
  at::manual_seed(5);
  TwoLayers net, twin;
  FlatParams flat(net), twin_flat(twin);
  twin_flat.data().copy_(flat.data());
  FlatAdam adam(flat, {}), twin_adam(twin_flat, {});
  auto lr = at::full({}, 1e-2f);
  for (int64_t step = 0; step < 3; ++step) {
    auto grad = gradient(step, flat.size()), twin_grad = grad.clone(), left_out = bad_grad.clone();
    stepped(adam, left_out, lr, skip);
    stepped(adam, grad, lr, no_skip());
    stepped(twin_adam, twin_grad, lr, no_skip());
    ASSERT_TRUE(close(flat.data(), twin_flat.data(), 0)) << "step " << step;
  }
  EXPECT_EQ(adam.nonfinite().item<float>(), nonfinite);
}

TEST(FlatAdam, a_gradient_that_is_not_finite_changes_nothing_and_is_counted) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto grad = at::ones({58});
    grad[17] = bad;
    expect_left_out(grad, no_skip(), 3);
  }
}

TEST(FlatAdam, a_skipped_step_changes_nothing) { expect_left_out(at::ones({58}), at::ones({}), 0); }

// parameters after one step from `reduce`
template <class Reduce>
at::Tensor after_step(Reduce reduce) {
  torch::manual_seed(6);
  TwoLayers net;
  FlatParams flat(net);
  FlatAdam adam(flat, {});
  ThreadPool pool(1);
  reduce(adam, pool);
  adam.clip(no_skip());
  adam.step(at::full({}, 1e-2f), pool);
  return flat.data().clone();
}

TEST(FlatAdam, a_loss_scale_of_a_power_of_two_changes_no_bit) {
  const auto plain = after_step([](FlatAdam& adam, ThreadPool& pool) {
    adam.reduce(at::stack({gradient(1, 58), gradient(2, 58)}), {}, pool);
  });
  const auto scaled = after_step([](FlatAdam& adam, ThreadPool& pool) {
    adam.reduce(at::stack({gradient(1, 58), gradient(2, 58)}) * 1024, at::full({}, 1.f / 1024),
                pool);
  });
  EXPECT_TRUE(close(plain, scaled, 0));
}

TEST(FlatAdam, what_another_process_adds_to_the_sum_counts_once_it_is_reduced_again) {
  const auto all = after_step([](FlatAdam& adam, ThreadPool& pool) {
    adam.reduce(at::stack({gradient(1, 58), gradient(2, 58), gradient(3, 58)}), {}, pool);
  });
  const auto later = after_step([](FlatAdam& adam, ThreadPool& pool) {
    auto lanes = at::stack({gradient(1, 58), gradient(2, 58)});
    adam.reduce(lanes, {}, pool);
    auto sum = lanes[0];
    sum.add_(gradient(3, 58));
    adam.reduce(sum, {}, pool);
  });
  EXPECT_TRUE(close(all, later, 0));
}

TEST(FlatAdam, clips_each_module_by_its_own_norm) {
  TwoLayers net;
  FlatParams flat(net);
  ASSERT_EQ(flat.module_ranges().size(), 2u);
  FlatAdam adam(flat, {.max_grad_norm = 0.5, .clip_per_module = true});
  auto grad = at::full({flat.size()}, 1e-3f);
  grad.narrow(0, 0, 42).fill_(10);  // the first layer is far over its norm, the second far below
  auto expected = grad.clone();
  expected.narrow(0, 0, 42).mul_(0.5 / (10 * std::sqrt(42.0) + 1e-6));
  const double whole = grad.norm().item<double>();
  auto norm = stepped(adam, grad, at::zeros({}), no_skip());
  EXPECT_TRUE(close(grad, expected, 1e-6));
  EXPECT_NEAR(norm.item<double>(), whole, 1e-3);
}

/// A network, its optimiser and gradients, with parameters laid out by `alignment`.
struct Learning {
  explicit Learning(int64_t alignment, double max_norm = 0.5)
      : net((at::manual_seed(6), TwoLayers())),
        flat(net, alignment),
        grad(at::zeros({flat.size()})),
        adam(flat, {.weight_decay = 0.1, .max_grad_norm = max_norm, .clip_per_module = true}) {
    flat.bind(net, net, grad);
  }
  void step(int64_t number) {
    at::manual_seed(uint64_t(number));
    const auto x = at::randn({4, 5});
    grad.zero_();
    net.forward(x).square().sum().backward();
    stepped(adam, grad, at::full({}, 1e-2f), no_skip());
  }
  VisitState visit() {
    return [this](StateVisitor& v) {
      visit_module(net, v);
      adam.visit_state(v);
    };
  }
  void expect_gaps_of_0() {
    auto filled = at::zeros({flat.size()});
    for (const FlatRange& range : flat.ranges())
      filled.narrow(0, range.begin, range.count).fill_(1);
    for (const auto& all : {flat.data(), adam.first_moment(), adam.second_moment()})
      EXPECT_EQ((all * (1 - filled)).abs().max().item<float>(), 0);
  }

  TwoLayers net;
  FlatParams flat;
  at::Tensor grad;
  FlatAdam adam;
};

TEST(FlatAdam, steps_parameters_alike_however_they_are_aligned) {
  Learning packed(1), aligned(16), free(1, 0), free_aligned(16, 0);
  for (int i = 0; i < 10; ++i)
    for (Learning* one : {&packed, &aligned, &free, &free_aligned}) one->step(i);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(close(aligned.net.parameters()[i], packed.net.parameters()[i], 1e-6));
    // only a norm is a sum, whose rounding depends on places
    EXPECT_TRUE(close(free_aligned.net.parameters()[i], free.net.parameters()[i], 0));
  }
  EXPECT_TRUE(close(aligned.adam.norm(), packed.adam.norm(), 1e-6));
  aligned.expect_gaps_of_0();
}

TEST(FlatAdam, has_a_checkpoint_that_knows_nothing_of_alignment) {
  Learning packed(1), aligned(16), other(16);
  for (int i = 0; i < 3; ++i) packed.step(i);
  // saved where nothing is aligned, continued where everything is, and the other way round
  StateSnapshot(packed.visit()).restore(aligned.visit());
  EXPECT_EQ(state_hash(aligned.visit()), state_hash(packed.visit()));
  aligned.expect_gaps_of_0();
  StateSnapshot(aligned.visit()).restore(other.visit());
  packed.step(3), other.step(3);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(close(other.net.parameters()[i], packed.net.parameters()[i], 1e-6));
}

}  // namespace
}  // namespace maglev
