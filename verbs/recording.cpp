#include "verbs/recording.h"

#include <filesystem>

#include "base/core/error.h"
#include "base/core/file.h"

namespace maglev::verbs {

std::unique_ptr<Animation> recording_to(const std::string& verb, const std::string& file,
                                        bool overwrite) {
  auto recording = make_animation(file);
  if (std::filesystem::is_directory(file))
    throw Error("[" + verb + "] " + file + " is a folder; name a file to record to");
  if (path_exists(file) && !overwrite)
    throw Error("[" + verb + "] " + file +
                " is there already; choose another name, or add --overwrite to replace it");
  // a folder that cannot be written says so before the work, not after it
  FileWriter probe(temporary_beside(file));
  return recording;
}

}  // namespace maglev::verbs
