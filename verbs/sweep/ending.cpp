#include "verbs/sweep/ending.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "engine/train/training_run.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::sweep {
namespace {

// as process groups and seeds say it, and as files do where there is no room (base/core/file.cpp)
constexpr std::string_view kBySignal = "ended: signal ", kNoRoom = "free space there";
// the program's own doing
constexpr int kCrashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

Cause cause_of_signal(int signal) {
  return std::ranges::count(kCrashes, signal) ? Cause::trial : Cause::outside;
}

}  // namespace

Cause cause_of(int status, const std::string& said) {
  if (status == train::kStopped || status == kStalled) return Cause::outside;
  if (!train::killed_text(status).empty()) return cause_of_signal(status - 128);
  if (said.find(train::kStalledText) != std::string::npos) return Cause::outside;
  if (said.find(kNoRoom) != std::string::npos) return Cause::disk;
  if (const size_t place = said.find(kBySignal); place != std::string::npos)
    return cause_of_signal(std::atoi(said.c_str() + place + kBySignal.size()));
  return Cause::trial;
}

}  // namespace maglev::verbs::sweep
