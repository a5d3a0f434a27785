#pragma once
// The machines of one run, in a line: each is connected by TCP to the one before it and the one
// behind it. The first waits until the others have come; who comes when decides nothing but their
// numbers. All make the same calls in the same order, and one thread makes them.
//
// Nothing is encrypted and who connects is asked for its build alone, as with NCCL and
// torch.distributed: the network between the machines has to be private.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/core/error.h"

namespace maglev {

struct Met;

class MachineLine {
 public:
  static constexpr int kMost = 64;  ///< machines

  /// What all machines of a run know of it when they have come together.
  struct Run {
    int machines = 1, processes = 1;  ///< the latter: of all machines
    std::string build;                ///< of the program: another one is refused
  };
  /// The first: waits at `address`, [HOST:]PORT, for the others; without HOST at every address of
  /// this machine. `say` gets lines for people. Throws Error.
  static std::unique_ptr<MachineLine> lead(const std::string& address, const Run& run,
                                           const std::function<void(const std::string&)>& say);
  /// Another: comes to the first at `address`, HOST:PORT, which may begin to listen within
  /// `patience_s` seconds only, and waits there for the rest as long as it takes. `say` likewise.
  /// Throws Error.
  static std::unique_ptr<MachineLine> join(const std::string& address, const std::string& build,
                                           double patience_s,
                                           const std::function<void(const std::string&)>& say);
  ~MachineLine();
  MachineLine(const MachineLine&) = delete;
  MachineLine& operator=(const MachineLine&) = delete;

  int machine() const { return machine_; }  ///< [0, machines)
  const Run& run() const { return run_; }

  /// Another machine has failed or is gone; what() says which, or why.
  struct Gone : Error {
    using Error::Error;
  };

  /// `look` is called every tenth of a second while another machine is waited for; what it throws
  /// ends the call.
  void while_waiting(std::function<void()> look) { look_ = std::move(look); }

  struct Bytes {
    std::byte* data;
    size_t count;  ///< of bytes
  };

  // Calls, by one thread. All of them throw Gone. `call`: the same in all machines, which tells when
  // they are at different things.

  /// blocks[m]: what machine m has. This one's are sent to all others, theirs come to be there.
  void exchange(uint64_t call, const std::vector<std::vector<Bytes>>& blocks);

  /// Adds up `count` values from the first machine to the last, which is the order of ranks, and
  /// brings the sums back to all.
  struct Sum {
    size_t count;         ///< of values
    size_t wide, narrow;  ///< bytes of a value in partial and in total
    std::byte* partial;   ///< what came from the machines before and goes to those behind
    std::byte* total;     ///< of all machines
    /// Adds this machine's values [begin, begin + n) to partial, in the first machine to nothing;
    /// in the last one the outcome goes into total.
    std::function<void(size_t begin, size_t n)> add;
  };
  void add_up(uint64_t call, const Sum& sum);

  /// The first machine's word to the others.
  void tell(uint64_t call, const std::string& text);
  std::string hear(uint64_t call);

  /// The others learn that this machine's part has failed, and why. Once; any thread.
  void fail(const std::string& what) noexcept;
  /// Why another machine's part has failed, or that it is gone; empty: neither. Any thread.
  std::string lost();
  /// This machine's part has ended well: waits until those of the machines behind have, and tells
  /// the one before, if there is one. Throws Gone where they did not within `seconds`.
  void end(double seconds);

 private:
  // A connection to a neighbour: what calls send, and by itself what ends the run.
  struct Side {
    int data = -1, news = -1;
    std::string name;   ///< of that machine, for people
    std::string heard;  ///< of its news, not complete yet
    bool ended = false;
    std::string failed;  ///< why; empty: it has not
  };
  struct Stream;

  explicit MachineLine(Met met);
  void advance_all(std::vector<Stream>& streams, const std::function<bool()>& step);
  void wait_for(const std::vector<Stream>& streams, double since_s);
  void hear_news(Side& side);
  [[noreturn]] void throw_gone(Side& side);
  bool first() const { return machine_ == 0; }
  bool last() const { return machine_ == run_.machines - 1; }

  Run run_;
  int machine_ = 0;
  Side before_, behind_;
  std::function<void()> look_;
  std::mutex news_;  ///< of what was heard
  std::atomic<bool> told_failure_ = false;
  bool named_ = false;
};

}  // namespace maglev
