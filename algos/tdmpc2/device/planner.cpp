#include "algos/tdmpc2/device/planner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/tdmpc2/policy_prior.h"
#include "kernels/dense/dense_op.h"
#include "kernels/gather/gather_op.h"
#include "kernels/mppi/mppi_op.h"

namespace maglev::tdmpc2 {
namespace {

// one weight for all environments and networks
at::Tensor for_all(const at::Tensor& weight) { return weight.unsqueeze(0).unsqueeze(0); }

ProductRows of_network(const ProductRows& all, int64_t net) {
  if (!all.open.x.defined()) return {.ready = all.ready.narrow(2, net, 1)};
  const DenseEndTensors& open = all.open;
  return {.open = {.x = open.x.narrow(2, net, 1),
                   .start = open.start.narrow(1, net, 1),
                   .gain = open.gain.narrow(1, net, 1),
                   .shift = open.shift.narrow(1, net, 1),
                   .end = open.end}};
}

const float* f32(const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; }

}  // namespace

struct DevicePlanner::Work {
  const PlanRequest* request;
  int64_t N;
  at::Tensor z;         ///< [N, D]
  at::Tensor mask;      ///< [N, A]; undefined without tasks
  at::Tensor discount;  ///< [N or 1, H + 1] f32
  at::Tensor base;      ///< [N, features] f32: the first step's products with the latent
  at::Tensor step_start, policy_start;  ///< [N or 1, features] f32
  at::Tensor q_start;                   ///< [N * num_q, width] f32; undefined without tasks
  at::Tensor mean, std, actions;        ///< [N, H, A], [N, H, A], [N, H, S, A] f32
  at::Tensor inputs;                    ///< [H, N * (S - P), ld]
  at::Tensor last;                 ///< [N, S, ld]: latents behind the horizon and their actions
  at::Tensor value, alive, total;  ///< [N, S] f32
  at::Tensor pair;                 ///< [I, N, 2] i64
  at::Tensor elites, scores;
  bool beside;                       ///< whether there is time beside a round's latents
  bool ends_in_products;             ///< whether a layer's end is made within the next product
  std::vector<at::Tensor> rewarded;  ///< what rewards are read from until they are waited for
  std::vector<at::Tensor> q;         ///< a round's value networks: weights and vectors of the pairs

