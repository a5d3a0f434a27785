#include "sinks/console/view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace maglev::sinks::console {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmooth_s = 10;

}  // namespace

View::View(const RunInfo& run, double now_s)
    : algo(run.algo),
      env(run.env),
      device(run.device),
      dir(run.dir),
      total_steps(run.total_steps),
      resumed_at(run.resumed_at),
      plays(run.plays),
      step(std::max<int64_t>(0, run.resumed_at)),
      steps_per_second(kNaN),
      settled_episodes(run.settled_episodes),
      best_return(kNaN),
      evaluated(kNaN),
      best_evaluated(kNaN),
      began_s_(now_s),
      row_at_s_(now_s),
      began_step_(step) {
  seeding_steps = run.seeding_steps;
  row.return_mean = kNaN;
  for (const PastRow& before : run.past) remember(before);
}

void View::apply(const MetricRow& next, double now_s) {
  if (next.event) {
    for (const auto& [name, value] : next.values)
      if (name == "eval/return_mean") evaluated = value, evaluated_step = next.step;
    if (!(best_evaluated >= evaluated)) best_evaluated = evaluated;
    return;
  }
  const double interval_s = rows == 0 ? now_s - began_s_ : next.seconds - row.seconds;
  // the first row's rate holds lazy initialisation too, and that of seeding no updates: those
  // behind them begin anew
  const bool was_seeding =
      std::exchange(rate_of_seeding_, (rows == 0 ? began_step_ : row.step) < seeding_steps);
  if (rows < 2 || was_seeding || rate_of_seeding_) recent_steps_ = recent_s_ = 0;
  if (std::isfinite(next.steps_per_second) && interval_s > 0) {
    // steps and seconds each, for rows of few updates take next to no time beside those of many
    const double kept = std::exp(-interval_s / kSmooth_s);
    recent_steps_ = kept * recent_steps_ + interval_s * next.steps_per_second;
    recent_s_ = kept * recent_s_ + interval_s;
    steps_per_second = recent_steps_ / recent_s_;
  } else if (std::isfinite(next.steps_per_second) && recent_s_ == 0) {
    steps_per_second = next.steps_per_second;
  }
  MetricRow settled = next;
  settle(settled, interval_s);
  row = std::move(settled);
  if (!next.bound_by.empty()) bound_by = next.bound_by;
  look_at_gpu(next);
  row_at_s_ = now_s;
  step = next.step;
  elapsed_s = next.seconds;
  ++rows;
  ++beats;
  remember({.step = next.step, .episodes = next.episodes, .return_mean = next.return_mean});
}

void View::look_at_gpu(const MetricRow& next) {
  constexpr std::string_view kPrefix = "machine/gpu_";
  std::map<std::string, double> told;
  for (const auto& [name, value] : next.values)
    if (name.starts_with(kPrefix)) told[name.substr(kPrefix.size())] = value;
  // most rows tell nothing of it
  if (!told.empty()) gpu = std::move(told);
}

void View::apply(const Progress& progress, double now_s) {
  // steps that will be undone are none, nor is the time they take
  if (progress.warming.load(std::memory_order_relaxed)) {
    if (rows == 0) began_s_ = row_at_s_ = now_s;
    ++beats;
    return;
  }
  const int64_t collected = progress.iteration_step.load(std::memory_order_relaxed);
  // the last iteration may go beyond the run's steps; what a row said stays
  const int64_t made = progress.step.load(std::memory_order_relaxed) + collected;
  step = std::max(step, total_steps > 0 ? std::min(made, total_steps) : made);
  seeding_steps = progress.seeding_steps;
  elapsed_s = row.seconds + now_s - row_at_s_;
  if (rows == 0 && step > began_step_ && now_s > began_s_)
    steps_per_second = double(step - began_step_) / (now_s - began_s_);
  ticked = true;
  iteration_share = progress.iteration_steps > 0
                        ? std::min(1.0, double(collected) / double(progress.iteration_steps))
                        : 0;
  updates_left = progress.updates_left.load(std::memory_order_relaxed);
  iteration_s = steps_per_second > 0 ? double(progress.iteration_steps) / steps_per_second : 0;
  ++beats;
}

void View::settle(MetricRow& next, double interval_s) {
  const double kept = interval_s > 0 ? std::exp(-interval_s / kSmooth_s) : 1;
  const double steps = double(next.step - (rows == 0 ? began_step_ : row.step));
  for (auto& [name, value] : next.values) {
    if (name.starts_with("events/")) {
      Counted& mean = counted_[name];
      if (std::isfinite(value) && steps > 0) {
        mean.steps = kept * mean.steps + steps;
        mean.rate += steps / mean.steps * (value - mean.rate);
        mean.line_sum += steps * value, mean.line_steps += steps;
      }
      if (mean.steps > 0) value = mean.rate;
    } else if (!std::isnan(value)) {
      told_at_[name] = next.step;
    } else if (const auto told = told_at_.find(name); told != told_at_.end()) {
      // losses that are no numbers any more must not look healthy for long
      const bool loss = name.starts_with("loss/");
      if (!loss || next.step - told->second <= total_steps / 50) value = figure(name);
    }
  }
}

double View::share() const {
  return total_steps > 0 ? std::clamp(double(step) / double(total_steps), 0.0, 1.0) : 0;
}

double View::left_s() const {
  if (total_steps <= 0 || !(steps_per_second > 0) || seeding() || rate_of_seeding_) return kNaN;
  return double(std::max<int64_t>(0, total_steps - step)) / steps_per_second;
}

double View::figure(const std::string& name) const {
  for (const auto& [known, value] : row.values)
    if (known == name) return value;
  return kNaN;
}

double View::since_line(const std::string& name) const {
  const auto counted = counted_.find(name);
  if (counted == counted_.end()) return kNaN;
  const Counted& c = counted->second;
  return c.line_steps > 0 ? c.line_sum / c.line_steps : c.told;
}

void View::line_told() {
  for (auto& [name, counted] : counted_) {
    counted.told = since_line(name);
    counted.line_sum = counted.line_steps = 0;
  }
}

void View::remember(const PastRow& past) {
  if (!std::isfinite(past.return_mean)) return;
  // the mean of a few episodes is luck; checkpoints are compared from as many on, too
  if (past.episodes >= settled_episodes && !(best_return >= past.return_mean))
    best_return = past.return_mean, best_step = past.step;
  history_sum_ += past.return_mean;
  if (++history_pending_ < history_stride_) return;
  history.push_back(history_sum_ / double(history_pending_));
  history_sum_ = 0;
  history_pending_ = 0;
  if (history.size() < kHistory) return;
  // full: neighbours become one, and each later entry stands for twice as many rows
  for (size_t i = 0; i < kHistory / 2; ++i) history[i] = (history[2 * i] + history[2 * i + 1]) / 2;
  history.resize(kHistory / 2);
  history_stride_ *= 2;
}

}  // namespace maglev::sinks::console
