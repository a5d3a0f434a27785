#pragma once
// One stage of the iteration as a unit that is run again and again over the same buffers. On CPU it
// is a call. A stage must keep addresses and shapes fixed and read nothing back, so that on CUDA it
// can be captured and replayed.

#include <utility>

namespace maglev {

class StepGraph {
 public:
  template <class Stage>
  void run(Stage&& stage) {
    std::forward<Stage>(stage)();
  }
};

}  // namespace maglev