  NoiseFill numbers(int64_t begin) const {
    return plan_fill(request->key, request->first_row, N, begin);
  }
  int64_t discount_env() const { return discount.size(0) == 1 ? 0 : discount.stride(0); }
  const float* discount_at(int64_t t) const { return f32(discount) + t; }
};

at::Tensor DevicePlanner::product(const Work& w, const ProductRows& rows,
                                  const at::Tensor& weight) const {
  if (w.ends_in_products) return end_product(rows, weight);
  const auto& x = rows.ready;
  const int64_t N = x.size(0), R = x.size(1), G = x.size(2), in = x.size(3), out = weight.size(3);
  // each environment's own weights, one of all environments, one of each network
  if (weight.size(0) > 1)
    return at::bmm(x.transpose(1, 2).view({N * G, R, in}), weight.view({N * G, in, out}))
        .view({N, G, R, out})
        .transpose(1, 2);
  if (G == 1) return at::mm(x.view({N * R, in}), weight[0][0]).view({N, R, 1, out});
  return at::bmm(x.permute({2, 0, 1, 3}).view({G, N * R, in}), weight[0])
      .view({G, N, R, out})
      .permute({1, 2, 0, 3});
}

ProductRows DevicePlanner::ended(const Work& w, const DenseEndTensors& open,
                                 const at::Tensor& to) const {
  if (w.ends_in_products) return {.open = open};
  dense_end_(to, open);
  return {.ready = to};
}

std::vector<ProductRows> DevicePlanner::hidden(const Work& w, const ProductRows& x,
                                               const Heads& heads, const at::Tensor& start,
                                               int64_t nets, int64_t from, int64_t inputs) const {
  // one product for all first layers
  const auto first = heads.first.narrow(0, from, inputs).narrow(1, 0, heads.features(nets));
  const auto all = product(w, x, for_all(first)).select(2, 0);
  const int64_t N = all.size(0), R = all.size(1);
  std::vector<ProductRows> ends;
  for (const Block& block : heads.blocks) {
    const int64_t count = std::min(block.nets, nets - block.begin), width = block.widths.front();
    if (count <= 0) break;
    const auto mish = [&](const at::Tensor& sums, const at::Tensor& begin, const Side& side) {
      return DenseEndTensors{.x = sums,
                             .start = begin,
                             .gain = side.gain.narrow(1, 0, count),
                             .shift = side.shift.narrow(1, 0, count),
                             .end = DenseEnd::mish};
    };
    // its end lays the networks apart for the second
    const auto sums = all.narrow(2, block.column, count * width).view({N, R, count, width});
    const auto begin = start.narrow(1, block.column, count * width).view({-1, count, width});
    at::Tensor apart;
    if (!w.ends_in_products) apart = empty({count, N, R, width}).permute({1, 2, 0, 3});
    ProductRows h = ended(w, mish(sums, begin, block.layers.front()), apart);
    for (size_t l = 1; l < block.layers.size(); ++l) {
      const Side& side = block.layers[l];
      const auto y = product(w, h, side.weight.narrow(0, 0, count).unsqueeze(0));
      h = ended(w, mish(y, side.start.narrow(1, 0, count), side), y);
    }
    for (int64_t g = 0; g < count; ++g) ends.push_back(of_network(h, g));
  }
  return ends;
}

ProductRows DevicePlanner::step(Work& w, int64_t t, const ProductRows& latents,
                                const at::Tensor& inputs, const at::Tensor& next, int64_t first,
                                SideStream& rewards) {
  const int64_t D = shape_.latent, A = shape_.actions;
  // every sequence of an environment begins at the same latent: its products are one row
  const auto actions = inputs.narrow(2, D, A).unsqueeze(2);
  std::vector<ProductRows> h;
  if (t == 0) h = hidden(w, {.ready = actions}, step_, w.base, 2, D, A);
  else if (latents.open.x.defined())
    h = hidden(w, {.open = latents.open, .ready = actions}, step_, w.step_start, heads_, 0, D + A);
  else
    h = hidden(w, {.ready = inputs.narrow(2, 0, D + A).unsqueeze(2)}, step_, w.step_start, heads_,
               0, D + A);
  // the next step waits for latents alone
  const auto reward = [&] { add_reward(w, t, h, first); };
  if (w.beside) rewards.fork(reward);
  else reward();
  // the next latents, straight into the inputs of the next step
  const DenseEndTensors latent{.x = product(w, h[0], dynamics_out_.weight.unsqueeze(0)),
                               .start = dynamics_out_.start,
                               .gain = dynamics_out_.gain,
                               .shift = dynamics_out_.shift,
                               .end = DenseEnd::simnorm};
  if (t + 1 < options_.sizes.H) return ended(w, latent, next.unsqueeze(2));
  dense_end_(next.unsqueeze(2), latent);
  return {.ready = next.unsqueeze(2)};
}

void DevicePlanner::add_reward(Work& w, int64_t t, const std::vector<ProductRows>& h,
                               int64_t first) {
  // a reward counts while the sequence is alive: that is judged at the latent the step begins at
  const auto reward = product(w, h[1], for_all(reward_out_.weight));
  at::Tensor logit;
  if (h.size() == 3) logit = product(w, h[2], for_all(termination_out_.weight));
  // nobody else may be given their memory before they were read
  if (w.beside) {
    for (const ProductRows& rows : h)
      w.rewarded.insert(w.rewarded.end(), {rows.open.x, rows.ready});
    w.rewarded.insert(w.rewarded.end(), {reward, logit});
  }
  mppi_reward({.bins = kTwoHot,
               .logits = reward.const_data_ptr(),
               .bias = f32(reward_out_.start),
               .end = {.logit = logit.defined() ? logit.const_data_ptr() : nullptr,
                       .bias = f32(termination_out_.start),
                       .soft = options_.soft_termination},
               .discount = w.discount_at(t),
               .value = w.value.data_ptr<float>(),
               .alive = w.alive.data_ptr<float>(),
               .bf16 = dtype_ != at::kFloat,
               .begin = t == 0,
               .discount_env = w.discount_env(),
               .N = w.N,
               .R = reward.size(1),
               .S = options_.sizes.S,
               .first = first},
              device_);
}

void DevicePlanner::roll_policy(Work& w) {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t N = w.N, D = shape_.latent;
  const auto start = w.policy_start.narrow(1, 0, policy_.features(1));
  auto inputs = empty({H, N, P, ld_});
  ProductRows latents{.ready = w.z.view({N, 1, 1, D})};
  for (int64_t t = 0; t < H; ++t) {
    const auto x = inputs[t];
    // all trajectories of an environment begin at one latent: the first head is one row
    const auto h = hidden(w, latents, policy_, start, 1, 0, D);
    const auto head = product(w, h[0], for_all(policy_out_.weight));
    mppi_policy({.noise = w.numbers(numbers_.policy + t * P * A),
                 .head = head.const_data_ptr(),
                 .bias = f32(policy_out_.start),
                 .mask = f32(w.mask),
                 .actions = w.actions.data_ptr<float>() + t * S * A,
                 .inputs = x.narrow(2, D, A).data_ptr(),
                 .bf16 = dtype_ != at::kFloat,
                 .shared = t == 0,
                 .mean = false,
                 .log_std_low = float(kLogStdLow),
                 .log_std_high = float(kLogStdHigh),
                 .actions_env = H * S * A,
                 .inputs_env = P * ld_,
                 .ld = ld_,
                 .N = N,
                 .R = P,
                 .A = A},
                device_);
    // behind the last step latents lie where all sequences are valued
    const auto next = (t + 1 < H ? inputs[t + 1] : w.last.narrow(1, 0, P)).narrow(2, 0, D);
    latents = step(w, t, latents, x, next, 0, aside_rewards_);
  }
}

void DevicePlanner::gather_q_pair(Work& w, int64_t round) {
  std::vector<at::Tensor> networks = q_weights_;
  networks.push_back(q_vectors_);
  w.q = gather_rows(networks, w.pair[round].view({2 * w.N}));
}

at::Tensor DevicePlanner::act_behind(Work& w, int64_t round) {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t N = w.N, D = shape_.latent, tails = shape_.episodic ? 2 : 1;
  const auto h = hidden(w, {.ready = w.last.narrow(2, 0, D).unsqueeze(2)}, policy_, w.policy_start,
                        tails, 0, D);
  at::Tensor logit;
  const auto terminate = [&] { logit = product(w, h[1], for_all(termination_out_.weight)); };
  if (tails == 2 && w.beside) rewards_.fork(terminate);
  else if (tails == 2) terminate();
  const auto head = product(w, h[0], for_all(policy_out_.weight));
  mppi_policy({.noise = w.numbers(numbers_.terminal + round * S * A),
               .head = head.const_data_ptr(),
               .bias = f32(policy_out_.start),
               .mask = f32(w.mask),
               .actions = nullptr,
               .inputs = w.last.narrow(2, D, A).data_ptr(),
               .bf16 = dtype_ != at::kFloat,
               .shared = false,
               .mean = options_.mean_terminal_action,
               .log_std_low = float(kLogStdLow),
               .log_std_high = float(kLogStdHigh),
               .actions_env = 0,
               .inputs_env = S * ld_,
               .ld = ld_,
               .N = N,
               .R = S,
               .A = A},
              device_);

  // rewards and terminations are there, and what they were read from is free
  rewards_.join(), aside_rewards_.join();
  w.rewarded.clear();
  return logit;
}

at::Tensor DevicePlanner::value_logits(const Work& w, int64_t round,
                                       const std::vector<at::Tensor>& q) const {
  const int64_t N = w.N, S = options_.sizes.S, D = shape_.latent, A = shape_.actions;
  const auto pair = w.pair[round].view({2 * N});
  const auto& widths = shape_.hidden.q;
  const auto vectors = q.back().view({N, 2, q_vector() + kBins});
  int64_t at = 0;
  const auto vector = [&](int64_t width) {
    return vectors.narrow(2, std::exchange(at, at + width), width);
  };
  const auto mish = [&](const at::Tensor& sums, const at::Tensor& start) {
    const auto gain = vector(sums.size(3)), shift = vector(sums.size(3));
    return DenseEndTensors{
        .x = sums, .start = start, .gain = gain, .shift = shift, .end = DenseEnd::mish};
  };
  const auto weight = [&](size_t l, int64_t nets, int64_t out, int64_t in, int64_t line) {
    return q[l].view({N, nets, -1, line}).narrow(2, 0, out).narrow(3, 0, in).transpose(2, 3);
  };
  auto start = vector(widths[0]);
  // with tasks the bias comes with the embedding's products
  if (w.q_start.defined()) {
    const auto row = at::arange(N, pair.options()).repeat_interleave(2) * shape_.num_q + pair;
    start = at::index_select(w.q_start, 0, row).view({N, 2, widths[0]});
  }
  // both networks of the pair read the same latents and actions: one product an environment
  const auto both = product(w, {.ready = w.last.narrow(2, 0, D + A).unsqueeze(2)},
                            weight(0, 1, 2 * widths[0], D + A, ld_));
  at::Tensor apart;
  if (!w.ends_in_products) apart = empty({N, 2, S, widths[0]}).transpose(1, 2);
  ProductRows x = ended(w, mish(both.view({N, S, 2, widths[0]}), start), apart);
  for (size_t l = 1; l < widths.size(); ++l) {
    const auto y = product(w, x, weight(l, 2, widths[l], widths[l - 1], widths[l - 1]));
    start = vector(widths[l]);
    x = ended(w, mish(y, start), y);
  }
  return product(w, x, weight(widths.size(), 2, kBins, widths.back(), widths.back()));
}

void DevicePlanner::total(Work& w, int64_t round) {
  // the round's value networks are there, and the latents of the policy's trajectories
  aside_.join();
  const auto logit = act_behind(w, round);
  // the two networks of each environment
  if (!w.beside) gather_q_pair(w, round);
  const auto q = std::exchange(w.q, {});
  const auto logits = value_logits(w, round, q);
  // rewards so far, and behind the horizon the mean of both values
  mppi_total({.bins = kTwoHot,
              .logits = logits.const_data_ptr(),
              .bias = f32(q.back()) + q_vector(),
              .end = {.logit = logit.defined() ? logit.const_data_ptr() : nullptr,
                      .bias = f32(termination_out_.start),
                      .soft = options_.soft_termination},
              .discount = w.discount_at(options_.sizes.H),
              .value = f32(w.value),
              .alive = f32(w.alive),
              .total = w.total.data_ptr<float>(),
              .bf16 = dtype_ != at::kFloat,
              .bias_step = q_vector() + kBins,
              .discount_env = w.discount_env(),
              .N = w.N,
              .S = options_.sizes.S},
             device_);
}

Plan DevicePlanner::plan(const PlanRequest& request) {
  try {
    return plan_of(request);
  } catch (...) {
    // memory of a plan that stopped is given away again: only behind what still works in it
    for (SideStream* stream : {&rewards_, &aside_, &aside_rewards_}) stream->abandon();
    throw;
  }
}

Plan DevicePlanner::plan_of(const PlanRequest& request) {
  at::NoGradGuard no_grad;
  Work w = begin(request);
  for (int64_t round = 0; round < options_.sizes.I; ++round) refine(w, round);
  return choose(w);
}

DevicePlanner::Work DevicePlanner::begin(const PlanRequest& request) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t N = request.latent.size(0), D = shape_.latent, R = S - P;
  const auto f = at::TensorOptions(at::kFloat).device(device_);
  Work w{.request = &request,
         .N = N,
         .beside = works_beside(device_, N, S),
         .ends_in_products = ends_in_products_ && N * S <= kEndsInProductsRows};
  w.z = request.latent.to(dtype_);
  w.step_start = step_.start, w.policy_start = policy_.start, w.discount = discount_;
  // a task enters by its mask, its discount and the start of first layers
  if (request.task.defined()) {
    const auto e = at::index_select(embedding_, 0, request.task);
    w.mask = at::index_select(options_.action_mask, 0, request.task);
    w.discount = at::index_select(discount_, 0, request.task);
    w.step_start = at::mm(e, step_.task) + step_.start;
    w.policy_start = at::mm(e, policy_.task) + policy_.start;
    const int64_t nq = shape_.num_q, width = shape_.hidden.q.front();
    w.q_start = (at::mm(e, q_task_).view({N, nq, width}) + q_vectors_.narrow(1, 0, width))
                    .view({N * nq, width});
  }
  // products with the first latent: one row an environment, without the termination head
  const int64_t features = step_.features(2);
  const auto of_latent = step_.first.narrow(0, 0, D).narrow(1, 0, features);
  w.base = at::mm(w.z, of_latent) + w.step_start.narrow(1, 0, features);
  // buffers of this plan alone: on a processor any number of threads may plan
  w.mean = at::empty({N, H, A}, f), w.std = at::empty({N, H, A}, f);
  w.actions = at::empty({N, H, S, A}, f);
  w.inputs = empty({H, N, R, ld_}), w.last = empty({N, S, ld_});
  w.value = at::empty({N, S}, f), w.alive = at::empty({N, S}, f), w.total = at::empty({N, S}, f);
  w.pair = at::empty({I, N, 2}, f.dtype(at::kLong));
  w.elites = at::empty({N, E}, f.dtype(at::kLong)), w.scores = at::empty({N, E}, f);
  // moments begin at the last plan, one step on; the pairs of all rounds are drawn
  mppi_begin({.pair_noise = w.numbers(numbers_.pair),
              .prev_mean = f32(request.prev_mean),
              .is_first = request.is_first.const_data_ptr<uint8_t>(),
              .mean = w.mean.data_ptr<float>(),
              .std = w.std.data_ptr<float>(),
              .pair = w.pair.data_ptr<int64_t>(),
              .max_std = float(options_.max_std),
              .N = N,
              .H = H,
              .A = A,
              .I = I,
              .num_q = shape_.num_q},
             device_);
  return w;
}

