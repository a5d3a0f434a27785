#include "engine/algo/micro_batch.h"

#include <algorithm>
#include <vector>

#include <c10/util/Exception.h>

#include <gtest/gtest.h>

namespace maglev {
namespace {

[[noreturn]] void run_out() { TORCH_CHECK_WITH(OutOfMemoryError, false, "no more"); }

TEST(MicroBatch, halves_until_it_fits_and_stays_so) {
  MicroBatch batch(1000, at::kCPU);
  std::vector<int64_t> asked;
  const auto learn = [&](int64_t rows) {
    asked.push_back(rows);
    if (rows > 300) run_out();
  };
  EXPECT_EQ(batch.note(), "");
  batch.run(learn);
  batch.run(learn);
  EXPECT_EQ(asked, (std::vector<int64_t>{1000, 500, 250, 250}));
  EXPECT_EQ(batch.rows(), 250);
  EXPECT_NE(batch.note().find("learned from 250 rows at a time"), std::string::npos);
}

TEST(MicroBatch, gives_up_after_three_halvings_in_its_life) {
  MicroBatch batch(64, at::kCPU);
  int calls = 0;
  EXPECT_THROW(batch.run([&](int64_t) { ++calls, run_out(); }), c10::OutOfMemoryError);
  EXPECT_EQ(calls, 4);
  EXPECT_THROW(batch.run([&](int64_t) { ++calls, run_out(); }), c10::OutOfMemoryError);
  EXPECT_EQ(calls, 5);
}

TEST(MicroBatch, a_library_without_memory_is_believed) {
  for (const char* what :
       {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "CUDA error: out of memory"}) {
    MicroBatch batch(8, at::kCPU);
    batch.run([&](int64_t rows) { TORCH_CHECK(rows < 8, what); });
    EXPECT_EQ(batch.rows(), 4) << what;
  }
  MicroBatch batch(8, at::kCPU);
  EXPECT_THROW(batch.run([](int64_t) { TORCH_CHECK(false, "CUDNN_STATUS_BAD_PARAM"); }),
               c10::Error);
  EXPECT_EQ(batch.rows(), 8);
}

TEST(MicroBatch, sizes_that_cannot_be_are_passed_over) {
  MicroBatch batch(9, at::kCPU, "rows", [](int64_t most) { return most >= 3 ? 3 : 1; });
  std::vector<int64_t> asked;
  batch.run([&](int64_t rows) {
    asked.push_back(rows);
    if (rows > 1) run_out();
  });
  EXPECT_EQ(asked, (std::vector<int64_t>{9, 3, 1}));
}

TEST(MicroBatch, the_least_size_that_can_be_is_not_tried_twice) {
  MicroBatch batch(40, at::kCPU, "rows",
                   [](int64_t most) { return std::max<int64_t>(16, most / 16 * 16); });
  std::vector<int64_t> asked;
  EXPECT_THROW(batch.run([&](int64_t rows) { asked.push_back(rows), run_out(); }),
               c10::OutOfMemoryError);
  EXPECT_EQ(asked, (std::vector<int64_t>{40, 16}));
  EXPECT_NE(batch.note().find("learned from 16 rows at a time"), std::string::npos);
}

TEST(MicroBatch, one_row_is_not_halved_and_other_errors_are_none_of_its_business) {
  MicroBatch one(1, at::kCPU);
  EXPECT_THROW(one.run([](int64_t) { run_out(); }), c10::OutOfMemoryError);
  MicroBatch many(8, at::kCPU);
  EXPECT_THROW(many.run([](int64_t) { throw std::runtime_error("another"); }), std::runtime_error);
  EXPECT_EQ(many.rows(), 8);
}

}  // namespace
}  // namespace maglev
