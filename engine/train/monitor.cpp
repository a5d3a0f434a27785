#include "engine/train/monitor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/statistics/trend.h"
#include "engine/device/device.h"
#include "engine/host/cpu_cache.h"
#include "engine/host/system.h"

namespace maglev {
namespace {

constexpr double kMiB = 1 << 20, kHour_s = 3600,
                 kUnknown = std::numeric_limits<double>::quiet_NaN();
// a trend is believed where it comes about by chance less often than this
constexpr double kDoubt = 0.01;
// and in each half of the samples, for what rose once rises in one half alone
constexpr double kDoubtOfHalf = 0.05;
// what other programs may come to hold, of what they hold at first: nobody planned it
constexpr double kRoomOfPrograms = 1.25;

// threads and programs that ended meanwhile take their times with them; NaN: not known
double grown(double before, double after) {
  return std::isnan(after - before) ? kUnknown : std::max(0.0, after - before);
}

}  // namespace

TensorMemory tensor_memory(bool on_device) {
  TensorMemory memory{.host = cpu_cache_bytes()};
  if (!on_device) return memory;
  const DeviceMemory device = device_memory();
  memory.device = device.in_use, memory.device_reserved = device.reserved;
  return memory;
}

std::unique_ptr<GpuMeter> meter_of(at::Device device) {
  if (!device.is_cuda()) return nullptr;
  auto meter = std::make_unique<GpuMeter>(bus_address(device.index()), gpu_libraries());
  return meter->known() ? std::move(meter) : nullptr;
}

Monitor::Monitor(double every_s, const Planned& planned, const Load& free,
                 std::function<Usage()> sample, std::function<TensorMemory()> tensors,
                 std::function<GpuUsage()> gpu, std::function<std::vector<MemoryPart>()> parts,
                 const GrowthWords& words)
    : every_s_(every_s),
      sample_(std::move(sample)),
      tensors_(std::move(tensors)),
      gpu_(std::move(gpu)),
      parts_(std::move(parts)),
      words_(words),
      last_(sample_()),
      last_gpu_(gpu_ ? gpu_() : GpuUsage{}),
      planned_(planned),
      load_(free) {}

void Monitor::add_to(MetricRow& row) {
  add_times(row);
  if (every_s_ <= 0 || row.seconds - sampled_s_ < every_s_) return;
  const bool first = std::isinf(std::exchange(sampled_s_, row.seconds));
  const Usage now = sample_();
  const TensorMemory tensors = tensors_();
  // libraries, warm-up and graphs are there by now
  if (first) {
    process_.allowed = now.resident + planned_.host;
    programs_.allowed = int64_t(kRoomOfPrograms * double(now.programs.resident));
    device_.allowed = std::max(tensors.device, planned_.device);
    first_tensors_ = tensors, first_resident_ = now.resident;
    if (parts_) first_parts_ = parts_();
  }
  tensors_now_ = tensors;
  const GpuUsage gpu = gpu_ ? gpu_() : GpuUsage{};
  take_memory(now, tensors);
  add_memory(now, tensors, row);

  const auto add = [&](const char* name, double value) { row.values.emplace_back(name, value); };
  // what came before the loop took energy for no steps
  const double since = double(row.step - std::exchange(last_step_, row.step)),
               steps = first ? 0 : since;
  add("machine/processors", processors_until(now));
  if (const double busy = programs_until(now); now.programs.running > 0 && !std::isnan(busy))
    add("machine/programs_processors", busy);
  if (const double joules = joules_between(last_, now); !std::isnan(joules)) {
    add("machine/watts", joules / (now.at_s - last_.at_s));
    add("machine/joules_per_million_steps", steps > 0 ? 1e6 * joules / steps : kUnknown);
  }
  add_gpu(gpu, steps, row);
  // what bounded these seconds
  if (summed_s_ > 0) row.bound_by = bottleneck_of(load_until(now, gpu)).text();
  load_.environment = load_.policy = load_.learn = load_.copy = summed_s_ = 0;
  beside_ = {};
  last_ = now, last_gpu_ = gpu;
}

void Monitor::take_memory(const Usage& now, const TensorMemory& tensors) {
  if (times_s_.size() == kMost) times_s_.erase(times_s_.begin());
  times_s_.push_back(now.at_s);
  for (auto [held, bytes] :
       {std::pair{&process_, now.resident}, std::pair{&programs_, now.programs.resident},
        std::pair{&device_, tensors.device}}) {
    if (held->bytes.size() == kMost) held->bytes.erase(held->bytes.begin());
    held->bytes.push_back(double(bytes));
    look_for_growth(*held);
  }
}

void Monitor::add_memory(const Usage& now, const TensorMemory& tensors, MetricRow& row) const {
  const auto add = [&](const char* name, double value) { row.values.emplace_back(name, value); };
  add("memory/process_mib", double(now.resident) / kMiB);
  add("memory/tensors_mib", double(tensors.host) / kMiB);
  add("memory/growth_mib_per_hour", process_.growth * kHour_s / kMiB);
  if (now.programs.running > 0) {
    add("memory/programs_mib", double(now.programs.resident) / kMiB);
    add("memory/programs_growth_mib_per_hour", programs_.growth * kHour_s / kMiB);
  }
  if (!std::isnan(now.memory_pressure)) add("memory/pressure", now.memory_pressure);
  if (tensors.device_reserved == 0) return;
  add("memory/device_mib", double(tensors.device) / kMiB);
  add("memory/device_reserved_mib", double(tensors.device_reserved) / kMiB);
  add("memory/device_growth_mib_per_hour", device_.growth * kHour_s / kMiB);
}

double Monitor::processors_until(const Usage& now) const {
  return (now.processor_s - last_.processor_s) / (now.at_s - last_.at_s);
}

double Monitor::programs_until(const Usage& now) const {
  return grown(last_.programs.on_processor_s, now.programs.on_processor_s) /
         (now.at_s - last_.at_s);
}

Load Monitor::load_until(const Usage& now, const GpuUsage& gpu) const {
  Load load = load_;
  for (double* share : {&load.environment, &load.policy, &load.learn, &load.copy})
    *share /= summed_s_;
  load.logging = beside_.logging / summed_s_, load.saving = beside_.saving / summed_s_;
  load.evaluating = beside_.evaluating / summed_s_, load.hooks = beside_.hooks / summed_s_;
  load.learn = std::max(0.0, load.learn - beside_.hooks_in_learn / summed_s_);
  load.processors = processors_until(now);
  const double passed_s = now.at_s - last_.at_s;
  load.queued = grown(last_.queued_s, now.queued_s) / passed_s;
  load.programs = now.programs.running;
  load.programs_processors = programs_until(now);
  load.programs_queued = grown(last_.programs.queued_s, now.programs.queued_s) / passed_s;
  load.memory_pressure = now.memory_pressure;
  load.processor_pressure = now.processor_pressure;
  load.device_busy = gpu.busy;
  return load;
}

void Monitor::add_gpu(const GpuUsage& now, double steps, MetricRow& row) const {
  for (const auto& [name, value] :
       {std::pair{"machine/gpu_busy", now.busy}, std::pair{"machine/gpu_busy_min", now.busy_min},
        std::pair{"machine/gpu_busy_max", now.busy_max},
        std::pair{"machine/gpu_sm", now.shares.multiprocessors},
        std::pair{"machine/gpu_tensor", now.shares.tensor_cores},
        std::pair{"machine/gpu_dram", now.shares.bandwidth},
        std::pair{"machine/gpu_watts", watts_between(last_gpu_, now)},
        std::pair{"machine/gpu_joules_per_million_steps",
                  steps > 0 ? 1e6 * joules_between(last_gpu_, now) / steps : kUnknown},
        std::pair{"machine/gpu_celsius", now.celsius}, std::pair{"machine/gpu_mhz", now.mhz},
        std::pair{"machine/gpu_mib", now.memory / kMiB}})
    if (!std::isnan(value)) row.values.emplace_back(name, value);
}

void Monitor::add_times(const MetricRow& row) {
  const double interval_s = row.seconds - std::exchange(row_s_, row.seconds);
  // the first row's interval holds what came before the loop
  if (std::isinf(sampled_s_) || interval_s <= 0) return;
  for (const auto& [name, share] : row.values)
    for (const auto& [stage, sum] :
         {std::pair{"time/environment", &load_.environment},
          std::pair{"time/policy", &load_.policy}, std::pair{"time/learn", &load_.learn},
          std::pair{"time/copy", &load_.copy}})
      if (name == stage && std::isfinite(share)) *sum += share * interval_s;
  summed_s_ += interval_s;
}

void Monitor::look_for_growth(Held& of) {
  of.growth = kUnknown;
  if (times_s_.size() < kLeast) return;
  const Trend trend = trend_of(times_s_, of.bytes);
  of.growth = trend.slope;
  // a replay whose pages are touched one by one grows too, up to what was planned
  if (of.warned || trend.p >= kDoubt || trend.slope <= 0 || of.bytes.back() <= double(of.allowed))
    return;
  const size_t half = times_s_.size() / 2;
  const std::span times(times_s_), held(of.bytes);
  for (const Trend part : {trend_of(times.first(half), held.first(half)),
                           trend_of(times.subspan(half), held.subspan(half))})
    if (part.p >= kDoubtOfHalf || part.slope <= 0) return;
  of.warned = true;
  warning_ += (warning_.empty() ? "" : "; ") + std::string("memory grows: ") + of.holds + " " +
              bytes_text(int64_t(of.bytes.back())) + ", more than the " + bytes_text(of.allowed) +
              " of the beginning and the plan, and " + of.takes + " " +
              bytes_text(int64_t(trend.slope * kHour_s)) + " more an hour" + grown_part(of) + "; " +
              words_.shown;
}

std::string Monitor::grown_part(const Held& of) const {
  if (&of == &programs_) return "";
  const bool on_device = &of == &device_;
  const auto text = [](int64_t bytes, const std::string& name) {
    return bytes > 0 ? ", most of it (" + bytes_text(bytes) + " so far) " + name : "";
  };
  const int64_t tensors = tensors_now_.host - first_tensors_.host;
  // pages of what was planned come as they are touched
  const int64_t beside = int64_t(of.bytes.back()) - first_resident_ - tensors - planned_.host;
  if (!on_device && beside >= tensors) return text(beside, words_.in_no_tensor);
  // where a run is on a device, its parts say nothing of the host's tensors
  const bool of_parts = parts_ && on_device == (tensors_now_.device_reserved > 0);
  std::pair<int64_t, std::string> most{on_device ? 0 : tensors, "in tensors"};
  if (!of_parts) return text(most.first, most.second);
  const std::vector<MemoryPart> now = parts_();
  most.first = 0;
  for (size_t i = 0; i < std::min(now.size(), first_parts_.size()); ++i)
    if (const int64_t grown = now[i].bytes - first_parts_[i].bytes; grown > most.first)
      most = {grown, "in " + now[i].name};
  return text(most.first, most.second);
}

std::string Monitor::take_warning() { return std::exchange(warning_, ""); }

}  // namespace maglev
