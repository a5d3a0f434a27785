#include "verbs/tune/search.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/statistics/samples.h"

namespace maglev::verbs::tune {
namespace {

// shares of the budget: the first measurement, and what the finals keep
constexpr double kFirstShare = 1. / 40, kFinalShare = 0.4, kMostFinalShare = 0.7;
// of one measurement
constexpr double kLeastSeconds = 0.2, kMostSeconds = 10;
// a candidate that takes so much longer than the settings as they are need is stopped
constexpr double kPatience = 3, kSlack = 0.5;
constexpr double kHopeless = 0.75;  // of the speed beside it
constexpr size_t kFinalists = 3, kTurns = 3, kLeastTurns = 2;
constexpr const char* kNoTime = "no time left (--budget gives more)";

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

const Setting* find(const Candidate& candidate, const std::string& name) {
  for (const Setting& one : candidate)
    if (one.name == name) return &one;
  return nullptr;
}

// whether it has all that `failed` changed, as much of it or more, and holds no less
bool bigger(const Row& row, const Row& failed) {
  if (row.bytes < failed.bytes) return false;
  return std::ranges::all_of(failed.candidate, [&](const Setting& theirs) {
    const Setting* ours = find(row.candidate, theirs.name);
    if (!ours) return false;
    if (ours->value == theirs.value) return true;
    const auto a = number_of(ours->value), b = number_of(theirs.value);
    return a && b && *a > *b;
  });
}

// that it was run and gave no figure
bool gave_none(const Row& row) {
  return row.state == State::failed || row.state == State::too_slow;
}

std::string percent(double share) { return printed("%.1f %%", 100 * share); }

class Search {
 public:
  Search(const std::vector<Knob>& knobs, double budget, const World& world)
      : knobs_(knobs), world_(world), begin_(world.clock()), budget_(budget) {}

  Outcome run() {
    measure_incumbent();
    size_t centre = 0;
    for (bool moved = true; moved;) {
      const auto near = neighbours(centre);
      if (near.empty()) break;
      const size_t best = halve(centre, near);
      moved = best != centre && row(best).speed > gain() * row(centre).speed;
      if (moved) centre = best;
    }
    measure_left_out(centre);
    finals(finalists(centre));
    choose();
    outcome_.seconds = world_.clock() - begin_;
    return std::move(outcome_);
  }

 private:
  Row& row(size_t i) { return outcome_.rows[i]; }
  // the finals keep their share, and more where measurements take long to begin
  double search_end() const {
    const double least = 2.2 * double(kLeastTurns) * (kLeastSeconds + overhead_);
    return end() - std::max(kFinalShare * budget_, std::min(least, kMostFinalShare * budget_));
  }
  double end() const { return begin_ + budget_; }
  double left(double end) const { return end - world_.clock(); }
  static double gain() { return 1 + kLeastGain; }

  void tell(size_t i, double speed = 0) {
    if (world_.told) world_.told(row(i), speed);
  }

  // what has not been seen yet is planned; the place of its row
  std::pair<size_t, bool> place_of(const Candidate& candidate) {
    for (size_t i = 0; i < outcome_.rows.size(); ++i)
      if (row(i).candidate == candidate) return {i, false};
    const Fit fit = world_.plan(candidate);
    Row added{.candidate = candidate, .bytes = fit.bytes};
    if (!fit.refused.empty()) added.state = State::refused, added.why = fit.refused;
    outcome_.rows.push_back(std::move(added));
    const size_t i = outcome_.rows.size() - 1;
    if (row(i).state == State::refused) tell(i);
    return {i, true};
  }

  Candidate changed(const Candidate& from, const Knob& knob, const std::string& value) const {
    Candidate to;
    for (const Knob& each : knobs_) {
      if (each.setting == knob.setting) {
        if (value != each.now) to.push_back({each.setting, value});
      } else if (const Setting* kept = find(from, each.setting)) {
        to.push_back(*kept);
      }
    }
    return to;
  }

  const Knob& knob_of(const std::string& setting) const {
    return *std::ranges::find(knobs_, setting, &Knob::setting);
  }

