#pragma once
// Python processes that hold environments of one id and settings, and what is said to them: little
// messages over a socket, answers in the order in which a process finds time for them.
//
// Threads: any, each with Remotes of its own.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "base/core/error.h"
#include "base/core/other_program.h"
#include "base/env/spec.h"

namespace maglev::gymnasium {

/// What an environment is made of; equal ones share processes.
struct Made {
  std::string id, kwargs, python;
  std::string info;   ///< names of what is counted of it, by commas
  bool masks = true;  ///< action_mask is looked at
  int32_t max_steps = 0, workers = 0;
  int32_t timeout = 0;  ///< seconds of silence after which a reset or a step fails; 0: never
  double late_s = 60;   ///< of silence after which people are told
  /// whose children they are: a process that was forked makes its own
  pid_t process = ::getpid();

  auto operator<=>(const Made&) const = default;
};

/// What a step was to one agent; of a reset all 0.
struct StepEnd {
  float reward;
  uint8_t terminated, truncated, unused[2];
};

struct RgbPicture {
  int32_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  ///< [height, width, 3]
};

class Worker;
class Workers;

/// One environment in one of the processes.
class Remote {
 public:
  Remote(Workers& workers, Worker& worker);
  ~Remote();
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  /// Asks for an episode, for a step, or for an episode and all of its steps. The answer is taken
  /// before anything else is asked. What is asked goes out, of all Remotes together, as soon as one
  /// answer is taken: a process is given all of its work at once.
  void reset(uint32_t seed);
  void step(std::span<const std::byte> action);
  void replay(uint32_t seed, std::span<const std::byte> actions);
  /// Waits for it. Returns false of a replay whose actions could not all be taken. Throws Error with
  /// what Python raised, or with how its process ended, and the episode in which that was.
  bool take();
  /// How people come to where it is, by seed and step, to be read behind what went wrong there.
  std::string episode() const;
  /// Of the last answer, for each agent: the columns of the spec one behind the other, then the
  /// mask. Then, where agents end apart, whether each plays on, u8.
  const std::byte* observation() const { return answer_.data(); }
  /// What the step was to an agent, and what it adds to one of the spec's events.
  StepEnd end_of(int agent) const;
  float counted(int event) const;
  /// What it looks like. The first one makes it anew, as one that draws, and brings it to where the
  /// episode of `seed` and `actions` is. Throws NoPicture where it draws nothing.
  RgbPicture picture(uint32_t seed, std::span<const std::byte> actions);

 private:
  friend class Worker;
  void ask(uint8_t kind, uint32_t seed, int64_t steps, std::span<const std::byte> first,
           std::span<const std::byte> then);

  Workers& workers_;
  Worker& worker_;
  uint32_t number_;
  uint8_t kind_ = 0;   ///< of what was asked last
  uint32_t seed_ = 0;  ///< of the episode
  int64_t steps_ = 0;  ///< of the episode, with the one that was asked for
  bool waits_ = false, draws_ = false;
  std::vector<std::byte> answer_;
  bool cut_short_ = false;  ///< a replay's: not all of its actions could be taken
  RgbPicture picture_;
  std::string error_;
  bool undrawn_ = false;  ///< the error is that there is no picture
};

class Worker {
 public:
  explicit Worker(const Made& made);
  /// Waits a while for it to leave, where it was dismissed; else it is killed.
  ~Worker();

  /// What its environment shows and takes, in JSON (worker.py).
  const std::string& description() const { return description_; }
  /// Bytes of memory of its own that it holds now; 0: unknown.
  int64_t resident() const { return program_.resident(); }
  /// Bytes of each answer to a reset or a step, from now on.
  void expect(int64_t bytes) { expected_ = size_t(bytes); }
  /// Sends what was asked, however full the socket is.
  void send();
  /// It closes its environments and ends. None has a Remote any more.
  void dismiss();
  /// It has ended by itself, or was silent for too long.
  bool failed() const { return failed_; }

