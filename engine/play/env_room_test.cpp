#include "engine/play/env_room.h"

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "base/env/env_params.h"
#include "tests/errors.h"

namespace maglev {
namespace {

TEST(EnvRoom, more_than_memory_holds_is_refused_before_it_is_taken) {
  const EnvEntry& entry = find_env("cartpole");
  const EnvParams params(entry, {});
  for (int64_t count : {int64_t(1) << 42, int64_t(1) << 62}) {
    const std::string error =
        error_of([&] { expect_env_room(entry, params.get(), count, at::kCPU); });
    EXPECT_TRUE(contains(error, "environments at once take ") &&
                contains(error, " of memory are there; take fewer"))
        << error;
  }
  EXPECT_NO_THROW(expect_env_room(entry, params.get(), 1 << 16, at::kCPU));
}

}  // namespace
}  // namespace maglev
