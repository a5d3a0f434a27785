#include "engine/nn/cell.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "engine/host/machine.h"
#include "tests/close.h"

namespace maglev {
namespace {

constexpr int64_t kCellSteps = 7, kCellRows = 3, kCellInputs = 5, kCellUnits = 4;

// fused, or in ATen
class Cells : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    claim_threads();
    at::manual_seed(2);
    at::NoGradGuard no_grad;
    for (at::Tensor p : cell.parameters()) p.normal_(0, 0.5);
    x = at::randn({kCellSteps * kCellRows, kCellInputs}), h = at::randn({kCellRows, kCellUnits});
    keep = at::ones({kCellSteps, kCellRows});
  }
  at::Tensor parameter(const char* name) { return cell.named_parameters()[name]; }
  at::Tensor by_step(const at::Tensor& rows) const {
    return rows.view({-1, kCellRows, rows.size(1)});
  }

  Initializer init{1};
  Cell cell{kCellInputs, kCellUnits, GetParam(), init};
  at::Tensor x, h, keep;
};

TEST_P(Cells, are_the_formula_step_by_step) {
  const at::NoGradGuard no_grad;
  const auto all = by_step(cell.forward(x, h, keep));
  at::Tensor state = h;
  for (int64_t l = 0; l < kCellSteps; ++l) {
    const auto gates = at::linear(by_step(x)[l], parameter("input_weight")) +
                       at::linear(state, parameter("memory_weight")) + parameter("bias");
    const auto part = gates.chunk(3, 1);
    const auto candidate = at::tanh(at::sigmoid(part[0]) * part[1]);
    const auto update = at::sigmoid(part[2] - 1);
    state = update * candidate + (1 - update) * state;
    EXPECT_TRUE(close(all[l], state, 1e-5)) << "step " << l;
  }
}

TEST_P(Cells, forget_what_was_before_a_step_that_does_not_keep_it) {
  const at::NoGradGuard no_grad;
  const auto whole = by_step(cell.forward(x, h, keep));
  keep[3][1] = 0;
  const auto cut = by_step(cell.forward(x, h, keep));
  EXPECT_TRUE(close(cut.narrow(0, 0, 3), whole.narrow(0, 0, 3), 0));
  EXPECT_FALSE(close(cut[3][1], whole[3][1], 1e-3));
  for (int64_t other : {0, 2}) EXPECT_TRUE(close(cut.select(1, other), whole.select(1, other), 0));
  // as it begins
  const auto begun = by_step(cell.forward(x.narrow(0, 3 * kCellRows, 4 * kCellRows),
                                          at::zeros_like(h), keep.narrow(0, 3, 4)));
  EXPECT_TRUE(close(begun.select(1, 1), cut.narrow(0, 3, 4).select(1, 1), 1e-6));
}

TEST_P(Cells, have_gradients_through_time_but_not_through_an_episodes_beginning) {
  keep[3][1] = 0;
  x.requires_grad_(true), h.requires_grad_(true);
  by_step(cell.forward(x, h, keep))[kCellSteps - 1].sum().backward();
  const auto of_step = by_step(x.grad()).abs().sum(2);
  EXPECT_TRUE((of_step.select(1, 0) > 0).all().item<bool>());
  EXPECT_TRUE((of_step.select(1, 1).narrow(0, 0, 3) == 0).all().item<bool>());
  EXPECT_TRUE((of_step.select(1, 1).narrow(0, 3, 4) > 0).all().item<bool>());
  EXPECT_GT(h.grad()[0].abs().sum().item<float>(), 0);
  EXPECT_EQ(h.grad()[1].abs().sum().item<float>(), 0);
  for (const auto& p : cell.parameters()) EXPECT_GT(p.grad().abs().sum().item<float>(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fused, Cells, testing::Bool());

TEST(Cell, has_the_same_gradients_fused_and_in_aten) {
  claim_threads();
  for (const auto& [L, B, H] : {std::array<int64_t, 3>{1, 1, 1}, {2, 5, 3}, {16, 8, 32}}) {
    at::manual_seed(3);
    const auto x = at::randn({L * B, 6}), h = at::randn({B, H}), weight = at::randn({L * B, H});
    const auto keep = (at::rand({L, B}) < 0.8).to(at::kFloat);
    std::vector<std::vector<at::Tensor>> gradients;
    for (const bool fused : {true, false}) {
      Initializer init(1);
      Cell cell(6, H, fused, init);
      const auto own_x = x.clone().requires_grad_(true), own_h = h.clone().requires_grad_(true);
      (cell.forward(own_x, own_h, keep) * weight).sum().backward();
      gradients.push_back({own_x.grad(), own_h.grad()});
      for (const auto& p : cell.parameters()) gradients.back().push_back(p.grad());
    }
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      // sums of L * B terms that went through L steps
      const double size = std::max(1.0, gradients[1][i].abs().max().item<double>());
      EXPECT_TRUE(close(gradients[0][i], gradients[1][i], 1e-5 * size)) << L << ", " << i;
    }
  }
}

}  // namespace
}  // namespace maglev
