#include "base/simd/targets.h"

#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev {
namespace {

// MAGLEV_SIMD, put back when it goes
class Variable {
 public:
  explicit Variable(const char* value) {
    if (const char* before = std::getenv("MAGLEV_SIMD")) before_ = before;
    setenv("MAGLEV_SIMD", value, 1);
  }
  ~Variable() {
    if (before_) setenv("MAGLEV_SIMD", before_->c_str(), 1);
    else unsetenv("MAGLEV_SIMD");
  }

 private:
  std::optional<std::string> before_;
};

TEST(Simd, unknown_instructions_are_answered_with_near_ones) {
  // what kernels run with but for its last letter, on any kind of processor
  const std::string known = simd_name();
  ASSERT_NE(known, "less");
  const Variable variable(known.substr(0, known.size() - 1).c_str());
  try {
    limit_simd();
    FAIL() << "was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean " + known), std::string::npos) << e.what();
  }
}

TEST(Simd, kernels_have_vectors_of_this_kind_of_processor) {
#if defined(__aarch64__)
  EXPECT_EQ(simd_name(), "neon");
  EXPECT_TRUE(simd_has_fma());
#else
  // the oldest with 64 bits has less than SSE4, and no test runs there
  EXPECT_EQ(simd_has_fma(), simd_name().starts_with("avx")) << simd_name();
  EXPECT_NE(simd_name(), "neon");
#endif
}

}  // namespace
}  // namespace maglev
