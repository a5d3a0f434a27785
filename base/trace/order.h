#pragma once
// A thread's spans as they lie on a time line.

#include <vector>

#include "base/trace/tracer.h"

namespace maglev::trace {

/// From the outside in: by begin, and what holds others before them.
std::vector<const SpanRecord*> outside_in(const ThreadSpans& thread);
/// As the file's "cat" says.
const char* name_of(Category category);

}  // namespace maglev::trace
