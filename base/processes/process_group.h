#pragma once
// The processes of one run, and the memory that those of a machine share. The first of a machine,
// its head, starts the others there and ends with them; the head of the first machine is the
// leader, of rank 0. All make the same calls in the same order, and a call returns when all have
// made it. Nobody outside can reach that memory: it has no name. Between machines the heads have a
// line (MachineLine); what is added up has the same bits however the processes lie.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <sched.h>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/core/error.h"
#include "base/processes/machine_line.h"

namespace maglev {

class ProcessGroup {
 public:
  static constexpr int kMost = 64;  ///< processes

  /// In the head of a machine: starts the other processes there, so that all machines of `line`
  /// (null: this one) have `size` together, as many each: command[0] with the other words, and one
  /// that join() understands. What they print on standard output is not heard. They end when the
  /// calling thread does. Throws Error.
  static std::unique_ptr<ProcessGroup> lead(int size, const std::vector<std::string>& command,
                                            std::unique_ptr<MachineLine> line = nullptr);
  /// In a process that was started so: `place` is its last word. Throws Error.
  static std::unique_ptr<ProcessGroup> join(const std::string& place);
  /// A head: ends those that still run, and takes its processors back.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Bytes of memory that the `here` processes of a machine come to share at most in a run of
  /// `size`.
  static int64_t bytes(int size, int here);

  int rank() const { return rank_; }
  int size() const;
  /// Those of this machine: how many, and the first one's rank.
  int here() const;
  int first_here() const;
  bool is_head() const { return rank_ == first_here(); }
  /// " on node2", for what is said of this machine's processes; where there is one machine nothing.
  std::string where() const;
  /// Processors of this machine that each of them may use, as they were before they were dealt out.
  int processors() const;

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

  /// The others learn of it, and fail with `what`. For who is about to end, and for heads that have
  /// heard of it. Any thread.
  void fail(const std::string& what) noexcept;
  /// A head: why one of the others is gone; empty: none is. Any thread.
  std::string lost() const;
  /// A head: waits until the others of its machine and the machines behind it have ended. Throws
  /// Error where one was not content, or takes longer than a minute.
  void wait_for_end();

 private:
  struct Shared;
  ProcessGroup(int memory, size_t bytes);

  void start_others(const std::vector<std::string>& command);
  template <class T>
  void add_up(T* values, size_t count);
  /// Where process `rank` writes in the call that is under way. Calls take turns with two places
  /// each: who writes for the next one disturbs nobody who still reads. What processes of other
  /// machines have, this one's head writes.
  std::byte* place_of(int rank) const;
  /// Until all others of this machine have come as often as this process.
  void meet();
  enum class Call : uint8_t { word, sum, gather };
  static uint64_t number_of(Call call, size_t bytes) { return uint64_t(call) << 56 | bytes; }
  /// The first meeting of a call: throws Gone where others make another one.
  void meet_for(Call call, size_t bytes);
  /// Then `bytes` of each process of all machines are in its place here.
  void bring_places(Call call, size_t bytes);
  /// A head: adds up `count` values of all machines' processes, of this one's by place in `own`,
  /// into `total`, which may be one of them.
  template <class T>
  void add_over_machines(const std::vector<const T*>& own, size_t count, T* total);
  /// What a head does with other machines, if there are any.
  template <class Work>
  void over_the_line(const Work& work);
  void put_word(const std::string& text);
  void wait_for(int local);
  void arrive();
  /// Throws Gone where one has failed or ended, now or before.
  void look_after_others();

  int rank_ = 0, local_ = 0;  ///< among all, and on this machine
  int memory_;
  size_t bytes_;  ///< of the memory that is shared
  Shared* shared_ = nullptr;
  std::unique_ptr<MachineLine> line_;  ///< null: one machine, or no head
  std::vector<std::byte> partial_;     ///< sums on their way along the line
  std::vector<pid_t> children_;        ///< by place here, 0: has ended; empty but in a head
  mutable std::mutex mutex_;           ///< of who has ended, which lost() looks at too
  std::mutex failing_;                 ///< of what this process says of its failure
  std::string gone_;                   ///< why no call can be made; empty: all are there
  uint32_t arrivals_ = 0;              ///< how often this process has come
  uint64_t calls_ = 0;
  int looks_;             ///< at another process's count before this one sleeps
  cpu_set_t processors_;  ///< a head's, as they were before they were dealt out
};

}  // namespace maglev
