#include "verbs/rank/trials.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <unordered_map>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "base/core/error.h"
#include "base/trace/span.h"
#include "engine/device/device.h"
#include "engine/play/host_step.h"

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
  columns_ = experiment.algo()
                 .plan(experiment.algo_options(),
                       {.spec = experiment.spec(), .rows = kMostRows, .pool = &pool})
                 .columns;
  for (size_t i = 0; i < columns_.size(); ++i)
    if (columns_[i].name == "log_prob") log_prob_ = int(i);
}

// some queries, and the rows that try them
class Prover::Part {
 public:
  Part(Prover& prover, int64_t rows)
      : prover_(prover),
        spec_(prover.experiment_.spec()),
        state_bytes_((Kg::state_bytes(*prover.params_) + 15) / 16 * 16),
        states_(size_t(rows) * state_bytes_ / sizeof(std::max_align_t) + 1),
        step_(spec_, prover.columns_, rows, prover.device_),
        trial_of_row_(size_t(rows)) {}

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

  TrialCounts counts;

 private:
  void act(Carry& carry, ActMode mode, const ActKey& key) {
    const auto span = maglev::trace::stage("act");
    // other parts step their rows meanwhile
    std::unique_lock<std::mutex> alone(prover_.acting_, std::defer_lock);
    if (!prover_.device_.is_cpu()) alone.lock();
    TimeStep step = step_.shown(active_);
    Carry part = carry.rows(0, active_);
    prover_.policy_.act(step, part, mode, key);
    step_.bring_back(active_);
  }
  Kg::State& state(int64_t row) {
    return *reinterpret_cast<Kg::State*>(reinterpret_cast<std::byte*>(states_.data()) +
                                         size_t(row) * state_bytes_);
  }
  void show(int64_t row) {
    const TimeStep& step = step_.host();
    std::byte* columns[kMaxObsColumns];
    int64_t bytes[kMaxObsColumns];
    for (size_t c = 0; c < step.obs.size(); ++c) {
      columns[c] = static_cast<std::byte*>(step.obs[c].data_ptr());
      bytes[c] = spec_.observations[c].row_bytes();
    }
    uint8_t* mask = step.mask.data_ptr<uint8_t>() + row * spec_.action.categories();
    Kg::observe(*prover_.params_, *prover_.assets_, state(row), 0, {columns, bytes, row, mask});
  }
  void take(int64_t row, size_t query, std::span<const datalog::Atom> queries) {
    trial_of_row_[size_t(row)] = query;
    state(row) = Kg::State{};
    Kg::ask(*prover_.params_, *prover_.assets_, state(row), queries[query], /*is_false=*/false);
    show(row);
  }
  /// The last row moves to another's place.
  void follow(int64_t row, int64_t last) {
    std::memcpy(static_cast<void*>(&state(row)), &state(last), state_bytes_);
    trial_of_row_[size_t(row)] = trial_of_row_[size_t(last)];
    show(row);
  }
  /// One step; whether the episode is over.
  bool move(int64_t row, std::span<Trial> trials) {
    const TimeStep& step = step_.host();
    Trial& trial = trials[trial_of_row_[size_t(row)]];
    if (prover_.log_prob_ >= 0)
      trial.log_prob += step.extra[size_t(prover_.log_prob_)].const_data_ptr<float>()[row];
    float reward = 0, totals[kMaxEvents] = {};
    StepOut out{&reward, false, false, totals};
    Rng unused(0, 0, 0);
    Kg::step(*prover_.params_, *prover_.assets_, state(row),
             {step.action.const_data_ptr<int32_t>() + row, nullptr}, unused, out);
    ++trial.steps, ++counts.steps;
    counts.dropped += int64_t(totals[Kg::kTooMany]);
    counts.too_long += int64_t(totals[Kg::kTooLong]);
    if (!out.terminated && !out.truncated) {
      show(row);
      return false;
    }
    trial.proved = Kg::end_of(*prover_.params_, *prover_.assets_, state(row)) == Kg::kTrue;
    return true;
  }

  Prover& prover_;
  EnvSpec spec_;
  size_t state_bytes_;
  std::vector<std::max_align_t> states_;
  HostStep step_;
  std::vector<size_t> trial_of_row_;
  int64_t active_ = 0;
};

std::vector<Trial> Prover::prove(std::span<const datalog::Atom> queries, ActMode mode,
                                 uint64_t seed) {
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
  const int64_t size = rows * kRowsPerPart, count = int64_t(different.size());
  const int64_t parts = (count + size - 1) / size;
  std::vector<TrialCounts> counts(static_cast<size_t>(parts));
  pool_.run(parts, [&](int64_t p) {
    c10::InferenceMode guard;
    // a thread begins on the first device, whichever the policy is on
    if (device_.is_cuda()) use_device(device_.index());
    const auto span = maglev::trace::stage("trials");
    const size_t begin = size_t(p * size), many = size_t(std::min(size, count - p * size));
    Part part(*this, rows);
    part.run({different.data() + begin, many}, {trials.data() + begin, many}, mode,
             {.seed = seed, .purpose = Purpose::eval, .step = p << 32});
    counts[size_t(p)] = part.counts;
  });
  counts_ = {.tried = count};
  for (const TrialCounts& c : counts)
    counts_.steps += c.steps, counts_.dropped += c.dropped, counts_.too_long += c.too_long;

  std::vector<Trial> results;
  for (size_t w : which) results.push_back(trials[w]);
  return results;
}

}  // namespace maglev::verbs::rank
