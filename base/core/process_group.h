#pragma once
// The processes of one run on one machine, and the memory they share. The leader, of rank 0, starts
// the others and ends with them; all make the same calls in the same order, and a call returns when
// all have made it. Nobody outside can reach that memory: it has no name.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <sched.h>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/core/error.h"

namespace maglev {

class ProcessGroup {
 public:
  static constexpr int kMost = 64;  ///< processes

  /// Starts `size` - 1 further processes: command[0] with the other words, and one that join()
  /// understands. What they print on standard output is not heard. They end when the calling thread
  /// does. Throws Error.
  static std::unique_ptr<ProcessGroup> lead(int size, const std::vector<std::string>& command);
  /// In a process that was started so: `place` is its last word. Throws Error.
  static std::unique_ptr<ProcessGroup> join(const std::string& place);
  /// The leader: ends those that still run, and takes its processors back.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Bytes of memory that `size` processes come to share at most.
  static int64_t bytes(int size);

  int rank() const { return rank_; }
  int size() const;

  /// Another process has failed or ended: nothing that all take part in is possible any more.
  struct Gone : Error {
    using Error::Error;
  };

  // All of these throw Gone where that is so, with what it said.

  /// Adds `count` values of all processes in order of rank, in place; the same bits in each.
  void sum(float* values, size_t count);
  void sum(double* values, size_t count);
  /// Likewise of bfloat16s as bits: added in f32 and rounded once.
  void sum(uint16_t* values, size_t count);
  /// bytes of each process by rank into `all` [size * bytes].
  void gather(const void* own, size_t bytes, void* all);
  /// The leader's word to the others, who wait in hear() as long as it takes.
  void tell(const std::string& text);
  std::string hear();

  /// The others learn of it, and fail with `what`. For who is about to end.
  void fail(const std::string& what) noexcept;
  /// The leader: why one of the others is gone; empty: none is. Any thread.
  std::string lost() const;
  /// The leader: waits until the others have ended. Throws Error where one was not content, or takes
  /// longer than ten seconds.
  void wait_for_end();

 private:
  struct Shared;
  ProcessGroup(int rank, int size, int memory);

  void start_others(const std::vector<std::string>& command);
  template <class T>
  void add_up(T* values, size_t count);
  /// Where process `rank` writes in the call that is under way. Calls take turns with two places
  /// each: who writes for the next one disturbs nobody who still reads.
  std::byte* place_of(int rank) const;
  /// Until all others have come as often as this process.
  void meet();
  enum class Call : uint8_t { word, sum, gather };
  /// The first meeting of a call: throws Gone where others make another one.
  void meet_for(Call call, size_t bytes);
  void wait_for(int rank);
  void arrive();
  /// Throws Gone where one has failed or ended, now or before.
  void look_after_others();

  int rank_, memory_;
  size_t bytes_;  ///< of the memory that is shared
  Shared* shared_ = nullptr;
  std::vector<pid_t> children_;  ///< by rank, 0: has ended; empty but in the leader
  mutable std::mutex mutex_;     ///< of who has ended, which lost() looks at too
  std::string gone_;             ///< why no call can be made; empty: all are there
  uint32_t arrivals_ = 0;        ///< how often this process has come
  uint64_t calls_ = 0;
  int looks_;             ///< at another process's count before this one sleeps
  cpu_set_t processors_;  ///< the leader's, as they were before they were dealt out
};

}  // namespace maglev
