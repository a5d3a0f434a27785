#include "engine/train/stall_watch.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/printed.h"
#include "engine/device/device.h"
#include "engine/device/event.h"

namespace maglev {
namespace {

// so often it looks, at most; a limit of less is looked for ten times
constexpr double kStallLook_s = 1;
constexpr double kNever = std::numeric_limits<double>::infinity();

std::string clock_text(double ago_s) {
  const std::time_t then = std::time(nullptr) - std::time_t(ago_s);
  std::tm parts;
  ::localtime_r(&then, &parts);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%H:%M:%S", &parts)};
}

}  // namespace

std::string whereabouts_text(const std::vector<trace::ThreadNow>& threads) {
  // threads that are in the same, in the order of the first of each
  std::vector<std::pair<std::string, std::string>> places;
  int idle = 0;
  for (const trace::ThreadNow& thread : threads) {
    std::string place;
    for (const char* span : thread.open) place += (place.empty() ? "" : " > ") + std::string(span);
    if (place == "idle") {
      ++idle;
      continue;
    }
    if (place.empty() && thread.name != "main") continue;
    if (place.empty()) place = "no stage";
    const auto same = std::ranges::find(places, place, &std::pair<std::string, std::string>::first);
    if (same == places.end()) places.emplace_back(place, thread.name);
    else same->second += ", " + thread.name;
  }
  std::string text;
  for (const auto& [place, names] : places)
    text += (text.empty() ? "" : "; ") + names + " in " + place;
  if (idle > 0) text += (text.empty() ? "" : "; ") + std::to_string(idle) + " idle";
  return text;
}

std::string stream_text(int device, void* stream) {
  try {
    use_device(device);
    const std::optional<bool> busy = stream_is_busy(stream);
    if (!busy)
      return "the GPU's stream cannot be asked: a graph is being captured, or the whole device is "
             "waited for";
    return *busy ? "the GPU's stream has work" : "the GPU's stream has no work";
  } catch (const c10::Error& e) {
    // the device has failed
    return e.what_without_backtrace();
  } catch (const std::exception& e) {
    return e.what();
  }
}

StallWatch::StallWatch(Limits limits, Asks asks) : limits_(limits), asks_(std::move(asks)) {
  if (limits_.tell_s <= 0 && limits_.end_s <= 0) return;
  teller_ = std::make_unique<Background>("stall teller");
  thread_ = std::make_unique<Background>("stall watch");
  thread_->start([this] { watch(); });
}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

void StallWatch::iteration(double seconds) {
  // only this thread writes it
  longest_s_ = std::max(longest_s_.load(), seconds);
}

double StallWatch::tell_limit_s() const {
  const double longest_s = longest_s_;
  return longest_s > 0 ? std::max(limits_.tell_s, kOfLongest * longest_s)
                       : kBeforeFirst * limits_.tell_s;
}

void StallWatch::tell(double silent_s, const std::string& what_comes) {
  if (telling_.exchange(true)) return;
  teller_->wait();
  teller_->start([this, silent_s, what_comes] {
    try {
      std::string text = "no progress for " + printed("%.0f s", silent_s) + ", since " +
                         clock_text(silent_s) + ": " + whereabouts_text(asks_.threads());
      if (asks_.device) text += "; " + asks_.device();
      asks_.say(text + "; " + what_comes);
    } catch (const std::exception&) {
      // what cannot be told now may be told later
    }
    telling_ = false;
  });
}

void StallWatch::watch() {
  const double end_s = limits_.end_s > 0 ? limits_.end_s : kNever;
  const double least_s = std::min(limits_.tell_s > 0 ? limits_.tell_s : kNever, end_s);
  const double look_s = std::min(kStallLook_s, least_s / 10);
  const std::string waits =
      limits_.end_s > 0
          ? "the run is waited for until " + printed("%g s", end_s) + " (train.stall_end)"
          : "the run goes on waiting (train.stall=0: never say this)";
  uint64_t passed = asks_.passed();
  double silent_s = 0, told_s = 0, looked_s = steady_s();
  bool ends = false;  // was told that it ends now
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::duration<double>(ends ? kStallLook_s : look_s),
                            [&] { return over_; })) {
    const double now_s = steady_s();
    // a process that was stopped (Ctrl-Z) or a machine that slept did nothing meanwhile, and no
    // thread of it stood still
    silent_s += std::min(now_s - std::exchange(looked_s, now_s), 2 * look_s);
    const uint64_t now = asks_.passed();
    if (std::exchange(passed, now) != now || trace::ReportsOwnWait::any()) {
      silent_s = told_s = 0, ends = false;
      continue;
    }
    // a last moment for the line, and for who moves after all
    if (ends) return asks_.end();
    ends = silent_s >= end_s;
    if (ends) {
      tell(silent_s, "the process ends in a second unless it moves (train.stall_end)");
    } else if (limits_.tell_s > 0 && silent_s >= std::max(tell_limit_s(), 2 * told_s)) {
      told_s = silent_s;
      tell(silent_s, waits);
    }
  }
}

}  // namespace maglev
