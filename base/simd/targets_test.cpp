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
  const Variable variable("avx51");
  try {
    limit_simd();
    FAIL() << "was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("avx512"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace maglev
