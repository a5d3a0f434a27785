#include "base/core/background.h"

#include <atomic>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev {
namespace {

TEST(Background, does_one_thing_after_another_beside_its_owner) {
  Background background("test");
  background.wait();
  int sum = 0;
  for (int i = 0; i < 1000; ++i) {
    background.start([&sum, i] { sum += i; });
    background.wait();
    ASSERT_EQ(sum, i * (i + 1) / 2);
  }
}

TEST(Background, gives_an_exception_to_who_waits_and_goes_on) {
  Background background("test");
  background.start([] { throw Error("[here] of the thread"); });
  EXPECT_THROW(background.wait(), Error);
  background.wait();
  bool done = false;
  background.start([&] { done = true; });
  background.wait();
  EXPECT_TRUE(done);
}

TEST(Background, that_ends_has_done_what_was_started) {
  std::atomic<int> done{0};
  for (int i = 0; i < 200; ++i) {
    Background background("test");
    background.start([&] { ++done; });
  }
  EXPECT_EQ(done, 200);
}

}  // namespace
}  // namespace maglev