  // every single change of it that has not been looked at
  std::vector<size_t> neighbours(size_t centre) {
    std::vector<size_t> near;
    const Candidate from = row(centre).candidate;
    for (const Knob& knob : knobs_) {
      std::vector<std::string> values = knob.values;
      values.push_back(knob.now);
      for (const std::string& value : values) {
        const Candidate to = changed(from, knob, value);
        if (to == from || std::ranges::count(hopeless_, Setting{knob.setting, value})) continue;
        const auto [i, is_new] = place_of(to);
        if (is_new && row(i).state != State::refused) near.push_back(i);
      }
    }
    return near;
  }

  // one measurement, where nothing speaks against it and it ends before `until`; whether there is a
  // figure
  bool measure(size_t i, double seconds, double until) {
    Row& now = row(i);
    if (now.state == State::refused || gave_none(now)) return false;
    for (const Row& other : outcome_.rows) {
      if (&other == &now || !gave_none(other) || !bigger(now, other)) continue;
      now.why = other.state == State::failed ? "no smaller than one that failed"
                                             : "no smaller than one that was too slow";
      tell(i);
      return false;
    }
    if (left(until) < seconds + overhead_) {
      if (now.state == State::left_out) now.why = kNoTime, tell(i);
      return false;
    }
    const double limit = std::min(left(until), kPatience * (seconds + overhead_) + kSlack);
    return keep(i, world_.measure(now.candidate, seconds, limit));
  }

  bool keep(size_t i, const Sample& sample) {
    Row& now = row(i);
    now.peak_bytes = std::max(now.peak_bytes, sample.peak_bytes);
    if (!sample.failed.empty()) {
      now.state = sample.late ? State::too_slow : State::failed, now.why = sample.failed;
    } else {
      now.state = State::measured, now.speed = sample.speed, now.why.clear();
      now.looks.push_back(sample.speed);
    }
    tell(i, sample.speed);
    return now.state == State::measured;
  }

  void measure_incumbent() {
    const size_t i = place_of({}).first;
    if (row(i).state == State::refused)
      throw Error("[tune] the settings as they are cannot be run: " + row(i).why);
    const double seconds = std::clamp(kFirstShare * budget_, kLeastSeconds, kMostSeconds);
    const double from = world_.clock();
    const Sample sample = world_.measure({}, seconds, left(search_end()));
    if (!keep(i, sample))
      throw Error("[tune] the settings as they are give no figure: " + row(i).why +
                  (sample.late ? "; give a larger --budget" : ""));
    row(i).gain = 1;
    overhead_ = std::max(0., world_.clock() - from - seconds);
  }

  // the best of `centre` and those near it
  size_t halve(size_t centre, std::vector<size_t> contestants) {
    const double rungs = 1 + std::floor(std::log2(double(contestants.size()) + 1));
    const double count = double(contestants.size()) + 1;
    // a rung takes as long as the one before: half as many, for twice the time
    double seconds = (left(search_end()) - 2 * count * overhead_) / (count * (rungs + 1));
    seconds = std::clamp(seconds, kLeastSeconds, kMostSeconds / std::exp2(rungs - 1));
    std::vector<size_t> helped;
    for (bool last = false; !last; seconds *= 2) {
      last = contestants.size() <= 2;
      if (last) add_joined(centre, helped, contestants);
      measure(centre, seconds, search_end());
      std::erase_if(contestants, [&](size_t i) { return !measure(i, seconds, search_end()); });
      if (contestants.empty()) return centre;
      for (size_t i : contestants)
        row(i).gain = row(centre).gain * row(i).speed / row(centre).speed;
      give_up(centre, contestants);
      std::ranges::stable_sort(contestants, std::greater{}, [&](size_t i) { return row(i).speed; });
      // what was better than the centre once is worth a try beside the others that were
      for (size_t i : contestants)
        if (row(i).speed > gain() * row(centre).speed && !std::ranges::count(helped, i))
          helped.push_back(i);
      if (!last) contestants.resize((contestants.size() + 1) / 2);
    }
    return row(contestants[0]).speed > row(centre).speed ? contestants[0] : centre;
  }

