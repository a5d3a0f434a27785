#include "algos/tdmpc2/panel_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <torch/torch.h>

#include "kernels/noise/noise.h"
#include "kernels/squashed_gaussian/squashed_gaussian.h"
#include "kernels/two_hot/two_hot.h"

namespace maglev::tdmpc2 {
namespace {

constexpr int64_t kStride = kPlanStride;
constexpr TwoHotBins kValueBins{.count = kBins, .low = kBinLow, .high = kBinHigh};

// rows [count, width] to lanes [lane, lane + count) of a panel
void rows_to_lanes(const float* rows, int64_t count, int64_t width, int64_t lane, float* panel) {
  for (int64_t f = 0; f < width; ++f)
    for (int64_t r = 0; r < count; ++r) panel[f * kStride + lane + r] = rows[r * width + f];
}

}  // namespace

/// Sequences [first, first + samples) of those drawn each round, and behind the horizon the policy
/// trajectories [first_policy, first_policy + policies) in the lanes behind them.
struct PanelPlanner::Job {
  int64_t first, samples, first_policy, policies;
};

struct PanelPlanner::Worker {
  Worker(const ModelShape& shape, const PackedModel& model) {
    const int64_t widest = std::max(shape.mlp_dim, shape.latent), A = shape.actions;
    z = memory.take(model.words(shape.latent) * kStride);
    for (auto& hidden : scratch.hidden) hidden = memory.take(model.words(widest) * kStride);
    scratch.sums = model.bf16() ? memory.take(widest * kStride) : nullptr;
    logits = memory.take(std::max(kBins, 2 * A) * kStride);
    noise = memory.take(A * kStride), numbers = memory.take(A * kStride);
    action = memory.take(A * kStride);
    action_words = model.bf16() ? memory.take(model.words(A) * kStride) : action;
    for (float** lanes : {&value, &live, &head_value, &total}) *lanes = memory.take(kStride);
  }

  PanelMemory memory;
  float* z;  ///< latents, words
  PackedScratch scratch;
  float* logits;                 ///< [kBins or 2A][stride]
  float *noise, *numbers;        ///< [A][stride], and as rows
  float *action, *action_words;  ///< [A][stride] f32, and as words
  float *value, *live;           ///< of the sequences so far: rewards, and the chance to be alive
  float *head_value, *total;     ///< of a head, and of both value heads
};

struct PanelPlanner::RowPlan {
  RowPlan(const PlanSizes& s, const PackedModel& model, int64_t latent)
      : rounds(s),
        policy_z(size_t(model.words(latent) * s.P)),
        policy_value(size_t(s.P)),
        policy_live(size_t(s.P)),
        head(size_t(2 * s.A)),
        uniforms(size_t(s.E)),
        noise(size_t(s.A)),
        q(model.q.size()) {}

  Rounds rounds;
  std::vector<float> policy_z;  ///< words [words][P]: where policy trajectories end
  std::vector<float> policy_value, policy_live;  ///< [P]
  std::vector<float> head;                       ///< [2A], the policy's at the first latent
  std::vector<float> uniforms, noise;            ///< [E], [A]
  const float* mask = nullptr;                   ///< [A], or null
  float discount = 1;
  NoiseFill fill;  ///< of this plan, from number 0 on
  QPair pair{0, 1};
  // where first layers' sums begin: at the first latent, and elsewhere
  SumStart dynamics_first, reward_first, dynamics, reward, policy, termination;
  std::vector<SumStart> q;

