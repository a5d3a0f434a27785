#pragma once
// Where tests write: a folder of this process alone, for the same test may run beside itself as
// another processor.

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace maglev {

/// An empty folder at first, gone when the process ends.
inline const std::string& test_folder() {
  struct Folder {
    Folder() : path(testing::TempDir() + "maglev-XXXXXX") {
      if (!::mkdtemp(path.data())) std::abort();
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::string path;
  };
  static const Folder folder;
  return folder.path;
}

}  // namespace maglev
