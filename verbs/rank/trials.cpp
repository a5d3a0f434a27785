#include "verbs/rank/trials.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <new>
#include <unordered_map>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "base/core/error.h"
#include "base/trace/span.h"
#include "engine/device/device.h"
#include "engine/play/host_step.h"
#include "verbs/rank/confidence.h"

namespace maglev::verbs::rank {
namespace {

// rows of a part: of a thread, and of a device, which wants more at once
constexpr int64_t kMostRows = 128, kMostRowsOnDevice = 1024;
constexpr int64_t kRowsPerPart =
    4;  // queries of a part, in rows: what is left at its end is little
constexpr std::align_val_t kAlign{64};

struct AtomHash {
  size_t operator()(const datalog::Atom& atom) const { return size_t(datalog::hash_of(atom)); }
};

}  // namespace

void Prover::Free::operator()(Kg::Assets* assets) const { ::operator delete(assets, kAlign); }

Prover::Prover(const Experiment& experiment, Policy& policy, ThreadPool& pool, at::Device device)
    : experiment_(experiment),
      policy_(policy),
      pool_(pool),
      device_(device),
      params_(static_cast<const Kg::Params*>(experiment.env_params())) {
  if (std::string(experiment.env().name) != "kg")
    throw Error("[rank] ranks what proves: runs of environment kg, got one of " +
                std::string(experiment.env().name));
  const auto span = maglev::trace::stage("index");
  const size_t bytes = Kg::asset_bytes(*params_);
  void* memory = ::operator new(bytes, kAlign);
  std::memset(memory, 0, bytes);
  assets_.reset(static_cast<Kg::Assets*>(memory));
  Kg::make_assets(*params_, *assets_);
  program_ = &datalog::open_graph(std::string(params_->data.view())).dataset.program;
  columns_ = experiment.algo()
                 .plan(experiment.algo_options(),
                       {.spec = experiment.spec(), .rows = kMostRows, .pool = &pool})
                 .columns;
  for (size_t i = 0; i < columns_.size(); ++i)
    if (columns_[i].name == "log_prob") log_prob_ = int(i);
}

// states of episodes, and the rows of a time step that show them to the policy
class Prover::Rows {
 public:
  Rows(Prover& prover, int64_t rows, int64_t states)
      : prover_(prover),
        spec_(prover.experiment_.spec()),
        state_bytes_((Kg::state_bytes(*prover.params_) + 15) / 16 * 16),
        states_(size_t(states) * state_bytes_ / sizeof(std::max_align_t) + 1),
        step_(spec_, prover.columns_, rows, prover.device_) {}

  HostStep& step() { return step_; }
  int64_t actions() const { return spec_.action.categories(); }
  /// While this lives no other part asks the policy, where that is on a device.
  std::unique_lock<std::mutex> alone() {
    std::unique_lock<std::mutex> lock(prover_.acting_, std::defer_lock);
    if (!prover_.device_.is_cpu()) lock.lock();
    return lock;
  }

  Kg::State& state(int64_t i) {
    return *reinterpret_cast<Kg::State*>(reinterpret_cast<std::byte*>(states_.data()) +
                                         size_t(i) * state_bytes_);
  }
  void ask(int64_t i, const datalog::Atom& query) {
    state(i) = Kg::State{};
    Kg::ask(*prover_.params_, *prover_.assets_, state(i), query, /*is_false=*/false);
  }
  void copy(int64_t from, int64_t to) {
    std::memcpy(static_cast<void*>(&state(to)), &state(from), state_bytes_);
  }
  void show(int64_t i, int64_t row) {
    const TimeStep& step = step_.host();
    std::byte* columns[kMaxObsColumns];
    int64_t bytes[kMaxObsColumns];
    for (size_t c = 0; c < step.obs.size(); ++c) {
      columns[c] = static_cast<std::byte*>(step.obs[c].data_ptr());
      bytes[c] = spec_.observations[c].row_bytes();
    }
    uint8_t* mask = step.mask.data_ptr<uint8_t>() + row * actions();
    Kg::observe(*prover_.params_, *prover_.assets_, state(i), 0, {columns, bytes, row, mask});
  }
  /// One step; whether the episode is over.
  bool move(int64_t i, int32_t action) {
    float reward = 0, totals[kMaxEvents] = {};
    StepOut out{&reward, false, false, totals};
    Rng unused(0, 0, 0);
    Kg::step(*prover_.params_, *prover_.assets_, state(i), {&action, nullptr}, unused, out);
    ++counts.steps;
    counts.dropped += int64_t(totals[Kg::kTooMany]);
    counts.too_long += int64_t(totals[Kg::kTooLong]);
    return out.terminated || out.truncated;
  }
  bool proved(int64_t i) {
    return Kg::end_of(*prover_.params_, *prover_.assets_, state(i)) == Kg::kTrue;
  }
  double log_confidence(int64_t i) {
    return rank::log_confidence(*prover_.params_, *prover_.assets_, *prover_.program_, state(i));
  }
  /// What a child of a goal is known by, as long as it is not chosen.
  uint64_t hash_of(int64_t i, int32_t action) {
    const Kg::Params& p = *prover_.params_;
    return datalog::hash_of(Kg::successor(p, state(i), action), p.atoms);
  }