void DevicePlanner::refine(Work& w, int64_t round) {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t N = w.N, D = shape_.latent, R = S - P;
  // what the round's latents do not wait for; the policy's trajectories are the same in all rounds
  const bool roll = round == 0 && P > 0;
  if (w.beside)
    aside_.fork([&] {
      gather_q_pair(w, round);
      if (roll) roll_policy(w);
    });
  else if (roll) roll_policy(w);
  mppi_sample({.noise = w.numbers(numbers_.samples + round * H * R * A),
               .mean = f32(w.mean),
               .std = f32(w.std),
               .mask = f32(w.mask),
               .actions = w.actions.data_ptr<float>(),
               .inputs = w.inputs.narrow(3, D, A).data_ptr(),
               .bf16 = dtype_ != at::kFloat,
               .ld = ld_,
               .N = N,
               .H = H,
               .S = S,
               .P = P,
               .A = A},
              device_);
  ProductRows latents;
  for (int64_t t = 0; t < H; ++t) {
    const auto next = (t + 1 < H ? w.inputs[t + 1] : w.last.narrow(1, P, R)).narrow(2, 0, D);
    latents = step(w, t, latents, w.inputs[t], next, P, rewards_);
  }
  total(w, round);
  mppi_elites({.total = f32(w.total),
               .actions = f32(w.actions),
               .mask = f32(w.mask),
               .elites = w.elites.data_ptr<int64_t>(),
               .scores = w.scores.data_ptr<float>(),
               .mean = w.mean.data_ptr<float>(),
               .std = w.std.data_ptr<float>(),
               .temperature = float(options_.temperature),
               .min_std = float(options_.min_std),
               .max_std = float(options_.max_std),
               .N = N,
               .H = H,
               .S = S,
               .A = A,
               .E = E},
              device_);
}

Plan DevicePlanner::choose(const Work& w) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t N = w.N;
  Plan plan{.action = at::empty({N, A}, at::TensorOptions(at::kFloat).device(device_)),
            .mean = w.mean,
            .std = w.std,
            .values = w.total,
            .elites = w.elites,
            .scores = w.scores};
  // one elite is drawn by its weight
  mppi_choose({.gumbel = w.numbers(numbers_.gumbel),
               .noise = w.numbers(numbers_.explore),
               .elites = w.elites.const_data_ptr<int64_t>(),
               .scores = f32(w.scores),
               .actions = f32(w.actions),
               .std = f32(w.std),
               .action = plan.action.data_ptr<float>(),
               .explore = w.request->explore,
               .N = N,
               .H = H,
               .S = S,
               .A = A,
               .E = E},
              device_);
  return plan;
}

}  // namespace maglev::tdmpc2
