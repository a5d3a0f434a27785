#pragma once
// A folder of the run's first process, such as the checkpoint that all begin with, where processes
// of other machines can read it too.

#include <string>

#include "base/processes/process_group.h"

namespace maglev {

class SharedFolder {
 public:
  /// All processes make it at once, with the folder as the first one names it, whose files (none in
  /// folders below it) go to a folder of their own on every other machine, below TMPDIR. Throws
  /// Error where they cannot be read or written.
  SharedFolder(ProcessGroup& orders, const std::string& folder);
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  /// Where this process finds it.
  const std::string& path() const { return path_; }
  /// All at once: nobody reads it any more, and copies go.
  void let_go();

 private:
  // A folder below TMPDIR, which goes with this.
  class Temporary {
   public:
    ~Temporary() { remove(); }
    /// Throws Error where none can be made.
    const std::string& make();
    void remove();

   private:
    std::string path_;  ///< empty: there is none
  };
  void give();
  void take(bool writes);

  ProcessGroup& orders_;
  std::string path_;
  Temporary copy_;  ///< made by the head of a machine that is not the first
};

}  // namespace maglev
