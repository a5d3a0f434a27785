#include "envs/gymnasium/workers.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <poll.h>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/home.h"
#include "base/core/printed.h"
#include "base/core/split.h"
#include "base/core/thread_pool.h"
#include "base/env/env.h"
#include "base/picture/no_picture.h"
#include "base/trace/open_spans.h"

namespace maglev::gymnasium {
namespace {

using Json = nlohmann::json;

// as worker.py has them
struct Question {
  uint32_t number, bytes;
  uint8_t kind, unused[3];
};
struct Header {
  uint32_t number, bytes;
  uint8_t kind, cut_short, unused[2];
};
static_assert(sizeof(Question) == 12 && sizeof(Header) == 12 && sizeof(StepEnd) == 8);
enum Asked : uint8_t { kReset = 1, kStep, kReplay, kPicture, kClose, kDrawing };
enum Told : uint8_t { kDescription, kStepped, kDrawn, kRaised, kUndrawn };
constexpr uint32_t kNobody = ~uint32_t(0);
constexpr size_t kReadAtOnce = size_t(1) << 18;
constexpr size_t kMostSaid = 600;
constexpr int kLooks = 64;
constexpr int kLook_ms = 1000;   ///< between looks at whether it lives
constexpr int kAgain_ms = 5;     ///< until a full socket is tried again
constexpr int kLeave_ms = 1000;  ///< that a process whose socket is closed has to end
constexpr int kClose_ms = 5000;  ///< that one has to close its environments before
// a silence is told again after so long, whichever environment's it is
constexpr double kTellAgain_s = 3600;
// what environments print is for an error's message: the end of it
constexpr int64_t kReadsBetweenLooks = 256;
constexpr size_t kMostKept = size_t(1) << 20;

std::string where_of(const std::string& id) { return "[gymnasium] " + id + " "; }

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(T)};
}

const char* asked_for(uint8_t kind) {
  switch (kind) {
    case kReset:
      return "reset";
    case kStep:
      return "step";
    case kReplay:
      return "the steps that lead to where it was";
    default:
      return "render";
  }
}

// whether people are to be told now, of all the environments that may be silent at once
bool is_news() {
  static std::atomic<double> told_s{-std::numeric_limits<double>::infinity()};
  const double now = steady_s();
  double before = told_s;
  return now - before > kTellAgain_s && told_s.compare_exchange_strong(before, now);
}

std::string text_of(const std::byte* from, size_t bytes) {
  return {reinterpret_cast<const char*>(from), bytes};
}

// makes `file` hold a number, nobody's, and says how another process opens it
std::string share_number(OpenFile& file) {
  file.take(::memfd_create("at", MFD_CLOEXEC));
  if (::pwrite(file.get(), &kNobody, sizeof kNobody, 0) != ssize_t(sizeof kNobody)) file.close();
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file.get());
}

std::vector<std::string> counted_in(const Made& made) {
  std::vector<std::string> names = split_list(made.info, "env.info");
  if (names.size() > size_t(kMaxEvents))
    throw Error("[env] env.info names " + std::to_string(names.size()) + " figures, and " +
                std::to_string(kMaxEvents) + " are counted at most");
  for (size_t i = 0; i < names.size(); ++i)
    if (std::find(names.begin(), names.begin() + std::ptrdiff_t(i), names[i]) !=
        names.begin() + std::ptrdiff_t(i))
      throw Error("[env] env.info names '" + names[i] + "' twice");
  return names;
}

// `at`: where it writes the number of the environment that it is in
std::vector<std::string> words_for(const Made& made, const std::string& at) {
  const Json asked{{"id", made.id},
                   {"kwargs", made.kwargs},
                   {"max_steps", made.max_steps},
                   {"info", counted_in(made)},
                   {"masks", made.masks},
                   {"at", at}};
  const bool installed = !installed_python().empty();
  const std::string script =
      installed ? home_folder() + "/envs/gymnasium/worker.py" : MAGLEV_GYMNASIUM_WORKER;
  // -u: what it prints is there if it dies
  std::vector<std::string> words{"-u", script, asked.dump(), "."};
  if (made.python.empty() && !installed) words.push_back(MAGLEV_GYMNASIUM_BESIDE);
  return words;
}