  TrialCounts counts;

 private:
  Prover& prover_;
  EnvSpec spec_;
  size_t state_bytes_;
  std::vector<std::max_align_t> states_;
  HostStep step_;
};

// some queries, and the rows that try them
class Prover::Part {
 public:
  Part(Prover& prover, int64_t rows)
      : prover_(prover), rows_(prover, rows, rows), trial_of_row_(size_t(rows)) {}

  void run(std::span<const datalog::Atom> queries, std::span<Trial> trials, ActMode mode,
           ActKey key) {
    const int64_t rows = int64_t(trial_of_row_.size());
    Carry carry = prover_.policy_.initial_carry(rows);
    MAGLEV_ASSERT(carry.parts.empty(),
                  "rows change their queries: a policy that remembers would mix them");
    size_t next = 0;
    active_ = 0;
    while (active_ < rows && next < queries.size()) take(active_++, next++, queries);
    for (; active_ > 0; ++key.step) {
      act(carry, mode, key);
      const auto span = maglev::trace::stage("env_step");
      // each row steps; one that has ended takes the next query, or the last row's place
      for (int64_t row = active_ - 1; row >= 0; --row) {
        if (!move(row, trials)) continue;
        if (next < queries.size()) take(row, next++, queries);
        else if (--active_ != row) follow(row, active_);
      }
    }
  }

  const TrialCounts& counts() const { return rows_.counts; }

 private:
  void act(Carry& carry, ActMode mode, const ActKey& key) {
    const auto span = maglev::trace::stage("act");
    // other parts step their rows meanwhile
    const auto alone = rows_.alone();
    TimeStep step = rows_.step().shown(active_);
    Carry part = carry.rows(0, active_);
    prover_.policy_.act(step, part, mode, key);
    rows_.step().bring_back(active_);
  }
  void take(int64_t row, size_t query, std::span<const datalog::Atom> queries) {
    trial_of_row_[size_t(row)] = query;
    rows_.ask(row, queries[query]);
    rows_.show(row, row);
  }
  /// The last row moves to another's place.
  void follow(int64_t row, int64_t last) {
    rows_.copy(last, row);
    trial_of_row_[size_t(row)] = trial_of_row_[size_t(last)];
    rows_.show(row, row);
  }
  /// One step; whether the episode is over.
  bool move(int64_t row, std::span<Trial> trials) {
    const TimeStep& step = rows_.step().host();
    Trial& trial = trials[trial_of_row_[size_t(row)]];
    if (prover_.log_prob_ >= 0)
      trial.log_prob += step.extra[size_t(prover_.log_prob_)].const_data_ptr<float>()[row];
    ++trial.steps;
    if (!rows_.move(row, step.action.const_data_ptr<int32_t>()[row])) {
      rows_.show(row, row);
      return false;
    }
    trial.proved = rows_.proved(row);
    if (trial.proved) trial.log_confidence = rows_.log_confidence(row);
    return true;
  }

