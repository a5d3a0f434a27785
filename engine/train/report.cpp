#include "engine/train/report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/split.h"

namespace maglev {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// sums of returns that are remembered; each is of a flush, or of several with few episodes, so that
// half of them are of as many episodes as a mean is over
constexpr int64_t kRecent = 128;
// parts of a copy: figures, totals, then the replay's counters and the finite flag where there are
constexpr size_t kFigures = 0, kTotals = 1, kMore = 2;

// figures of the episodes that ended; not numbers where none did
void add_episodes(MetricRow& row, const EpisodeTotals& totals, const EnvSpec& spec) {
  const double episodes = double(totals.episodes);
  row.values.emplace_back("episode/return_min", totals.episodes ? totals.return_min : kNan);
  row.values.emplace_back("episode/return_max", totals.episodes ? totals.return_max : kNan);
  row.values.emplace_back("episode/length_mean",
                          totals.episodes ? totals.length_sum / episodes : kNan);
  for (size_t k = 0; k < spec.events.size(); ++k) {
    const std::string name = "events/" + spec.events[k];
    row.values.emplace_back(name + "_per_1k",
                            totals.steps ? 1000 * totals.events[k] / double(totals.steps) : kNan);
    // the share of episodes where an episode's last step alone counts it
    row.values.emplace_back(name + "_per_episode",
                            totals.episodes ? totals.events[k] / episodes : kNan);
  }
  for (const EventShare& share : spec.shares)
    row.values.emplace_back("share/" + share.name, share_of(share, totals.events));
}

}  // namespace

Report::Report(at::Device device)
    : metrics_(device),
      copy_(device),
      recent_(at::zeros({kRecent, 2}, at::kDouble)),
      started_s_(steady_s()),
      flushed_s_(started_s_) {}

void Report::begin(int64_t step) {
  settle();
  // one copy of everything there is
  const double begin = steady_s();
  if (from_.group) {
    from_.group->check();
    from_.group->sum(metrics_.sums());
  }
  std::vector<at::Tensor> parts{metrics_.sums(), gathered(from_.group, from_.envs->totals())};
  if (from_.replay) parts.push_back(gathered(from_.group, from_.replay->counters_on_device()));
  if (from_.finite->flag().defined()) parts.push_back(finite_flag());
  copy_.start(parts);
  metrics_.clear();
  open_ = true;

  // what the host knows already
  const double end = steady_s(), interval = std::max(1e-12, end - flushed_s_);
  times_.copy += end - begin;
  if (from_.stages) {
    const double copy = times_.copy;
    times_ = from_.stages->take();
    times_.copy = copy;
  }
  open_row_ = {
      .step = step,
      .seconds = seconds(),
      .steps_per_second = of_two_sessions_ ? kNan : double(step - flushed_step_) / interval,
      .values = {{"time/environment", times_.environment / interval},
                 {"time/policy", times_.policy / interval},
                 {"time/learn", times_.learn / interval},
                 {"time/copy", times_.copy / interval}}};
  flushed_s_ = end;
  flushed_step_ = step;
  of_two_sessions_ = false;
  times_ = {};
}

void Report::settle() {
  if (!open_) return;
  copy_.wait();
  open_ = false;
  MetricRow row = std::exchange(open_row_, {});
  const ReplayHeld held = replay_held();
  if (from_.finite->flag().defined() && *copy_.part<float>(from_.replay ? kMore + 1 : kMore) == 0)
    from_.not_finite(row.step);

  EpisodeTotals totals;
  for (int rank = 0; rank < size_of(from_.group); ++rank)
    totals += copy_.part<EpisodeTotals>(kTotals)[rank];
  take_episodes(totals);
  const auto times = std::exchange(row.values, {});
  add_episodes(row, totals, from_.envs->spec());
  const float* sums = copy_.part<float>(kFigures);
  const auto figures = metrics_.means(sums);
  row.values.insert(row.values.end(), figures.begin(), figures.end());
  look_for_divergence(figures, sums);
  if (from_.replay) {
    row.values.emplace_back("replay/rows", double(held.rows));
    // those that hold a sequence; where sequences cross the ends of episodes none is told apart
    if (!from_.replay->shape().crossing)
      row.values.emplace_back("replay/episodes", double(held.episodes));
  }
  if (from_.league)
    for (auto& figure : from_.league->figures()) row.values.push_back(std::move(figure));
  row.values.insert(row.values.end(), times.begin(), times.end());
  row.episodes = episodes_;
  row.return_mean = return_mean_;
  rows_.push_back(std::move(row));
}

Report::ReplayHeld Report::replay_held() const {
  ReplayHeld held;
  if (!from_.replay) return held;
  int64_t faults = 0;
  for (int rank = 0; rank < size_of(from_.group); ++rank) {
    const EpisodeCounters& c = copy_.part<EpisodeCounters>(kMore)[rank];
    faults += c.faults;
    if (rank > 0 && from_.replay_in_each) continue;
    held.rows += (c.now - c.oldest + 1) * from_.replay->shape().window.rows;
    held.episodes += c.end - c.first;
  }
  if (faults > 0)
    throw Error(
        "[replay] a sequence was asked for while no episode held one; raise the capacity "
        "above the longest episode of each environment");
  return held;
}