// an installed engine's Python has Gymnasium or none; of a build in a checkout it was looked for
std::string python_for(const Made& made) {
  if (!made.python.empty()) return made.python;
  const std::string own = installed_python();
  return own.empty() ? MAGLEV_PYTHON : own;
}

EnvSpec spec_of(const Json& told, const Made& made) {
  EnvSpec spec{.events = counted_in(made)};
  for (const Json& column : told["columns"])
    spec.observations.push_back({.name = column["name"].get<std::string>(),
                                 .dtype = column["dtype"] == "u8" ? DType::u8 : DType::f32,
                                 .shape = column["shape"].get<std::vector<int64_t>>()});
  spec.action = {.heads = told["heads"].get<std::vector<int64_t>>(),
                 .low = told["low"].get<std::vector<float>>(),
                 .high = told["high"].get<std::vector<float>>(),
                 .masked = told["masked"].get<bool>(),
                 .names = told["names"].get<std::vector<std::string>>()};
  spec.max_steps = told["max_steps"].get<int64_t>();
  spec.agents = told["agents"].get<int>();
  if (told["solved_at"].is_number()) spec.solved_at = told["solved_at"].get<double>();
  if (told["render_fps"].is_number()) spec.render_fps = told["render_fps"].get<double>();
  return spec;
}

}  // namespace

Remote::Remote(Workers& workers, Worker& worker) : workers_(workers), worker_(worker) {
  std::lock_guard lock(worker_.mutex_);
  number_ = uint32_t(worker_.remotes_.size());
  worker_.remotes_.push_back(this);
}

Remote::~Remote() {
  {
    std::lock_guard lock(worker_.mutex_);
    // an answer that still comes is nobody's
    worker_.remotes_[number_] = nullptr;
    worker_.queue(*this, kClose, {}, {});
  }
  workers_.remotes_.fetch_sub(1);
}

void Remote::ask(uint8_t kind, uint32_t seed, int64_t steps, std::span<const std::byte> first,
                 std::span<const std::byte> then) {
  {
    std::lock_guard lock(worker_.mutex_);
    worker_.queue(*this, kind, first, then);
    kind_ = kind, seed_ = seed, steps_ = steps;
    waits_ = true;
  }
  workers_.note_asked();
}

void Remote::reset(uint32_t seed) { ask(kReset, seed, 0, bytes_of(seed), {}); }

void Remote::step(std::span<const std::byte> action) { ask(kStep, seed_, steps_ + 1, action, {}); }

void Remote::replay(uint32_t seed, std::span<const std::byte> actions) {
  ask(kReplay, seed, int64_t(actions.size()) / workers_.action_bytes(), bytes_of(seed), actions);
}

std::string Remote::episode() const {
  return "; its episode began with reset(seed=" + std::to_string(seed_) + "), and this was step " +
         std::to_string(steps_);
}

StepEnd Remote::end_of(int agent) const {
  StepEnd end;
  std::memcpy(&end, answer_.data() + workers_.shown_bytes() + agent * int64_t(sizeof end),
              sizeof end);
  return end;
}

float Remote::counted(int event) const {
  float amount;
  std::memcpy(
      &amount,
      answer_.data() + workers_.sent_bytes() - 4 * (int64_t(workers_.spec().events.size()) - event),
      sizeof amount);
  return amount;
}

bool Remote::take() {
  workers_.send_asked();
  std::unique_lock lock(worker_.mutex_);
  worker_.send_locked(lock);
  if (waits_) {
    const trace::ReportsOwnWait tells;
    const double begin_s = steady_s();
    while (true) {
      worker_.read_some(lock);
      if (!waits_) break;
      worker_.look_at_clock(begin_s);
    }
  }
  if (!error_.empty()) {
    const std::string text = where_of(worker_.made_.id) + std::exchange(error_, {});
    if (std::exchange(undrawn_, false)) throw NoPicture(text);
    throw Error(text + episode());
  }
  return !cut_short_;
}

