#include "algos/tdmpc2/panels/planner.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "kernels/mppi/mppi.h"

namespace maglev::tdmpc2 {
/// A column is a row.
struct PanelPlanner::Group {
  Group(const PackedModel& model, const ModelShape& s) : scratch(s, model, 1) {
    const auto sums = [this](const std::vector<int64_t>& hidden) {
      return memory.take(hidden.front() * kPlanStride);
    };
    staging = memory.take(std::max(s.latent, s.task_dim) * kPlanStride);
    dynamics_first = sums(s.hidden.dynamics), reward_first = sums(s.hidden.reward);
    if (s.tasks == 0) return;
    task = memory.take(model.words(s.task_dim) * kPlanStride);
    dynamics = sums(s.hidden.dynamics), reward = sums(s.hidden.reward);
    policy = sums(s.hidden.policy);
    for (size_t i = 0; i < model.q.size(); ++i) q.push_back(sums(s.hidden.q));
  }
  PanelMemory memory;
  RolloutScratch scratch;
  float* staging;         ///< f32
  float* task = nullptr;  ///< embeddings, words
  // first layers' sums [features][stride]: with the first latents; with the tasks alone, where there are
  float *dynamics_first, *reward_first;
  float *dynamics = nullptr, *reward = nullptr, *policy = nullptr;
  std::vector<float*> q;
};

struct PanelPlanner::Session {
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<std::unique_ptr<RowPlan>> rows;
};

struct PanelPlanner::Encoding {
  explicit Encoding(const ModelShape& s) {
    seen = memory.take((s.obs + s.task_dim) * kPlanStride),
    latent = memory.take(s.latent * kPlanStride);
    int64_t widest = s.latent;
    for (int64_t width : s.hidden.encoder) widest = std::max(widest, width);
    for (auto& hidden : net.hidden.front()) hidden = memory.take(widest * kPlanStride);
  }
  PanelMemory memory;
  float *seen, *latent;
  PackedScratch net{};
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