at::Tensor Report::finite_flag() const {
  const at::Tensor& flag = from_.finite->flag();
  return from_.group ? from_.group->gather(flag).amin(0) : flag;
}

void Report::expect_finite(int64_t step) const {
  if (from_.finite->flag().defined() && finite_flag().item<float>() == 0) from_.not_finite(step);
}

void Report::pool_figures() {
  if (!from_.group) return;
  from_.group->sum(metrics_.sums());
  if (from_.group->rank() > 0) metrics_.clear();
  metrics_.begin_pass();
}

void Report::take_episodes(const EpisodeTotals& totals) {
  episodes_ += totals.episodes;
  const double enough = double(settled_episodes());
  auto recent = recent_.accessor<double, 2>();
  if (totals.episodes > 0) {
    const int64_t newest = (recent_next_ + kRecent - 1) % kRecent;
    if (recent_next_ > 0 && recent[newest][1] < std::floor(enough / (kRecent / 2))) {
      recent[newest][0] += totals.return_sum, recent[newest][1] += double(totals.episodes);
    } else {
      recent[recent_next_ % kRecent][0] = totals.return_sum;
      recent[recent_next_ % kRecent][1] = double(totals.episodes);
      ++recent_next_;
    }
  }
  // back from the newest until there are enough
  double sum = 0, count = 0;
  for (int64_t i = 1; i <= std::min(recent_next_, kRecent) && count < enough; ++i) {
    const int64_t slot = (recent_next_ - i) % kRecent;
    sum += recent[slot][0], count += recent[slot][1];
  }
  if (count > 0) return_mean_ = sum / count;
}

void Report::look_for_divergence(const std::vector<std::pair<std::string, double>>& figures,
                                 const float* sums) {
  if (!divergence_.empty()) return;
  // with fp16 a step that was left out is no more than a scale that was tried too high, unless none
  // is low enough
  const bool scaled = from_.precision == Precision::fp16;
  for (size_t i = 0; i < figures.size(); ++i) {
    // a sum is not finite only where something was added: without weight nothing is
    const auto& [name, mean] = figures[i];
    if (scaled ? std::isnan(sums[i]) : !std::isfinite(sums[i])) {
      divergence_ = name + (std::isnan(sums[i]) ? " is not a number" : " is infinite");
      return;
    }
    if (scaled && name.ends_with("/scale") && mean < 1) {
      divergence_ = name + " is below 1: gradients are not finite in fp16 at any scale";
      return;
    }
    if (!scaled && name.ends_with("nonfinite_steps") && mean > 0) {
      divergence_ = name + ": updates were left out, their gradients were not finite";
      return;
    }
  }
}

std::optional<MetricRow> Report::next_row(bool wait) {
  if (open_ && (wait || copy_.ready())) settle();
  if (rows_.empty()) return std::nullopt;
  MetricRow row = std::move(rows_.front());
  rows_.erase(rows_.begin());
  return row;
}

void Report::restart_clocks() {
  times_ = {};
  if (from_.stages) from_.stages->take();
  const double now_s = steady_s();
  started_s_ += now_s - flushed_s_;
  flushed_s_ = now_s;
}

int64_t Report::settled_episodes() const {
  return std::max(kSettledEpisodes, from_.envs->count() * size_of(from_.group));
}

double Report::settled_return_mean() const {
  return episodes_ >= settled_episodes() ? return_mean_ : kNan;
}

double Report::seconds() const { return seconds_before_ + steady_s() - started_s_; }

void Report::visit_state(StateVisitor& visitor) {
  visitor.count("flushed_step", flushed_step_);
  visitor.count("episodes", episodes_);
  visitor.real("return_mean", return_mean_);
  visitor.tensor("recent", recent_);
  visitor.count("recent_next", recent_next_);
  // algorithms name their figures at the first update: what was summed before a resume has no other
  // names until then
  const at::Tensor sums = metrics_.sums().cpu();
  const auto named = metrics_.means(sums.const_data_ptr<float>());
  std::string names;
  if (at::count_nonzero(sums[1]).item<int64_t>() > 0)
    for (const auto& [name, mean] : named) names += (names.empty() ? "" : ",") + name;
  visitor.text("figure_names", names);
  if (named.empty() && !names.empty()) {
    const auto list = split_list(names, "[state]");
    if (int64_t(list.size()) > metrics_.sums().size(1))
      throw Error("[state] 'trainer.figure_names' holds " + std::to_string(list.size()) +
                  " names, which no algorithm has; use an earlier checkpoint");
    metrics_.declare(list);
  }
  at::Tensor figures = metrics_.sums();
  visitor.tensor("figures", figures);
  // what a checkpoint holds is all processes'
  if (visitor.loads() && rank_of(from_.group) > 0) metrics_.clear();
}

}  // namespace maglev