RgbPicture Remote::picture(uint32_t seed, std::span<const std::byte> actions) {
  if (!draws_) {
    ask(kDrawing, seed, steps_, bytes_of(seed), actions);
    take();
    draws_ = true;
  }
  ask(kPicture, seed, steps_, {}, {});
  take();
  return std::move(picture_);
}

Worker::Worker(const Made& made)
    : made_(made), program_(python_for(made), words_for(made, share_number(at_)), "[gymnasium] ") {
  std::unique_lock lock(mutex_);
  const double begin_s = steady_s();
  while (description_.empty()) {
    read_some(lock);
    look_at_clock(begin_s);
  }
}

Worker::~Worker() {
  for (int waited = 0; dismissed_ && waited < kClose_ms && program_.running(); waited += kAgain_ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(kAgain_ms));
}

void Worker::dismiss() {
  std::lock_guard lock(mutex_);
  dismissed_ = true;
  ::shutdown(program_.socket(), SHUT_RDWR);
}

void Worker::look_at_clock(double begin_s) {
  // somebody else who waited for it has ended it
  if (!failure_.empty()) died();
  const double silent_s = steady_s() - std::max(begin_s, heard_s_);
  // one that is made, or an episode that is taken again, may take longer than a step; and who looks
  // at the socket is not to find it gone
  const auto may_last = [](const Remote* one) {
    return one && one->waits_ && one->kind_ != kReset && one->kind_ != kStep;
  };
  const auto doing = [&] {
    if (description_.empty()) return std::string(", where it is made");
    const auto all = at_work();
    const std::string what = all.size() == 1 ? asked_for(all[0]->kind_) : "";
    return (what.empty() ? what : ", in " + what) + episode_at_work();
  };
  if (made_.timeout > 0 && silent_s > made_.timeout && !reading_ && !description_.empty() &&
      std::ranges::none_of(remotes_, may_last)) {
    program_.kill();
    failure_ = where_of(made_.id) + "has not answered for " + std::to_string(made_.timeout) +
               " s, as long as env.timeout allows" + doing();
    died();
  }
  if (silent_s < made_.late_s || !is_news()) return;
  std::fprintf(stderr,
               "maglev: %shas not answered for %.0f s%s; it is waited for, and Ctrl-C twice ends "
               "the run (Python process %d; env.timeout=N ends it after N s)\n",
               where_of(made_.id).c_str(), silent_s, doing().c_str(), program_.pid());
}

void Worker::queue(const Remote& remote, uint8_t kind, std::span<const std::byte> first,
                   std::span<const std::byte> then) {
  const Question asked{remote.number_, uint32_t(first.size() + then.size()), kind, {}};
  for (const auto part : {bytes_of(asked), first, then})
    out_.insert(out_.end(), part.begin(), part.end());
}

void Worker::send() {
  std::unique_lock lock(mutex_);
  send_locked(lock);
}

