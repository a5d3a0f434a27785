#include "base/timeline/remedies.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/timeline/origin.h"

namespace maglev {
namespace {

// what is done less often may take this share of the rest
constexpr double kEnough = 0.02;
// rows that a minibatch's kernels take at once
constexpr int64_t kPanelRows = 64;

// "name=value", where the run has such a setting and another value
std::string setting(const TraceOrigin& origin, const std::string& name, const std::string& value) {
  const auto place = origin.settings.find(name);
  return place == origin.settings.end() || place->second == value ? "" : name + "=" + value;
}

// two digits, for people: 1234 as 1300
int64_t rounded_up(double number) {
  const double unit =
      std::pow(10, std::max(0.0, std::floor(std::log10(std::max(1.0, number))) - 1));
  return int64_t(std::min(1e15, unit * std::ceil(number / unit)));
}

// what comes each `every` steps of the run comes less often; 0 of the setting means `automatic`
RunPatch less_often(const TraceOrigin& origin, const std::string& name, double automatic,
                    double gain) {
  double every = origin.number(name);
  if (every <= 0) every = automatic;
  // nothing comes more often than iterations do
  every = std::max({1.0, every, double(origin.iteration_steps)});
  const double times = gain / std::max(1e-6, 1 - gain) / kEnough;
  if (times <= 1) return {};
  const std::string patch = setting(origin, name, std::to_string(rounded_up(every * times)));
  return {patch, patch.empty() ? 0 : gain * (1 - 1 / times)};
}

RunPatch more_threads(const TraceOrigin& origin, double gain) {
  if (origin.processors <= origin.threads || origin.threads < 1) return {};
  std::string patch = setting(origin, "threads", std::to_string(origin.processors));
  if (patch.empty()) return {};
  // what one thread steps at once keeps one thread busy
  const int64_t needed = origin.processors * origin.block_environments;
  if (origin.number("env.count") < double(needed))
    if (const std::string more = setting(origin, "env.count", std::to_string(needed));
        !more.empty())
      patch += " " + more;
  return {patch, gain * (1 - double(origin.threads) / double(origin.processors))};
}

RunPatch more_workers(const TraceOrigin& origin, double gain) {
  // 0: as many as there are processors
  const double now = origin.number("env.workers"),
               most = std::min(double(origin.processors), origin.number("env.count"));
  if (now < 1 || most <= now) return {};
  return {setting(origin, "env.workers", std::to_string(int64_t(most))), gain * (1 - now / most)};
}

RunPatch larger_minibatch(const TraceOrigin& origin, double gain) {
  const std::string name = origin.algorithm + ".minibatch";
  const auto now = int64_t(origin.number(name));
  // all that an iteration collects at most
  const int64_t rows = std::min(4 * kPanelRows, origin.iteration_steps);
  if (now <= 0 || rows <= now) return {};
  const std::string patch = setting(origin, name, std::to_string(rows));
  return {patch, patch.empty() ? 0 : gain};
}

}  // namespace

RunPatch patch_for(Remedy remedy, const TraceOrigin& origin, double gain) {
  const auto set = [&](const char* name, const std::string& value) {
    const std::string patch = setting(origin, name, value);
    return RunPatch{patch, patch.empty() ? 0 : gain};
  };
  const double steps = origin.number("train.steps");
  switch (remedy) {
    case Remedy::none:
      return {};
    case Remedy::more_threads:
      return more_threads(origin, gain);
    case Remedy::more_workers:
      return more_workers(origin, gain);
    case Remedy::fewer_threads:
      return origin.threads > origin.processors && origin.processors > 0
                 ? set("threads", std::to_string(origin.processors))
                 : RunPatch{};
    case Remedy::prefetch:
      return set("train.prefetch", "on");
    case Remedy::graph:
      return set("train.graph", "on");
    case Remedy::log_less:
      return less_often(origin, "train.log_every", steps / 2000, gain);
    case Remedy::save_less:
      return less_often(origin, "train.save_every", steps / 10, gain);
    case Remedy::evaluate_less:
      return origin.number("train.eval_every") > 0 ? less_often(origin, "train.eval_every", 0, gain)
                                                   : RunPatch{};
    case Remedy::larger_minibatch:
      return larger_minibatch(origin, gain);
  }
  return {};
}

}  // namespace maglev
