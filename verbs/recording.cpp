#include "verbs/recording.h"

#include "base/core/file.h"

namespace maglev::verbs {

std::unique_ptr<Animation> recording_to(const std::string& file) {
  auto recording = make_animation(file);
  // a folder that cannot be written says so before the work, not after it
  FileWriter probe(temporary_beside(file));
  return recording;
}

}  // namespace maglev::verbs