  NoiseFill numbers(int64_t begin, int64_t count) const {
    NoiseFill out = fill;
    out.first += uint64_t(begin);
    out.count = count;
    return out;
  }
};

struct PanelPlanner::Session {
  /// What up to kStride rows share: a lane is a row.
  struct Group {
    Group(const PackedModel& model, const ModelShape& s) : worker(s, model) {
      const int64_t sums = s.mlp_dim * kStride;
      e = s.tasks ? memory.take(model.words(s.task_dim) * kStride) : nullptr;
      staging = memory.take(std::max(s.latent, s.task_dim) * kStride);
      for (float** at : {&dynamics_first, &reward_first}) *at = memory.take(sums);
      if (s.tasks == 0) return;
      for (float** at : {&dynamics, &reward, &policy}) *at = memory.take(sums);
      for (size_t i = 0; i < model.q.size(); ++i) q.push_back(memory.take(sums));
    }
    PanelMemory memory;
    Worker worker;
    float *e, *staging;
    float *dynamics_first, *reward_first;
    float *dynamics = nullptr, *reward = nullptr, *policy = nullptr;
    std::vector<float*> q;
  };
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<std::unique_ptr<RowPlan>> rows;
};

/// One of the idle ones, or a new one; idle again when the lease ends.
template <class T>
class PanelPlanner::Lease {
 public:
  template <class Make>
  Lease(std::mutex& mutex, std::vector<std::unique_ptr<T>>& idle, const Make& make)
      : mutex_(mutex), idle_(idle) {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        held_ = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!held_) held_ = make();
  }
  ~Lease() {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(held_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  T& operator*() { return *held_; }
  T* operator->() { return held_.get(); }

 private:
  std::mutex& mutex_;
  std::vector<std::unique_ptr<T>>& idle_;
  std::unique_ptr<T> held_;
};

std::string PanelPlanner::obstacle(const ModelShape& shape, Precision precision,
                                   at::Device device) {
  if (!device.is_cpu()) return "it is for a processor";
  if (shape.simnorm != kSimNormGroup)
    return "tdmpc2.simnorm_dim must be " + std::to_string(kSimNormGroup);
  if (shape.mlp_dim % kSimNormGroup)
    return "tdmpc2.mlp_dim must be a multiple of " + std::to_string(kSimNormGroup);
  if (precision == Precision::bf16 && !dense_bf16_available())
    return "this processor does not multiply pairs of bfloat16";
  return "";
}

PanelPlanner::PanelPlanner(const PlanOptions& options, const ModelShape& shape, Precision precision,
                           int threads)
    : options_(options),
      round_options_{.sizes = options.sizes,
                     .temperature = float(options.temperature),
                     .min_std = float(options.min_std),
                     .max_std = float(options.max_std)},
      numbers_(options.sizes),
      shape_(shape),
      model_(shape, precision == Precision::bf16),
      embedding_(size_t(shape.tasks * shape.task_dim)),
      pool_(threads) {
  const PlanSizes& s = options.sizes;
  if (options.action_mask.defined()) {
    const auto mask = options.action_mask.contiguous();
    mask_.assign(mask.data_ptr<float>(), mask.data_ptr<float>() + mask.numel());
  }
  // full panels, unless threads would go without
  int64_t lanes = kStride;
  while (lanes > 16 && (s.S - s.P + lanes - 1) / lanes < threads) lanes /= 2;
  for (int64_t first = 0; first < s.S - s.P; first += lanes)
    jobs_.push_back({first, std::min(lanes, s.S - s.P - first), 0, 0});
  for (int64_t p = 0; p < s.P;) {
    // where the last panel has lanes left, policy trajectories join it
    if (jobs_.back().samples + jobs_.back().policies == kStride) jobs_.push_back({0, 0, p, 0});
    Job& job = jobs_.back();
    if (job.policies == 0) job.first_policy = p;
    const int64_t join = std::min(s.P - p, kStride - job.samples - job.policies);
    job.policies += join, p += join;
  }
  const int64_t share = (s.P + threads - 1) / threads;
  policy_rows_ = std::clamp<int64_t>((share + 15) / 16 * 16, 16, kStride);
}

PanelPlanner::~PanelPlanner() = default;

void PanelPlanner::publish(const float* params) {
  pool_.run(model_.layers(), [&](int64_t task) { model_.pack(task, params); });
  std::copy_n(params + model_layout(shape_).embedding, embedding_.size(), embedding_.begin());
}

template <class Work>
void PanelPlanner::spread(bool own_threads, int64_t count, const Work& work) {
  if (own_threads) return pool_.run(count, work);
  for (int64_t i = 0; i < count; ++i) work(i);
}

Plan PanelPlanner::plan(const PlanRequest& request) {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t N = request.latent.size(0);
  const auto f32 = request.latent.options();
  Plan plan{.action = at::empty({N, A}, f32),
            .mean = at::empty({N, H, A}, f32),
            .std = at::empty({N, H, A}, f32),
            .values = at::empty({N, S}, f32),
            .elites = at::empty({N, E}, f32.dtype(at::kLong)),
            .scores = at::empty({N, E}, f32)};
  plan_into(request, plan);
  return plan;
}

void PanelPlanner::plan_into(const PlanRequest& request, Plan& plan) {
  const PlanSizes& s = options_.sizes;
  const int64_t N = request.latent.size(0), jobs = int64_t(jobs_.size());
  const int64_t chunks = (s.P + policy_rows_ - 1) / policy_rows_;
  Lease<Session> session(lease_mutex_, sessions_, [] { return std::make_unique<Session>(); });
  while (int64_t(session->rows.size()) < N)
    session->rows.push_back(std::make_unique<RowPlan>(s, model_, shape_.latent));
  while (int64_t(session->groups.size()) * kStride < N)
    session->groups.push_back(std::make_unique<Session::Group>(model_, shape_));
  for (int64_t first = 0; first < N; first += kStride)
    begin_rows(*session, request, first, std::min(kStride, N - first));

  const auto roll = [&](int64_t n, int64_t chunk) {
    const int64_t first = chunk * policy_rows_;
    roll_policy(*session->rows[size_t(n)], first, std::min(policy_rows_, s.P - first));
  };
  const auto begin = [&](int64_t n, int64_t round) {
    begin_round(*session->rows[size_t(n)], round);
  };
  const auto end = [&](int64_t n) {
    RowPlan& row = *session->rows[size_t(n)];
    end_round(round_options_, row.mask, row.rounds);
  };
  std::unique_lock own(pool_mutex_, std::try_to_lock);
  const int64_t threads = own ? pool_.threads() : 1;
  if (N % threads == 0 || N > 8 * threads) {
    // threads take whole rows and never wait
    spread(own.owns_lock(), N, [&](int64_t n) {
      for (int64_t c = 0; c < chunks; ++c) roll(n, c);
      for (int64_t round = 0; round < s.I; ++round) {
        begin(n, round);
        for (const Job& job : jobs_) evaluate(*session->rows[size_t(n)], job, round);
        end(n);
      }
      finish_row(*session->rows[size_t(n)], request, n, plan);
    });
    return;
  }
  spread(true, N * chunks, [&](int64_t i) { roll(i / chunks, i % chunks); });
  for (int64_t round = 0; round < s.I; ++round) {
    for (int64_t n = 0; n < N; ++n) begin(n, round);
    spread(true, N * jobs, [&](int64_t i) {
      evaluate(*session->rows[size_t(i / jobs)], jobs_[size_t(i % jobs)], round);
    });
    spread(true, N, end);
  }
  for (int64_t n = 0; n < N; ++n) finish_row(*session->rows[size_t(n)], request, n, plan);
}

void PanelPlanner::begin_rows(Session& session, const PlanRequest& request, int64_t first,
                              int64_t rows) const {
  Session::Group& g = *session.groups[size_t(first / kStride)];
  Worker& w = g.worker;
  const auto to_words = [&](int64_t features, float* words) {
    if (model_.bf16())
      return panel_to_pairs(g.staging, features, kStride, rows, reinterpret_cast<uint32_t*>(words));
    std::copy_n(g.staging, features * kStride, words);
  };
  rows_to_lanes(request.latent.const_data_ptr<float>() + first * shape_.latent, rows, shape_.latent,
                0, g.staging);
  to_words(shape_.latent, w.z);
  const InputPanel z{Input::latent, w.z}, e{Input::task, g.e};
  if (shape_.tasks == 0) {
    model_.dynamics.first_sums({z}, rows, g.dynamics_first);
    model_.reward.first_sums({z}, rows, g.reward_first);
    model_.policy.forward(model_.policy.bias(), {z}, rows, w.scratch, w.logits);
  } else {
    const int64_t T = shape_.task_dim, *task = request.task.const_data_ptr<int64_t>() + first;
    for (int64_t n = 0; n < rows; ++n)
      rows_to_lanes(embedding_.data() + task[n] * T, 1, T, n, g.staging);
    to_words(T, g.e);
    model_.dynamics.first_sums({z, e}, rows, g.dynamics_first);
    model_.reward.first_sums({z, e}, rows, g.reward_first);
    model_.policy.forward(model_.policy.bias(), {z, e}, rows, w.scratch, w.logits);
    model_.dynamics.first_sums({e}, rows, g.dynamics);
    model_.reward.first_sums({e}, rows, g.reward);
    model_.policy.first_sums({e}, rows, g.policy);
    for (size_t i = 0; i < g.q.size(); ++i) model_.q[i].first_sums({e}, rows, g.q[i]);
  }
  for (int64_t n = 0; n < rows; ++n) {
    RowPlan& row = *session.rows[size_t(first + n)];
    const auto start = [n](const float* sums) { return SumStart{sums + n, kStride}; };
    const auto start_or = [&](const float* sums, const PackedNet& net) {
      return sums ? start(sums) : net.bias();
    };
    row.dynamics_first = start(g.dynamics_first), row.reward_first = start(g.reward_first);
    row.dynamics = start_or(g.dynamics, model_.dynamics);
    row.reward = start_or(g.reward, model_.reward);
    row.policy = start_or(g.policy, model_.policy);
    for (size_t i = 0; i < model_.q.size(); ++i)
      row.q[i] = start_or(g.q.empty() ? nullptr : g.q[i], model_.q[i]);
    if (!model_.termination.empty()) row.termination = model_.termination[0].bias();
    for (size_t i = 0; i < row.head.size(); ++i) row.head[i] = w.logits[int64_t(i) * kStride + n];
    begin_row(row, request, first + n);
  }
}

void PanelPlanner::begin_row(RowPlan& row, const PlanRequest& request, int64_t n) const {
  const PlanSizes& s = options_.sizes;
  const int64_t task = shape_.tasks ? request.task.const_data_ptr<int64_t>()[n] : 0;
  row.mask = mask_.empty() ? nullptr : mask_.data() + task * s.A;
  row.discount = options_.discount[size_t(task)];
  row.fill = plan_fill(request.key, request.first_row + n, 1, 0);
  const bool fresh = request.is_first.const_data_ptr<uint8_t>()[n] != 0;
  begin_rounds(round_options_,
               fresh ? nullptr : request.prev_mean.const_data_ptr<float>() + n * s.H * s.A,
               row.rounds);
}

void PanelPlanner::begin_round(RowPlan& row, int64_t round) const {
  float u;
  noise_uniform_cpu(row.numbers(numbers_.pair + round, 1), &u);
  row.pair = q_pair(u, shape_.num_q);
}

// normals of `rows` rows from number `begin` on, into lanes from `lane` on
void PanelPlanner::draw(const RowPlan& row, int64_t begin, int64_t rows, int64_t lane,
                        Worker& w) const {
  const int64_t A = options_.sizes.A;
  noise_normal_cpu(row.numbers(begin, rows * A), w.numbers);
  rows_to_lanes(w.numbers, rows, A, lane, w.noise);
}

// actions that the task does not have are 0; the rest as words
void PanelPlanner::mask_action(const RowPlan& row, Worker& w) const {
  const int64_t A = options_.sizes.A;
  for (int64_t a = 0; a < A && row.mask; ++a)
    if (row.mask[a] == 0) std::fill_n(w.action + a * kStride, kStride, 0.f);
  if (model_.bf16())
    panel_to_pairs(w.action, A, kStride, kStride, reinterpret_cast<uint32_t*>(w.action_words));
}

void PanelPlanner::sample_actions(RowPlan& row, const Job& job, int64_t round, int64_t t,
                                  Worker& w) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  draw(row, numbers_.samples + ((round * H + t) * (S - P) + job.first) * A, job.samples, 0, w);
  Rounds& r = row.rounds;
  for (int64_t a = 0; a < A; ++a) {
    const float mean = r.mean[size_t(t * A + a)], std = r.std[size_t(t * A + a)];
    for (int64_t lane = 0; lane < job.samples; ++lane)
      w.action[a * kStride + lane] =
          std::clamp(mean + std * w.noise[a * kStride + lane], -1.f, 1.f);
  }
  mask_action(row, w);
  float* into = r.actions.data() + (t * S + P + job.first) * A;
  for (int64_t lane = 0; lane < job.samples; ++lane)
    for (int64_t a = 0; a < A; ++a) into[lane * A + a] = w.action[a * kStride + lane];
}

// one step of the model: rewards into values, latents, and who is still alive
void PanelPlanner::step(const RowPlan& row, int64_t t, int64_t rows, float discount,
                        Worker& w) const {
  const InputPanel z{Input::latent, w.z}, a{Input::action, w.action_words};
  if (t == 0) model_.reward.forward(row.reward_first, {a}, rows, w.scratch, w.logits);
  else model_.reward.forward(row.reward, {z, a}, rows, w.scratch, w.logits);
  two_hot_inverse_cpu({.bins = kValueBins,
                       .logits = w.logits,
                       .value = w.head_value,
                       .stride = kStride,
                       .rows = rows});
  for (int64_t lane = 0; lane < rows; ++lane)
    w.value[lane] += discount * w.live[lane] * w.head_value[lane];
  if (t == 0) model_.dynamics.forward(row.dynamics_first, {a}, rows, w.scratch, w.z);
  else model_.dynamics.forward(row.dynamics, {z, a}, rows, w.scratch, w.z);
  if (model_.termination.empty()) return;
  model_.termination[0].forward(row.termination, {z}, rows, w.scratch, w.logits);
  for (int64_t lane = 0; lane < rows; ++lane) {
    const float chance = 1.f / (1.f + std::exp(-w.logits[lane]));
    if (options_.soft_termination) w.live[lane] *= 1.f - chance;
    else if (chance > 0.5f) w.live[lane] = 0.f;
  }
}

// the policy's actions of the head in w.logits and the noise in w.noise
void PanelPlanner::act_on(const RowPlan& row, int64_t, bool mean, Worker& w) const {
  squashed_gaussian_cpu({.actions = options_.sizes.A,
                         .head = w.logits,
                         .noise = mean ? nullptr : w.noise,
                         .action = w.action,
                         .stride = kStride});
  mask_action(row, w);
}

void PanelPlanner::roll_policy(RowPlan& row, int64_t first, int64_t count) {
  const auto [H, S, P, E, I, A] = options_.sizes;
  Lease<Worker> w(lease_mutex_, workers_,
                  [this] { return std::make_unique<Worker>(shape_, model_); });
  std::fill_n(w->value, kStride, 0.f), std::fill_n(w->live, kStride, 1.f);
  double discount = 1;
  for (int64_t t = 0; t < H; ++t, discount *= row.discount) {
    if (t == 0)
      for (int64_t i = 0; i < 2 * A; ++i)
        std::fill_n(w->logits + i * kStride, kStride, row.head[size_t(i)]);
    else model_.policy.forward(row.policy, {{Input::latent, w->z}}, count, w->scratch, w->logits);
    draw(row, numbers_.policy + (t * P + first) * A, count, 0, *w);
    act_on(row, count, false, *w);
    float* into = row.rounds.actions.data() + (t * S + first) * A;
    for (int64_t lane = 0; lane < count; ++lane)
      for (int64_t a = 0; a < A; ++a) into[lane * A + a] = w->action[a * kStride + lane];
    step(row, t, count, float(discount), *w);
  }
  for (int64_t f = 0; f < model_.words(shape_.latent); ++f)
    std::copy_n(w->z + f * kStride, count, row.policy_z.data() + f * P + first);
  std::copy_n(w->value, count, row.policy_value.data() + first);
  std::copy_n(w->live, count, row.policy_live.data() + first);
}

// mean of the pair's values at w.z and w.action, into w.total
void PanelPlanner::value_behind(const RowPlan& row, int64_t rows, Worker& w) const {
  std::fill_n(w.total, kStride, 0.f);
  for (const int64_t i : {row.pair.first, row.pair.second}) {
    model_.q[size_t(i)].forward(row.q[size_t(i)],
                                {{Input::latent, w.z}, {Input::action, w.action_words}}, rows,
                                w.scratch, w.logits);
    two_hot_inverse_cpu({.bins = kValueBins,
                         .logits = w.logits,
                         .value = w.head_value,
                         .stride = kStride,
                         .rows = rows});
    for (int64_t lane = 0; lane < rows; ++lane) w.total[lane] += 0.5f * w.head_value[lane];
  }
}

void PanelPlanner::evaluate(RowPlan& row, const Job& job, int64_t round) {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t samples = job.samples, rows = samples + job.policies;
  Lease<Worker> w(lease_mutex_, workers_,
                  [this] { return std::make_unique<Worker>(shape_, model_); });
  std::fill_n(w->value, kStride, 0.f), std::fill_n(w->live, kStride, 1.f);
  double discount = 1;
  for (int64_t t = 0; t < H; ++t, discount *= row.discount) {
    if (samples == 0) continue;
    sample_actions(row, job, round, t, *w);
    step(row, t, samples, float(discount), *w);
  }
  // policy trajectories, whose steps were made before the first round
  for (int64_t f = 0; f < model_.words(shape_.latent) && job.policies; ++f)
    std::copy_n(row.policy_z.data() + f * P + job.first_policy, job.policies,
                w->z + f * kStride + samples);
  std::copy_n(row.policy_value.data() + job.first_policy, job.policies, w->value + samples);
  std::copy_n(row.policy_live.data() + job.first_policy, job.policies, w->live + samples);

  model_.policy.forward(row.policy, {{Input::latent, w->z}}, rows, w->scratch, w->logits);
  if (!options_.mean_terminal_action) {
    const int64_t begin = numbers_.terminal + round * S * A;
    draw(row, begin + (P + job.first) * A, samples, 0, *w);
    draw(row, begin + job.first_policy * A, job.policies, samples, *w);
  }
  act_on(row, rows, options_.mean_terminal_action, *w);
  value_behind(row, rows, *w);
  constexpr float kMost = std::numeric_limits<float>::max();
  for (int64_t lane = 0; lane < rows; ++lane) {
    const float value = w->value[lane] + float(discount) * w->live[lane] * w->total[lane];
    const int64_t sequence =
        lane < samples ? P + job.first + lane : job.first_policy + lane - samples;
    row.rounds.values[size_t(sequence)] =
        std::isnan(value) ? 0.f : std::clamp(value, -kMost, kMost);
  }
}

void PanelPlanner::finish_row(RowPlan& row, const PlanRequest& request, int64_t n,
                              Plan& plan) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const Rounds& r = row.rounds;
  noise_uniform_cpu(row.numbers(numbers_.gumbel, E), row.uniforms.data());
  const int64_t chosen = r.order[size_t(choose_elite(r, row.uniforms.data()))];
  if (request.explore) noise_normal_cpu(row.numbers(numbers_.explore, A), row.noise.data());
  float* action = plan.action.data_ptr<float>() + n * A;
  for (int64_t a = 0; a < A; ++a) {
    const float noise = request.explore ? r.std[size_t(a)] * row.noise[size_t(a)] : 0.f;
    action[a] = std::clamp(r.actions[size_t(chosen * A + a)] + noise, -1.f, 1.f);
  }
  std::copy(r.mean.begin(), r.mean.end(), plan.mean.data_ptr<float>() + n * H * A);
  std::copy(r.std.begin(), r.std.end(), plan.std.data_ptr<float>() + n * H * A);
  std::copy(r.values.begin(), r.values.end(), plan.values.data_ptr<float>() + n * S);
  std::copy_n(r.order.begin(), E, plan.elites.data_ptr<int64_t>() + n * E);
  std::copy(r.scores.begin(), r.scores.end(), plan.scores.data_ptr<float>() + n * E);
}

}  // namespace maglev::tdmpc2