  // what is far slower than the centre is not tried beside other changes either
  void give_up(size_t centre, const std::vector<size_t>& contestants) {
    for (size_t i : contestants) {
      if (row(i).speed >= kHopeless * row(centre).speed) continue;
      const auto changes = changes_of(i, centre);
      if (changes.size() == 1) hopeless_.push_back(changes[0]);
    }
  }

  // what it has otherwise than `other`
  Candidate changes_of(size_t i, size_t other) {
    Candidate changes;
    for (const Knob& knob : knobs_) {
      const Setting *before = find(row(other).candidate, knob.setting),
                    *after = find(row(i).candidate, knob.setting);
      const std::string is = after ? after->value : knob.now;
      if (is != (before ? before->value : knob.now)) changes.push_back({knob.setting, is});
    }
    return changes;
  }

  // the changes that helped alone, together; of one setting the value that helped most
  void add_joined(size_t centre, std::vector<size_t> helped, std::vector<size_t>& contestants) {
    std::ranges::stable_sort(helped, std::greater{}, [&](size_t i) { return row(i).gain; });
    Candidate joined = row(centre).candidate;
    std::vector<std::string> taken;
    for (size_t i : helped)
      for (const Setting& change : changes_of(i, centre)) {
        if (std::ranges::count(taken, change.name)) continue;
        joined = changed(joined, knob_of(change.name), change.value);
        taken.push_back(change.name);
      }
    if (taken.size() < 2) return;
    const auto [i, is_new] = place_of(joined);
    if (is_new) contestants.push_back(i);
  }

  // the settings as they are, the best, and a smaller one that is as good, or the next best
  std::vector<size_t> finalists(size_t centre) {
    std::vector<size_t> others;
    for (size_t i = 1; i < outcome_.rows.size(); ++i)
      if (row(i).state == State::measured && row(i).gain > 1 - kKnee) others.push_back(i);
    std::ranges::stable_sort(others, std::greater{}, [&](size_t i) {
      return i == centre ? std::numeric_limits<double>::infinity() : row(i).gain;
    });
    if (others.size() > 2) {
      const Row& best = row(others[0]);
      auto next = others.begin() + 1;
      for (auto it = next; it != others.end(); ++it)
        if (row(*it).gain >= (1 - kKnee) * best.gain && row(*it).bytes < best.bytes &&
            (row(*next).bytes >= best.bytes || row(*it).bytes < row(*next).bytes))
          next = it;
      std::iter_swap(others.begin() + 1, next);
    }
    others.resize(std::min(others.size(), kFinalists - 1));
    others.insert(others.begin(), 0);
    return others;
  }

  // the shortest finals of so many
  double least_finals(size_t contestants) const {
    return double(contestants * kLeastTurns) * (kLeastSeconds + overhead_);
  }

  size_t without_time() const {
    return size_t(std::ranges::count(outcome_.rows, kNoTime, &Row::why));
  }

  // what the search had no time for, in that of the finals: all of it while there is nothing for
  // them, or where they would be longer than what is left
  void measure_left_out(size_t centre) {
    if (finalists(centre).size() > 1 && left(end()) >= least_finals(2)) return;
    const size_t count = without_time();
    if (count == 0) return;
    // one that comes near is judged yet, where short looks leave the time
    const double share = (0.9 * left(end()) - least_finals(2)) / double(count) - overhead_;
    const double seconds = std::clamp(share, kLeastSeconds, kMostSeconds);
    for (size_t i = 1; i < outcome_.rows.size(); ++i) {
      if (row(i).why != kNoTime) continue;
      const double kept = finalists(centre).size() > 1 ? least_finals(2) : 0;
      const double until = left(end()) >= kept ? end() - kept : end();
      if (measure(i, seconds, until)) row(i).gain = row(i).speed / row(0).speed;
    }
  }

