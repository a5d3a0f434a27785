#include "verbs/kernels/bench.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace maglev::verbs::kernels {
namespace {

// work whose time is proportional to `rounds`
void spin(int64_t rounds) {
  volatile double sum = 0;
  for (int64_t i = 0; i < rounds; ++i) sum = sum + 1;
}

// a machine whose pace changes meanwhile does not take ten times as long for the same
TEST(KernelBench, a_hundred_times_the_work_takes_about_a_hundred_times_as_long) {
  Peak peak;
  KernelCase one{.name = "spin",
                 .reference = [](const Tensors&) { return spin(1'000'000), Tensors{}; },
                 .fused = [](const Tensors&) { return spin(10'000), Tensors{}; },
                 .bytes = 1000};
  const BenchResult result = bench_case(one, at::kCPU, peak);
  EXPECT_GT(result.reference_s / result.fused_s, 10);
  EXPECT_LT(result.reference_s / result.fused_s, 1000);
}

TEST(KernelBench, repeats_are_timed_instead_where_a_case_has_them) {
  Peak peak;
  KernelCase one{.name = "spin",
                 .reference = [](const Tensors&) { return spin(1000), Tensors{}; },
                 .fused = [](const Tensors&) { return spin(1000), Tensors{}; },
                 .repeat_fused = [] { spin(100'000); }};
  const BenchResult result = bench_case(one, at::kCPU, peak);
  EXPECT_GT(result.fused_s, 10 * result.reference_s);
}

TEST(KernelBench, a_copy_is_of_the_order_of_the_peak_of_copying) {
  Peak peak;
  auto from = at::ones({1 << 18}), to = at::zeros({1 << 18});
  KernelCase one{.name = "copy",
                 .reference = [=](const Tensors&) { return Tensors{from.clone()}; },
                 .fused = [=](const Tensors&) { return Tensors{from.clone()}; },
                 .bytes = 2 << 20,
                 .repeat_fused = [=] { std::memcpy(to.data_ptr(), from.data_ptr(), 1 << 20); }};
  const BenchResult result = bench_case(one, at::kCPU, peak);
  EXPECT_GT(result.share_of_peak, 0.1);
  EXPECT_LT(result.share_of_peak, 10);
}

}  // namespace
}  // namespace maglev::verbs::kernels