void Worker::send_locked(std::unique_lock<std::mutex>& lock) {
  const double begin_s = out_.empty() ? 0 : steady_s();
  while (!out_.empty()) {
    const ssize_t sent =
        ::send(program_.socket(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      out_.erase(out_.begin(), out_.begin() + sent);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) died();
    // it is at what it was asked before
    look_at_clock(begin_s);
    // a process that waits for its answers to be read takes nothing: so they are, by whom is at it
    if (reading_) {
      came_.wait_for(lock, std::chrono::milliseconds(kAgain_ms));
      continue;
    }
    pollfd ready{program_.socket(), POLLIN | POLLOUT, 0};
    if (::poll(&ready, 1, kLook_ms) <= 0 && !program_.running()) died();
    if (ready.revents & POLLIN) take_what_came(::recv(program_.socket(), room(), kReadAtOnce, 0));
  }
}

void Worker::read_some(std::unique_lock<std::mutex>& lock) {
  if (reading_) {
    came_.wait(lock);
    return;
  }
  // others ask and take while one waits
  reading_ = true;
  std::byte* const to = room();
  const int from = program_.socket();
  lock.unlock();
  // a thread that sleeps is woken late: with short steps by so much that looking again pays, 1.3 x
  // with 8 of CartPole
  ssize_t came = -1;
  for (int looks = 0; looks < kLooks && came < 0; ++looks) {
    came = ::recv(from, to, kReadAtOnce, MSG_DONTWAIT);
    if (came < 0) std::this_thread::yield();
  }
  if (came < 0) {
    pollfd ready{from, POLLIN, 0};
    ::poll(&ready, 1, kLook_ms);
    came = ::recv(from, to, kReadAtOnce, MSG_DONTWAIT);
  }
  const bool nothing = came < 0 && (errno == EAGAIN || errno == EINTR);
  lock.lock();
  reading_ = false;
  came_.notify_all();
  // an environment's own children may hold the socket open behind a process that is gone
  if (!nothing) take_what_came(came);
  else if (!program_.running()) died();
}

std::byte* Worker::room() {
  if (in_.size() - in_used_ < kReadAtOnce)
    in_.resize(std::max(2 * in_.size(), in_used_ + kReadAtOnce));
  return in_.data() + in_used_;
}

void Worker::take_what_came(ssize_t bytes) {
  if (bytes < 0 && errno == EINTR) return;
  if (bytes <= 0) died();
  heard_s_ = steady_s();
  in_used_ += size_t(bytes);
  if (++reads_ % kReadsBetweenLooks == 0) program_.limit_said(kMostKept);
  size_t place = 0;
  while (const size_t taken = take_message(in_.data() + place, in_used_ - place)) place += taken;
  std::memmove(in_.data(), in_.data() + place, in_used_ - place);
  in_used_ -= place;
}

// its size; 0: it is not all there yet
size_t Worker::take_message(const std::byte* from, size_t bytes) {
  Header head;
  if (bytes < sizeof head) return 0;
  std::memcpy(&head, from, sizeof head);
  const size_t all = sizeof head + head.bytes;
  if (bytes < all) return 0;
  const std::byte* told = from + sizeof head;
  if (head.number == kNobody) {
    if (head.kind == kRaised) throw Error(where_of(made_.id) + text_of(told, head.bytes));
    description_ = text_of(told, head.bytes);
    return all;
  }
  Remote* remote = head.number < remotes_.size() ? remotes_[head.number] : nullptr;
  if (!remote) return all;
  remote->waits_ = false;
  if (head.kind == kRaised || head.kind == kUndrawn) {
    remote->error_ = text_of(told, head.bytes);
    remote->undrawn_ = head.kind == kUndrawn;
  } else if (head.kind == kStepped && head.bytes != expected_) {
    remote->error_ = "shows " + std::to_string(head.bytes) + " bytes in one process and " +
                     std::to_string(expected_) +
                     " in another: its spaces must be the same each time";
  } else if (head.kind == kDrawn) {
    uint32_t size[2];
    std::memcpy(size, told, sizeof size);
    MAGLEV_ASSERT(head.bytes == sizeof size + uint64_t(size[0]) * size[1] * 3,
                  "a picture is what its size says");
    const auto* pixels = reinterpret_cast<const uint8_t*>(told + sizeof size);
    remote->picture_ = {
        int32_t(size[0]), int32_t(size[1]), {pixels, pixels + (head.bytes - sizeof size)}};
  } else {
    remote->cut_short_ = head.cut_short != 0;
    remote->answer_.assign(told, told + head.bytes);
  }
  return all;
}

void Worker::died() {
  failed_ = true;
  if (!failure_.empty()) throw Error(failure_);
  for (int waited = 0; waited < kLeave_ms && program_.running(); waited += kAgain_ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(kAgain_ms));
  program_.kill();
  const std::string how = program_.ending().empty() ? "" : " with " + program_.ending();
  failure_ = where_of(made_.id) + "its Python process ended" + how +
             "; it said: " + program_.said(kMostSaid) + episode_at_work();
  throw Error(failure_);
}

std::vector<const Remote*> Worker::at_work() const {
  std::vector<const Remote*> waiting;
  for (const Remote* one : remotes_)
    if (one && one->waits_) waiting.push_back(one);
  uint32_t number = kNobody;
  if (::pread(at_.get(), &number, sizeof number, 0) != ssize_t(sizeof number)) return waiting;
  for (const Remote* one : waiting)
    if (one->number_ == number) return {one};
  return waiting;
}

std::string Worker::episode_at_work() const {
  const auto all = at_work();
  if (all.size() > 1) return "; it was at one of " + std::to_string(all.size()) + " environments";
  return all.empty() ? "" : all[0]->episode();
}

/// Of each `made`, until this process ends, whatever is destroyed before.
struct Workers::All {
  std::mutex mutex;
  std::map<Made, std::unique_ptr<Workers>> by_made;
  std::vector<std::unique_ptr<Workers>> former;  ///< over; environments may know them still

  static All& of_process() {
    static auto& all = *new All;
    return all;
  }
};

Workers& Workers::of(const Made& made) {
  All& all = All::of_process();
  std::lock_guard lock(all.mutex);
  auto& one = all.by_made[made];
  if (one && one->over()) all.former.push_back(std::move(one));
  if (!one) one.reset(new Workers(made));
  return *one;
}

void Workers::end_idle() {
  All& all = All::of_process();
  std::lock_guard lock(all.mutex);
  for (const auto& [made, workers] : all.by_made)
    if (workers && made.process == ::getpid()) workers->end_processes();
  for (const auto& workers : all.former)
    if (workers->made_.process == ::getpid()) workers->end_processes();
}

void Workers::end_processes() {
  std::lock_guard lock(mutex_);
  if (remotes_ > 0) return;
  // all close their environments at once
  for (const auto& place : workers_)
    if (Worker* worker = place) worker->dismiss();
  for (auto& place : workers_) delete place.exchange(nullptr);
}

bool Workers::over() {
  std::lock_guard lock(mutex_);
  bool started = false;
  for (const auto& place : workers_)
    if (const Worker* worker = place) {
      if (worker->failed()) return true;
      started = true;
    }
  return !started;
}

Workers::Workers(const Made& made)
    : made_(made), workers_(size_t(made.workers > 0 ? made.workers : usable_cpus())) {
  auto* first = new Worker(made);
  workers_[0] = first;
  const Json told = Json::parse(first->description());
  spec_ = spec_of(told, made);
  ends_apart_ = told["ends_apart"].get<bool>();
  agent_bytes_ = spec_.action.masked ? spec_.action.categories() : 0;
  for (const ObsColumn& column : spec_.observations) agent_bytes_ += column.row_bytes();
  worker_bytes_ = first->resident();
  first->expect(sent_bytes());
}

std::span<const uint8_t> Workers::played_on(const std::byte* shown) const {
  if (!ends_apart_) return {};
  return {reinterpret_cast<const uint8_t*>(shown + spec_.agents * agent_bytes_),
          size_t(spec_.agents)};
}

std::unique_ptr<Remote> Workers::make_remote() {
  std::lock_guard lock(mutex_);
  auto& place = workers_[next_++ % workers_.size()];
  Worker* worker = place;
  if (!worker) {
    worker = new Worker(made_);
    worker->expect(sent_bytes());
    place = worker;
  }
  auto remote = std::make_unique<Remote>(*this, *worker);
  remotes_.fetch_add(1);
  return remote;
}

void Workers::send_asked() {
  if (!asked_.load(std::memory_order_acquire) || !asked_.exchange(false)) return;
  for (const auto& place : workers_)
    if (Worker* worker = place) worker->send();
}

}  // namespace maglev::gymnasium
