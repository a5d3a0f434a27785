#include "engine/host/bystanders.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <thread>
#include <unistd.h>
#include <utility>

#include "base/core/clock.h"
#include "base/core/printed.h"
#include "engine/host/proc.h"

namespace maglev {
namespace {

// of a processor, and of all of them: what a system's own programs take is less
constexpr double kSeen = 0.15, kSeenOfAll = 0.02;

}  // namespace

Bystanders::Bystanders(std::string root) : root_(std::move(root)), begin_(now()) {}

Bystanders::Moment Bystanders::now() const {
  const std::string text = proc_text(root_ + "/proc/stat");
  return {.at_s = steady_s(),
          .busy_s = parse_busy_ticks(text) / double(::sysconf(_SC_CLK_TCK)),
          .ours_s = processor_time_s(RUSAGE_SELF) + processor_time_s(RUSAGE_CHILDREN)};
}

double Bystanders::processors() const {
  const Moment end = now();
  const double busy_s = end.busy_s - begin_.busy_s, ours_s = end.ours_s - begin_.ours_s;
  // a moment's ticks are coarse
  constexpr double kLeast = 1e-3;
  const double others = (busy_s - ours_s) / std::max(end.at_s - begin_.at_s, kLeast);
  return others < 0 ? 0 : others;
}

std::string Bystanders::note() const {
  const double others = processors();
  if (!(others > std::max(kSeen, kSeenOfAll * double(std::thread::hardware_concurrency()))))
    return "";
  return printed(
      "the machine was not at rest: other programs kept %.1f of its processors busy "
      "meanwhile, end them or measure again",
      others);
}

double parse_busy_ticks(std::string_view text) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::istringstream line{std::string(text)};
  std::string name;
  double user, nice, system, idle, wait, interrupts, soft, stolen;
  line >> name >> user >> nice >> system >> idle >> wait >> interrupts >> soft >> stolen;
  return line && name == "cpu" ? user + nice + system + interrupts + soft + stolen : kUnknown;
}

}  // namespace maglev
