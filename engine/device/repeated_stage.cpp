#include "engine/device/repeated_stage.h"

#include "base/core/error.h"

namespace maglev {

void RepeatedStage::run(GraphPool& pool, const std::function<void()>& stage) {
  if (graph_.captured() || !pool.captures() || failed_) return graph_.run(stage);
  pool.on_side_stream([&] {
    if (calls_++ < kCallsBeforeCapture) return stage();
    try {
      graph_.capture(pool, stage);
    } catch (const Error&) {
      failed_ = true;
    }
    graph_.run(stage);
  });
}

}  // namespace maglev