 private:
  friend class Remote;
  void queue(const Remote& remote, uint8_t kind, std::span<const std::byte> first,
             std::span<const std::byte> then);
  void send_locked(std::unique_lock<std::mutex>& lock);
  void read_some(std::unique_lock<std::mutex>& lock);
  std::byte* room();
  void take_what_came(ssize_t bytes);
  size_t take_message(const std::byte* from, size_t bytes);
  [[noreturn]] void died();
  /// Tells people of a silence that lasts, since `begin_s` and since anything came, and ends the
  /// process where that is for too long.
  void look_at_clock(double begin_s);
  /// The environment that the process is in, whoever waits for it; where that is not known, all
  /// that wait.
  std::vector<const Remote*> at_work() const;
  /// Its episode, or of how many environments it is one, to be read behind what went wrong.
  std::string episode_at_work() const;

  const Made made_;
  OpenFile at_;  ///< memory shared with the process: the number of the environment that it is in
  OtherProgram program_;
  std::string description_;
  std::mutex mutex_;
  std::condition_variable came_;  ///< somebody has read
  bool reading_ = false;  ///< somebody waits for the socket; in_ is theirs until they are back
  std::vector<Remote*> remotes_;  ///< by number; null: gone
  std::vector<std::byte> out_, in_;
  size_t in_used_ = 0, expected_ = 0;
  int64_t reads_ = 0;
  double heard_s_ = 0;   ///< when something came last, steady clock
  std::string failure_;  ///< why it ended, for all who ask; empty: it did not
  std::atomic<bool> failed_ = false;
  bool dismissed_ = false;
};

/// All processes of one `made`, started as they are needed, until this process ends or end_idle().
/// What they say of their environment holds for as long: it may have been changed until the next.
class Workers {
 public:
  /// New ones where those there were have ended, or one of them failed; they stay for who knows
  /// them. Throws Error where Python, gymnasium or the environment cannot be had.
  static Workers& of(const Made& made);
  /// Ends the processes of all that have no Remotes; others are started when they are needed again.
  static void end_idle();

  const EnvSpec& spec() const { return spec_; }
  /// Whether one agent may end while others go on.
  bool ends_apart() const { return ends_apart_; }
  /// Of all agents' actions.
  int64_t action_bytes() const { return spec_.agents * spec_.action.dims() * 4; }
  /// Of an agent's observation and its mask.
  int64_t agent_bytes() const { return agent_bytes_; }
  /// Of all that is shown: what Remote::observation is.
  int64_t shown_bytes() const { return spec_.agents * (agent_bytes_ + (ends_apart_ ? 1 : 0)); }
  /// Whether each agent played on, in what was shown; none where they do not end apart.
  std::span<const uint8_t> played_on(const std::byte* shown) const;
  /// Of all that comes: what is shown, what each agent came to, and what is added to events.
  int64_t sent_bytes() const {
    return shown_bytes() + spec_.agents * int64_t(sizeof(StepEnd)) +
           4 * int64_t(spec_.events.size());
  }
  std::unique_ptr<Remote> make_remote();
  /// Of memory that the processes hold with so many environments, about: as the first did when it
  /// had begun an episode of one.
  size_t program_bytes(int64_t count) const {
    return size_t(std::min(count, int64_t(workers_.size())) * worker_bytes_);
  }
  /// Something was asked that nobody has sent; sends it.
  void note_asked() { asked_.store(true, std::memory_order_release); }
  void send_asked();

 private:
  friend class Remote;
  struct All;
  explicit Workers(const Made& made);
  void end_processes();
  bool over();

  const Made made_;
  EnvSpec spec_;
  int64_t agent_bytes_ = 0, worker_bytes_ = 0;
  bool ends_apart_ = false;
  std::mutex mutex_;
  std::vector<std::atomic<Worker*>> workers_;  ///< null: not started yet; they stay
  size_t next_ = 0;
  std::atomic<bool> asked_ = false;
  std::atomic<int64_t> remotes_ = 0;  ///< that live
};

}  // namespace maglev::gymnasium
