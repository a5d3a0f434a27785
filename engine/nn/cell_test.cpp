#include "engine/nn/cell.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "engine/host/machine.h"
#include "tests/close.h"

namespace maglev {
namespace {

constexpr int64_t kSteps = 7, kSequences = 3, kInputs = 5, kUnits = 4;

class Cells : public testing::TestWithParam<CellKind> {
 protected:
  void SetUp() override {
    claim_threads();
    at::manual_seed(2);
    for (at::Tensor p : cell.parameters()) at::NoGradGuard(), p.detach().normal_(0, 0.5);
    x = at::randn({kSteps * kSequences, kInputs}), h = at::randn({kSequences, kUnits});
    keep = at::ones({kSteps, kSequences, 1});
  }
  at::Tensor parameter(const char* name) { return cell.named_parameters()[name]; }
  at::Tensor step(int64_t l) const { return x.narrow(0, l * kSequences, kSequences); }

  Initializer init{1};
  Cell cell{GetParam(), kInputs, kUnits, init};
  at::Tensor x, h, keep;
};

TEST_P(Cells, are_the_formula_step_by_step) {
  const at::NoGradGuard no_grad;
  const auto all = cell.forward(x, h, keep).view({kSteps, kSequences, kUnits});
  at::Tensor state = h;
  for (int64_t l = 0; l < kSteps; ++l) {
    if (GetParam() == CellKind::gru) {
      state = at::gru_cell(step(l), state, parameter("input_weight"), parameter("memory_weight"),
                           parameter("input_bias"), parameter("memory_bias"));
    } else {
      const auto of_input = at::linear(step(l), parameter("input_weight"), parameter("input_bias"));
      const auto update = at::sigmoid(of_input.narrow(1, 0, kUnits));
      state = (1 - update) * state + update * of_input.narrow(1, kUnits, kUnits);
    }
    EXPECT_TRUE(close(all[l], state, 1e-5)) << "step " << l;
  }
}

TEST_P(Cells, forget_what_was_before_a_step_that_does_not_keep_it) {
  const at::NoGradGuard no_grad;
  const auto whole = cell.forward(x, h, keep).view({kSteps, kSequences, kUnits});
  keep[3][1] = 0;
  const auto cut = cell.forward(x, h, keep).view({kSteps, kSequences, kUnits});
  EXPECT_TRUE(close(cut.narrow(0, 0, 3), whole.narrow(0, 0, 3), 0));
  EXPECT_FALSE(close(cut[3][1], whole[3][1], 1e-3));
  for (int64_t other : {0, 2}) EXPECT_TRUE(close(cut.select(1, other), whole.select(1, other), 0));
  // as it begins
  const auto begun = cell.forward(x.narrow(0, 3 * kSequences, 4 * kSequences), at::zeros_like(h),
                                  keep.narrow(0, 3, 4));
  EXPECT_TRUE(close(begun.view({4, kSequences, kUnits}).select(1, 1),
                    cut.narrow(0, 3, 4).select(1, 1), 1e-6));
}

TEST_P(Cells, have_gradients_through_time_but_not_through_an_episodes_beginning) {
  keep[3][1] = 0;
  x.requires_grad_(true), h.requires_grad_(true);
  cell.forward(x, h, keep).narrow(0, (kSteps - 1) * kSequences, kSequences).sum().backward();
  const auto by_step = x.grad().abs().sum(1).view({kSteps, kSequences});
  EXPECT_TRUE((by_step.select(1, 0) > 0).all().item<bool>());
  EXPECT_TRUE((by_step.select(1, 1).narrow(0, 0, 3) == 0).all().item<bool>());
  EXPECT_TRUE((by_step.select(1, 1).narrow(0, 3, 4) > 0).all().item<bool>());
  EXPECT_GT(h.grad()[0].abs().sum().item<float>(), 0);
  EXPECT_EQ(h.grad()[1].abs().sum().item<float>(), 0);
  for (const auto& p : cell.parameters()) EXPECT_GT(p.grad().abs().sum().item<float>(), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Cells, testing::Values(CellKind::gru, CellKind::mingru),
                         [](const auto& info) {
                           return std::string(names_of(info.param)[size_t(info.param)]);
                         });

}  // namespace
}  // namespace maglev
