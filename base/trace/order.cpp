#include "base/trace/order.h"

#include <algorithm>
#include <array>

namespace maglev::trace {

std::vector<const SpanRecord*> outside_in(const ThreadSpans& thread) {
  std::vector<const SpanRecord*> spans;
  spans.reserve(thread.spans.size());
  // of two that begin and end together the one that ended later is the outer one
  for (size_t i = thread.spans.size(); i-- > 0;) spans.push_back(&thread.spans[i]);
  std::stable_sort(spans.begin(), spans.end(), [](const SpanRecord* a, const SpanRecord* b) {
    return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->end_ns > b->end_ns;
  });
  return spans;
}

const char* name_of(Category category) {
  constexpr std::array kNames = {"stage", "wait", "copy", "kernel_cpu", "graph"};
  return kNames[size_t(category)];
}

}  // namespace maglev::trace
