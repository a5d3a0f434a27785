#pragma once
// This program run as a child: bench and several seeds measure and train in processes of their own,
// each with fresh threads, caches and memory.

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace maglev {

class Child {
 public:
  /// Starts this program with `words`; what it prints goes to the file `log`. It has a process
  /// group of its own, so that Ctrl-C in a terminal reaches only the parent, and ends when the
  /// parent does: a SIGTERM, upon which a run saves. `gpu`: its CUDA_VISIBLE_DEVICES; empty: this
  /// process's. Throws Error when it cannot be started.
  Child(const std::vector<std::string>& words, const std::string& log, const std::string& gpu = "");
  /// Kills it where it still runs.
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  bool running();
  void signal(int number);
  /// Waits for its end; its exit status, or 128 + the signal that killed it.
  int wait();
  /// The most memory it had, once it has ended; 0 before.
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  pid_t pid_ = -1;
  // waitpid, and what it tells of the memory
  bool reap(int options);

  int status_ = 0;
  int64_t peak_bytes_ = 0;
  bool ended_ = false;
};

}  // namespace maglev
