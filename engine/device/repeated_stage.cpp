#include "engine/device/repeated_stage.h"

#include <cstdio>

#include "base/core/error.h"

namespace maglev {

void RepeatedStage::run(GraphPool& pool, const std::function<void()>& stage) {
  if (graph_.captured() || !pool.captures() || failed_) return graph_.run(stage);
  pool.on_side_stream([&] {
    if (calls_++ < kCallsBeforeCapture) return stage();
    try {
      graph_.capture(pool, stage);
    } catch (const Error& e) {
      failed_ = true;
      // nobody above knows that it was tried; without this it would only be slow
      std::fprintf(stderr, "maglev: %s; it runs eagerly\n", e.what());
    }
    graph_.run(stage);
  });
}

}  // namespace maglev