  Prover& prover_;
  Rows rows_;
  std::vector<size_t> trial_of_row_;
  int64_t active_ = 0;
};

// some queries, each with up to `width` goals at once
class Prover::Beam {
 public:
  Beam(Prover& prover, int64_t rows, int64_t width)
      : prover_(prover),
        width_(width),
        most_open_(std::max<int64_t>(1, rows / width)),
        rows_(prover, rows, 2 * most_open_ * width) {}

  void run(std::span<const datalog::Atom> queries, std::span<Trial> trials) {
    std::vector<Path> paths;
    size_t next = 0;
    int64_t open = 0;
    for (;;) {
      // a query comes where there is room for all the goals it may have
      for (; open < most_open_ && next < queries.size(); ++next, ++open) {
        paths.push_back({.query = next, .state = place(paths.size()), .greedy = true});
        rows_.ask(paths.back().state, queries[next]);
      }
      if (paths.empty()) return;
      find_log_probs(paths);
      // query by query; what is kept goes to the other half of the states
      const auto span = maglev::trace::stage("env_step");
      half_ = 1 - half_;
      std::vector<Path> kept;
      open = 0;
      for (size_t begin = 0, end = 0; begin < paths.size(); begin = end) {
        const size_t query = paths[begin].query, before = kept.size();
        while (end < paths.size() && paths[end].query == query) ++end;
        choose(paths, begin, end);
        advance(paths, trials[query], kept);
        open += kept.size() > before;
      }
      paths = std::move(kept);
    }
  }

  const TrialCounts& counts() const { return rows_.counts; }

 private:
  /// A goal on the way, and how likely it is to come here.
  struct Path {
    size_t query;
    int64_t state;
    float log_prob = 0;
    int32_t steps = 0;
    bool greedy = false;  ///< by the likeliest action each time
  };
  struct Choice {
    size_t path;
    int32_t action;
    float log_prob;  ///< from the query on
    bool greedy;
  };

  /// Where the state of the i-th path of a step lies.
  int64_t place(size_t i) const { return half_ * most_open_ * width_ + int64_t(i); }

  void find_log_probs(const std::vector<Path>& paths) {
    const auto span = maglev::trace::stage("act");
    const size_t actions = size_t(rows_.actions()), rows = size_t(rows_.step().rows());
    log_probs_.resize(paths.size() * actions);
    for (size_t begin = 0; begin < paths.size(); begin += rows) {
      const size_t count = std::min(rows, paths.size() - begin);
      for (size_t i = 0; i < count; ++i) rows_.show(paths[begin + i].state, int64_t(i));
      const auto alone = rows_.alone();
      at::Tensor all = prover_.policy_.log_probs(rows_.step().shown(int64_t(count)));
      if (!all.defined())
        throw Error("[rank] " + std::string(prover_.experiment_.algo().name) +
                    " does not tell how likely its actions are; give --width 1");
      all = all.cpu().contiguous();
      // no number is less than any: it comes through to the trial, and the order stays one
      std::transform(all.const_data_ptr<float>(), all.const_data_ptr<float>() + all.numel(),
                     log_probs_.begin() + int64_t(begin * actions),
                     [](float x) { return std::isnan(x) ? -INFINITY : x; });
    }
  }

  /// Of the actions of one query's goals, paths [begin, end), those that are taken: choices_.
  void choose(const std::vector<Path>& paths, size_t begin, size_t end) {
    std::vector<Choice> all;
    for (size_t p = begin; p < end; ++p) {
      const float* log_probs = log_probs_.data() + p * size_t(rows_.actions());
      const int32_t count = rows_.state(paths[p].state).successors;
      const auto likeliest = std::max_element(log_probs, log_probs + count) - log_probs;
      for (int32_t a = 0; a < count; ++a)
        all.push_back({.path = p,
                       .action = a,
                       .log_prob = paths[p].log_prob + log_probs[a],
                       .greedy = paths[p].greedy && a == likeliest});
    }
    std::ranges::stable_sort(all, std::greater<>(), &Choice::log_prob);
    // a goal that several lead to is kept once; the last place is the greedy one's
    bool greedy_waits = std::ranges::any_of(all, &Choice::greedy);
    std::vector<uint64_t> goals;
    choices_.clear();
    for (const Choice& choice : all) {
      if (int64_t(choices_.size()) == width_) break;
      const uint64_t goal = rows_.hash_of(paths[choice.path].state, choice.action);
      if (choice.greedy) greedy_waits = false;
      else if (greedy_waits && int64_t(choices_.size()) == width_ - 1) continue;
      else if (std::ranges::find(goals, goal) != goals.end()) continue;
      choices_.push_back(choice);
      goals.push_back(goal);
    }
  }

