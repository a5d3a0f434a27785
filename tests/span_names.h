#pragma once
// What a trace would name of some work.

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/trace/tracer.h"

namespace maglev {

/// Names of the spans that `work` makes, of any thread. Threads that it begins end within it.
template <class Work>
std::set<std::string> span_names(const Work& work) {
  trace::Tracer tracer(/*most=*/100'000);
  EXPECT_TRUE(tracer.start());
  work();
  tracer.stop();
  std::set<std::string> names;
  for (const auto& thread : tracer.take().threads)
    for (const trace::SpanRecord& span : thread.spans) names.insert(span.name);
  return names;
}

/// Those of `wanted` that are not among `names`.
inline std::set<std::string> missing(const std::set<std::string>& wanted,
                                     const std::set<std::string>& names) {
  std::set<std::string> left;
  for (const std::string& name : wanted)
    if (!names.contains(name)) left.insert(name);
  return left;
}

}  // namespace maglev
