#pragma once
// What files of traces say of a run, alike in each process that shares it.

#include <string>

#include "base/trace/file.h"
#include "engine/train/trainer.h"

namespace maglev {

/// What the traces of the run in `folder` say of it and of this process.
trace::RecordedRun recorded_run(Trainer& trainer, const std::string& folder);

}  // namespace maglev