 private:
  std::mutex& mutex_;
  std::vector<std::unique_ptr<T>>& idle_;
  std::unique_ptr<T> held_;
};

std::string PanelPlanner::obstacle(const ModelShape& shape, Precision precision,
                                   at::Device device) {
  const std::string group = std::to_string(kSimNormGroup);
  if (!device.is_cpu()) return "panels are for a processor";
  if (shape.simnorm != kSimNormGroup) return "tdmpc2.simnorm_dim must be " + group;
  for (const auto& widths : {shape.hidden.encoder, shape.head_widths()})
    for (int64_t width : widths)
      if (width % kSimNormGroup) return "hidden widths must be multiples of " + group;
  if (precision == Precision::bf16 && !pair_products_available())
    return "this processor has no products of bfloat16 pairs";
  return "";
}

PanelPlanner::PanelPlanner(const PlanOptions& options, const ModelShape& shape, Precision precision,
                           int threads, int64_t together)
    : options_(options),
      numbers_(options.sizes),
      shape_(shape),
      model_(shape, precision == Precision::bf16),
      rollout_(options_, shape_, model_),
      embedding_(size_t(shape.tasks * shape.task_dim)),
      pool_(threads) {
  const PlanSizes& s = options.sizes;
  if (options.action_mask.defined()) {
    const auto mask = options.action_mask.contiguous();
    mask_.assign(mask.data_ptr<float>(), mask.data_ptr<float>() + mask.numel());
  }
  // full panels, unless threads would go without
  int64_t columns = kPlanStride;
  while (columns > 16 && (s.S - s.P + columns - 1) / columns < threads) columns /= 2;
  jobs_ = panel_jobs(s, columns);
  together_ = together > 0 ? together : panels_together(s.S, threads, model_.bf16());
  // policy trajectories likewise, in whole vectors
  const int64_t share = (s.P + threads - 1) / threads;
  policy_rows_ = std::clamp<int64_t>((share + 15) / 16 * 16, 16, kPlanStride);
}

PanelPlanner::~PanelPlanner() = default;

void PanelPlanner::publish(const WorldModel&, const at::Tensor& params) {
  const float* flat = params.const_data_ptr<float>();
  pool_.run(model_.layers(), [&](int64_t task) { model_.pack(task, flat); });
  std::copy_n(flat + model_layout(shape_).embedding, embedding_.size(), embedding_.begin());
}

at::Tensor PanelPlanner::encode(const WorldModel&, const at::Tensor& seen,
                                const at::Tensor& embedding) {
  const auto rows = joined(seen, embedding).contiguous();
  const int64_t N = rows.size(0), in = rows.size(1), D = shape_.latent;
  MAGLEV_ASSERT(!model_.encoder.empty() && in == shape_.obs + shape_.task_dim,
                "what the encoder sees, in vectors");
  Lease<Encoding> lease(lease_mutex_, encodings_,
                        [this] { return std::make_unique<Encoding>(shape_); });
  Encoding& w = *lease;
  const PackedNet& net = model_.encoder[0];
  at::Tensor latent = at::empty({N, D}, rows.options());
  // a panel of rows after another, by the weights as they were packed
  for (int64_t first = 0; first < N; first += kPlanStride) {
    const int64_t count = std::min(kPlanStride, N - first);
    rows_to_columns(rows.const_data_ptr<float>() + first * in, count, in, 0, w.seen);
    const NetPanel panel{.latent = w.seen, .rows = count, .out = w.latent};
    net.forward(net.bias(), {&panel, 1}, w.net);
    // columns back to rows
    float* out = latent.data_ptr<float>() + first * D;
    for (int64_t r = 0; r < count; ++r)
      for (int64_t f = 0; f < D; ++f) out[r * D + f] = w.latent[f * kPlanStride + r];
  }
  return latent;
}

Plan PanelPlanner::plan(const PlanRequest& request) {
  Plan plan = empty_plan(options_.sizes, request.latent.size(0), request.latent.options());
  plan_into(request, plan);
  return plan;
}

void PanelPlanner::plan_into(const PlanRequest& request, Plan& plan) {
  const PlanSizes& s = options_.sizes;
  const int64_t N = request.latent.size(0);
  const int64_t jobs = (int64_t(jobs_.size()) + together_ - 1) / together_;
  const int64_t parts = (s.P + policy_rows_ - 1) / policy_rows_;
  Lease<Session> lease(lease_mutex_, sessions_, [] { return std::make_unique<Session>(); });
  Session& session = *lease;
  // a session grows to the most rows ever planned at once and is kept
  while (int64_t(session.rows.size()) < N)
    session.rows.push_back(std::make_unique<RowPlan>(s, model_, shape_.latent));
  while (int64_t(session.groups.size()) * kPlanStride < N)
    session.groups.push_back(std::make_unique<Group>(model_, shape_));
  for (int64_t first = 0; first < N; first += kPlanStride)
    begin_rows(session, request, first, std::min(kPlanStride, N - first));
  const auto row = [&](int64_t n) -> RowPlan& { return *session.rows[size_t(n)]; };

  // one plan at a time has the planner's threads, any other has its caller's alone
  std::unique_lock own(pool_mutex_, std::try_to_lock);
  const int64_t threads = own ? pool_.threads() : 1;
  if (N % threads == 0 || N > 8 * threads) {
    // threads take whole rows and never wait
    const auto plan_row = [&](int64_t n) {
      for (int64_t c = 0; c < parts; ++c) roll_policy(row(n), c);
      for (int64_t round = 0; round < s.I; ++round) {
        for (int64_t i = 0; i < jobs; ++i) evaluate(row(n), i, round);
        end_round(row(n));
      }
      finish_row(row(n), request, n, plan);
    };
    if (own) return pool_.run(N, plan_row);
    for (int64_t n = 0; n < N; ++n) plan_row(n);
    return;
  }
  // few rows: threads share the panels of all of them and meet after each stage
  pool_.run(N * parts, [&](int64_t i) { roll_policy(row(i / parts), i % parts); });
  for (int64_t round = 0; round < s.I; ++round) {
    pool_.run(N * jobs, [&](int64_t i) { evaluate(row(i / jobs), i % jobs, round); });
    pool_.run(N, [&](int64_t n) { end_round(row(n)); });
  }
  for (int64_t n = 0; n < N; ++n) finish_row(row(n), request, n, plan);
}

void PanelPlanner::roll_policy(RowPlan& row, int64_t part) {
  Lease<RolloutScratch> scratch(lease_mutex_, scratches_, [this] {
    return std::make_unique<RolloutScratch>(shape_, model_, together_);
  });
  const int64_t first = part * policy_rows_;
  rollout_.roll_policy(row, first, std::min(policy_rows_, options_.sizes.P - first), *scratch);
}

// the jobs of part `part`, which share weights
void PanelPlanner::evaluate(RowPlan& row, int64_t part, int64_t round) {
  Lease<RolloutScratch> scratch(lease_mutex_, scratches_, [this] {
    return std::make_unique<RolloutScratch>(shape_, model_, together_);
  });
  const auto first = size_t(part * together_);
  const size_t count = std::min(size_t(together_), jobs_.size() - first);
  rollout_.evaluate(row, {jobs_.data() + first, count}, round, *scratch);
}

// what first layers make of the latents and tasks of rows [first, first + rows), and the policy's
// heads at the latents
void PanelPlanner::first_layers(Group& g, const PlanRequest& request, int64_t first,
                                int64_t rows) const {
  RolloutPanel& w = g.scratch.panels.front();
  const auto to_words = [&](int64_t features, float* words) {
    if (model_.bf16())
      return panel_to_pairs(g.staging, features, kPlanStride, rows,
                            reinterpret_cast<uint32_t*>(words));
    std::copy_n(g.staging, features * kPlanStride, words);
  };
  rows_to_columns(request.latent.const_data_ptr<float>() + first * shape_.latent, rows,
                  shape_.latent, 0, g.staging);
  to_words(shape_.latent, w.z);
  // with tasks every sum begins with the embedding's products, without it is the bias
  if (shape_.tasks > 0) {
    const int64_t T = shape_.task_dim, *task = request.task.const_data_ptr<int64_t>() + first;
    for (int64_t n = 0; n < rows; ++n)
      rows_to_columns(embedding_.data() + task[n] * T, 1, T, n, g.staging);
    to_words(T, g.task);
  }
  const auto sums = [&](const PackedNet& net, const float* z, float* out) {
    net.first_sums({.latent = z, .task = g.task, .rows = rows, .out = out});
  };
  sums(model_.dynamics, w.z, g.dynamics_first);
  sums(model_.reward, w.z, g.reward_first);
  const NetPanel head{.latent = w.z, .task = g.task, .rows = rows, .out = w.logits};
  model_.policy.forward(model_.policy.bias(), {&head, 1}, g.scratch.net);
  if (shape_.tasks == 0) return;
  sums(model_.dynamics, nullptr, g.dynamics);
  sums(model_.reward, nullptr, g.reward);
  sums(model_.policy, nullptr, g.policy);
  for (size_t i = 0; i < g.q.size(); ++i) sums(model_.q[i], nullptr, g.q[i]);
}

void PanelPlanner::begin_rows(Session& session, const PlanRequest& request, int64_t first,
                              int64_t rows) const {
  Group& g = *session.groups[size_t(first / kPlanStride)];
  first_layers(g, request, first, rows);
  for (int64_t n = 0; n < rows; ++n) {
    RowPlan& row = *session.rows[size_t(first + n)];
    // a row is a column of its group's sums
    const auto start = [n](const float* sums, const PackedNet& net) {
      return sums ? SumStart{sums + n, kPlanStride} : net.bias();
    };
    row.dynamics_first = start(g.dynamics_first, model_.dynamics);
    row.reward_first = start(g.reward_first, model_.reward);
    row.dynamics = start(g.dynamics, model_.dynamics);
    row.reward = start(g.reward, model_.reward);
    row.policy = start(g.policy, model_.policy);
    for (size_t i = 0; i < model_.q.size(); ++i)
      row.q[i] = start(g.q.empty() ? nullptr : g.q[i], model_.q[i]);
    // several tasks have no terminations
    if (!model_.termination.empty()) row.termination = model_.termination[0].bias();
    for (size_t i = 0; i < row.head.size(); ++i)
      row.head[i] = g.scratch.panels.front().logits[int64_t(i) * kPlanStride + n];
    begin_row(row, request, first + n);
  }
}

void PanelPlanner::begin_row(RowPlan& row, const PlanRequest& request, int64_t n) const {
  const PlanSizes& s = options_.sizes;
  const int64_t task = shape_.tasks ? request.task.const_data_ptr<int64_t>()[n] : 0;
  row.mask = mask_.empty() ? nullptr : mask_.data() + task * s.A;
  row.discount = options_.discount[size_t(task)];
  row.fill = plan_fill_of_row(request.key, request.first_row, n, 0);
  // its numbers are also drawn one by one
  row.fill.stream = stream_of(row.fill, 0), row.fill.index = nullptr;
  mppi_begin_cpu({.pair_noise = row.numbers(numbers_.pair, s.I),
                  .prev_mean = request.prev_mean.const_data_ptr<float>() + n * s.H * s.A,
                  .is_first = request.is_first.const_data_ptr<uint8_t>() + n,
                  .mean = row.mean.data(),
                  .std = row.std.data(),
                  .pair = row.pairs.data(),
                  .max_std = float(options_.max_std),
                  .N = 1,
                  .H = s.H,
                  .A = s.A,
                  .I = s.I,
                  .num_q = shape_.num_q});
}

void PanelPlanner::end_round(RowPlan& row) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  mppi_elites_cpu({.total = row.values.data(),
                   .actions = row.actions.data(),
                   .mask = row.mask,
                   .elites = row.elites.data(),
                   .scores = row.scores.data(),
                   .mean = row.mean.data(),
                   .std = row.std.data(),
                   .temperature = float(options_.temperature),
                   .min_std = float(options_.min_std),
                   .max_std = float(options_.max_std),
                   .N = 1,
                   .H = H,
                   .S = S,
                   .A = A,
                   .E = E});
}

void PanelPlanner::finish_row(RowPlan& row, const PlanRequest& request, int64_t n,
                              Plan& plan) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  mppi_choose_cpu({.gumbel = row.numbers(numbers_.gumbel, E),
                   .noise = row.numbers(numbers_.explore, A),
                   .elites = row.elites.data(),
                   .scores = row.scores.data(),
                   .actions = row.actions.data(),
                   .std = row.std.data(),
                   .action = plan.action.data_ptr<float>() + n * A,
                   .explore = request.explore,
                   .N = 1,
                   .H = H,
                   .S = S,
                   .A = A,
                   .E = E});
  std::copy(row.mean.begin(), row.mean.end(), plan.mean.data_ptr<float>() + n * H * A);
  std::copy(row.std.begin(), row.std.end(), plan.std.data_ptr<float>() + n * H * A);
  std::copy(row.values.begin(), row.values.end(), plan.values.data_ptr<float>() + n * S);
  std::copy(row.elites.begin(), row.elites.end(), plan.elites.data_ptr<int64_t>() + n * E);
  std::copy(row.scores.begin(), row.scores.end(), plan.scores.data_ptr<float>() + n * E);
}

}  // namespace maglev::tdmpc2
