#pragma once
// A short list whose elements may leave while it is walked.

#include <cstdint>

#include "base/core/hd.h"

namespace maglev::minatar {

template <class T, int kMost>
struct List {
  int32_t count;
  T items[kMost];

  bool valid() const { return count >= 0 && count <= kMost; }
  MAGLEV_HD T& operator[](int i) { return items[i]; }
  MAGLEV_HD const T& operator[](int i) const { return items[i]; }
  MAGLEV_HD void clear() { count = 0; }
  /// Nothing where the list is full.
  MAGLEV_HD void push(const T& item) {
    if (count < kMost) items[count++] = item;
  }
  MAGLEV_HD void erase(int at) {
    --count;
    for (int i = at; i < count; ++i) items[i] = items[i + 1];
  }
  /// Erases the first element that equals `item`, which is there.
  MAGLEV_HD int erase_equal(T item) {
    int at = 0;
    while (at + 1 < count && !(items[at] == item)) ++at;
    erase(at);
    return at;
  }
  /// Erases the first element that equals element `i`, and says where that one is now: -1 when it
  /// was itself the first.
  MAGLEV_HD int erase_equal_of(int i) { return erase_equal(items[i]) < i ? i - 1 : -1; }
};

}  // namespace maglev::minatar
