#pragma once
// What an update does where memory does not suffice for it: holds it to less and less.

#include <string>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <gtest/gtest.h>

#include "engine/host/cpu_cache.h"
#include "tests/close.h"

namespace maglev {

/// While this is there, tensors may take so many bytes beside what is held; 0: any.
class LimitedMemory {
 public:
  explicit LimitedMemory(int64_t bytes) {
    release_cpu_cache();
    before_ = cpu_cache_bytes();
    if (bytes > 0) limit_cpu_cache(before_ + bytes);
  }
  ~LimitedMemory() { limit_cpu_cache(0); }

  int64_t taken() const { return cpu_cache_bytes() - before_; }

 private:
  int64_t before_;
};

/// What an update left behind.
struct Limited {
  at::Tensor result;
  int64_t bytes;  ///< that it took
  std::string note;
};

/// Less and less of the bytes that `update(bytes)` took without a limit is all there is, until it
/// says what it did about that, `note` among it; its result stays the same. Then too few for any.
template <class Update>
void expect_parts_where_memory_is_short(const Update& update, const Tolerance& tolerance,
                                        const std::string& note) {
  use_cpu_cache();
  update(0);  // libraries set themselves up
  // what it left behind is more than it had at a time: how much is the libraries' affair
  const Limited whole = update(0);
  EXPECT_EQ(whole.note, "");
  Limited less = whole;
  for (int64_t sixteenths = 15; sixteenths > 1 && less.note.empty(); --sixteenths) {
    const int64_t limit = whole.bytes * sixteenths / 16;
    less = update(limit);
    EXPECT_LE(less.bytes, limit);
    EXPECT_TRUE(close(less.result, whole.result, tolerance)) << sixteenths;
  }
  EXPECT_NE(less.note.find(note), std::string::npos) << less.note;
  EXPECT_THROW(update(whole.bytes / 64), c10::OutOfMemoryError);
}

}  // namespace maglev
