#pragma once
// Another program, started with a socket as its standard input: it is written to, and what it writes
// there is read. What it prints is kept in memory, so that it never waits for a reader.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/trace/thread_use.h"

namespace maglev {

/// A descriptor that is closed, whatever throws.
class OpenFile {
 public:
  OpenFile() = default;
  ~OpenFile() { close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int get() const { return number_; }
  void take(int number) { close(), number_ = number; }
  void close();

 private:
  int number_ = -1;
};

/// What all other programs of this process that run now have had of processors since they began: sums
/// over their threads, seconds. Their own children count for nothing. NaN: the kernel does not say.
struct ProgramsUse {
  int running = 0;
  double on_processor_s = 0;
  double queued_s = 0;   ///< ready to go on, and waiting for a processor
  int64_t resident = 0;  ///< bytes of memory of their own, mapped files left out; 0: unknown
};
ProgramsUse use_of_other_programs();
/// The same of each of their threads, by tid.
std::vector<trace::ThreadUse> threads_of_other_programs();

class OtherProgram {
 public:
  /// Starts `path` with `words` behind its name, in a process group of its own: Ctrl-C in a
  /// terminal is not for it. Throws Error, which begins with `where`, when it cannot be started.
  OtherProgram(const std::string& path, const std::vector<std::string>& words,
               const std::string& where);
  /// Kills it where it still runs.
  ~OtherProgram();

  /// Our end of its standard input, a stream socket: a program that died is an error there and no
  /// signal, with MSG_NOSIGNAL.
  int socket() const { return socket_.get(); }
  /// Writes all of it. False: the program takes no more.
  bool send(const void* bytes, size_t count) const;
  /// The system's number of it; -1: it has ended.
  int pid() const { return int(pid_); }
  /// Bytes of memory of its own, mapped files left out; 0: unknown.
  int64_t resident() const;
  /// Whether it has not ended yet.
  bool running();
  /// Tells it that there is no more, and waits. Whether it was content.
  bool end();
  /// The same at once, whatever it is at.
  void kill();
  /// How it ended: "exit status 3", "signal 9 (Killed)"; behind end() and kill().
  const std::string& ending() const { return ending_; }
  /// Forgets what it printed where that is more than `most` bytes.
  void limit_said(size_t most);
  /// The last `most` bytes of what it printed, in one line; "nothing".
  std::string said(size_t most = 300) const;

 private:
  // waitpid, and what it tells
  bool reap(int options);

  OpenFile socket_, said_;
  pid_t pid_ = -1;
  bool content_ = false;
  std::string note_, ending_;
};

}  // namespace maglev