  void advance(const std::vector<Path>& paths, Trial& trial, std::vector<Path>& kept) {
    for (const Choice& choice : choices_) {
      // likelihoods only fall: what is worth less than a proof stays so
      if (trial.proved && choice.log_prob <= worth(trial)) continue;
      const Path& from = paths[choice.path];
      const Path to{.query = from.query,
                    .state = place(kept.size()),
                    .log_prob = choice.log_prob,
                    .steps = from.steps + 1,
                    .greedy = choice.greedy};
      rows_.copy(from.state, to.state);
      if (!rows_.move(to.state, choice.action)) {
        kept.push_back(to);
        continue;
      }
      Trial ended{.proved = rows_.proved(to.state), .log_prob = to.log_prob, .steps = to.steps};
      if (ended.proved) ended.log_confidence = rows_.log_confidence(to.state);
      const bool better = ended.proved && (!trial.proved || worth(ended) > worth(trial));
      if (better || (to.greedy && !trial.proved)) trial = ended;
    }
  }

  Prover& prover_;
  const int64_t width_, most_open_;  ///< queries at once
  Rows rows_;
  int64_t half_ = 0;              ///< of the states: where those of this step lie
  std::vector<float> log_probs_;  ///< [paths, actions]
  std::vector<Choice> choices_;
};

std::vector<Trial> Prover::prove(std::span<const datalog::Atom> queries, const Trying& how) {
  // each different query once
  std::unordered_map<datalog::Atom, size_t, AtomHash> place;
  std::vector<datalog::Atom> different;
  std::vector<size_t> which;
  {
    const auto span = maglev::trace::stage("group");
    for (const datalog::Atom& query : queries) {
      const auto [found, is_new] = place.try_emplace(query, different.size());
      if (is_new) different.push_back(query);
      which.push_back(found->second);
    }
  }

  // parts of fixed size, one after another on each thread
  std::vector<Trial> trials(different.size());
  const int64_t rows =
      std::min(policy_.block_rows(), device_.is_cpu() ? kMostRows : kMostRowsOnDevice);
  const int64_t count = int64_t(different.size());
  const int64_t size = std::max<int64_t>(1, rows / how.width) * kRowsPerPart;
  const int64_t parts = (count + size - 1) / size;
  std::vector<TrialCounts> counts(static_cast<size_t>(parts));
  std::mutex telling;
  int64_t done = 0;
  std::atomic<bool> enough{false};
  pool_.run(parts, [&](int64_t p) {
    if (enough) return;
    c10::InferenceMode guard;
    // a thread begins on the first device, whichever the policy is on
    if (device_.is_cuda()) use_device(device_.index());
    const auto span = maglev::trace::stage("trials");
    const size_t begin = size_t(p * size), many = size_t(std::min(size, count - p * size));
    const std::span some(different.data() + begin, many);
    const std::span of_some(trials.data() + begin, many);
    if (how.width == 1) {
      Part part(*this, rows);
      part.run(some, of_some, how.mode,
               {.seed = how.seed, .purpose = Purpose::eval, .step = p << 32});
      counts[size_t(p)] = part.counts();
    } else {
      Beam beam(*this, rows, how.width);
      beam.run(some, of_some);
      counts[size_t(p)] = beam.counts();
    }
    for (Trial& trial : of_some) trial.tried = true;
    counts[size_t(p)].tried = int64_t(many);
    const std::lock_guard lock(telling);
    done += int64_t(many);
    if (how.told && !how.told(done, count)) enough = true;
  });
  counts_ = {};
  for (const TrialCounts& c : counts) {
    counts_.tried += c.tried, counts_.steps += c.steps;
    counts_.dropped += c.dropped, counts_.too_long += c.too_long;
  }

  std::vector<Trial> results;
  for (size_t w : which) results.push_back(trials[w]);
  return results;
}

}  // namespace maglev::verbs::rank