  void finals(std::vector<size_t> contestants) {
    unjudged_ = contestants.size() > 1 ||
                std::ranges::count(outcome_.rows, State::left_out, &Row::state) + 1 ==
                    std::ssize(outcome_.rows);
    while (contestants.size() > 1 && left(end()) < least_finals(contestants.size()))
      contestants.pop_back();
    if (contestants.size() < 2) return;
    const double count = double(contestants.size());
    double seconds = left(end()) / (count * kTurns) - overhead_;
    size_t turns = kTurns;
    if (seconds < kLeastSeconds) {
      turns = kLeastTurns;
      seconds = left(end()) / (count * kLeastTurns) - overhead_;
    }
    // measurements end a little late
    seconds = std::clamp(0.9 * seconds, kLeastSeconds, kMostSeconds);
    for (size_t turn = 0; turn < turns; ++turn) {
      std::vector<std::pair<size_t, double>> figures;
      for (size_t i : contestants) {
        const double before = row(i).speed;
        if (!measure(i, seconds, end())) break;
        figures.emplace_back(i, std::exchange(row(i).speed, before));
      }
      // a turn that was cut short would compare different times
      if (figures.size() < contestants.size()) break;
      for (const auto& [i, speed] : figures) row(i).finals.push_back(speed);
    }
    // one turn says less than all that was seen before
    for (size_t i : contestants)
      if (row(i).finals.size() < kLeastTurns) row(i).finals.clear();
  }

  void choose() {
    for (const Row& one : outcome_.rows) {
      if (one.finals.empty()) continue;
      const auto [least, most] = std::ranges::minmax(one.finals);
      outcome_.noise = std::max(outcome_.noise, (most - least) / (2 * one.median()));
    }
    const double needed = 1 + std::max(kLeastGain, outcome_.noise), now = row(0).median();
    std::vector<size_t> better;
    for (size_t i = 1; i < outcome_.rows.size(); ++i)
      if (row(i).state == State::measured && !row(i).finals.empty() &&
          row(i).median() > needed * now)
        better.push_back(i);
    if (better.empty()) {
      row(0).why =
          compared() ? "kept: nothing was faster by more than " + percent(needed - 1)
          : unjudged_
              ? "kept: no time was left to measure others beside it; a larger --budget has it"
          : without_time() > 0 ? "kept: nothing that was measured came near it"
                               : "kept: nothing came near it";
    } else {
      const size_t best =
          *std::ranges::max_element(better, {}, [&](size_t i) { return row(i).median(); });
      outcome_.chosen = best;
      for (size_t i : better)
        if (row(i).median() >= (1 - kKnee) * row(best).median() &&
            row(i).bytes < row(outcome_.chosen).bytes)
          outcome_.chosen = i;
      row(outcome_.chosen).why =
          outcome_.chosen == best
              ? "chosen: the fastest, and by more than " + percent(needed - 1)
              : "chosen: the smallest within " + percent(kKnee) + " of the fastest";
    }
    for (size_t i = 0; i < outcome_.rows.size(); ++i) explain(i, needed);
    outcome_.unfinished = (unjudged_ && !compared()) || without_time() > 0 ||
                          std::ranges::count(outcome_.rows, State::too_slow, &Row::state) > 0;
  }

  // whether there were finals
  bool compared() { return !row(0).finals.empty(); }

  // why a row that was measured is not the one
  void explain(size_t i, double needed) {
    Row& one = row(i);
    if (!one.why.empty() || one.state != State::measured) return;
    if (i == 0) one.why = "as it is";
    else if (!compared() && one.gain > 1 - kKnee) one.why = "looked at; no time to compare it";
    else if (one.finals.empty()) one.why = "not among the best";
    else if (one.median() <= needed * row(0).median())
      one.why = "not faster by more than " + percent(needed - 1);
    else
      one.why = one.bytes > row(outcome_.chosen).bytes ? "bigger, and no faster than noise"
                                                       : "slower in the finals";
  }

  const std::vector<Knob>& knobs_;
  const World& world_;
  const double begin_, budget_;
  bool unjudged_ = false;  // there was no time for finals, or not even for a first look
  std::vector<Setting> hopeless_;
  double overhead_ = 0;  // seconds a measurement takes besides what was asked for
  Outcome outcome_;
};

}  // namespace

double Row::median() const {
  return !finals.empty() ? median_of(finals) : looks.empty() ? 0 : median_of(looks);
}

Outcome search(const std::vector<Knob>& knobs, double budget, const World& world) {
  return Search(knobs, budget, world).run();
}

}  // namespace maglev::verbs::tune
