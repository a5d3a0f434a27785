#include "algos/tdmpc2/device/planner.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/tdmpc2/policy_prior.h"
#include "base/core/error.h"
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
  at::Tensor base;      ///< [N, 2, M] f32: the first step's products with the latent
  at::Tensor step_start, policy_start;  ///< [N or 1, G, M] f32
  at::Tensor q_start;                   ///< [N * num_q, M] f32; undefined without tasks
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

DevicePlanner::DevicePlanner(const PlanOptions& options, const ModelShape& shape,
                             Precision precision, at::Device device, bool ends_in_products)
    : options_(options),
      numbers_(options.sizes),
      shape_(shape),
      device_(device),
      dtype_(precision == Precision::bf16 ? at::kBFloat16 : at::kFloat),
      ends_in_products_(ends_in_products),
      ld_(product_tiles(shape.latent + shape.actions)),
      heads_(shape.episodic ? 3 : 2),
      rewards_(device),
      aside_(device),
      aside_rewards_(device) {
  if (ends_in_products && !obstacle(shape, precision, device).empty())
    throw Error("[tdmpc2] ends within products cannot be: " + obstacle(shape, precision, device));
  if (device.is_cuda() && options.sizes.S > kMostMppiSamples)
    throw Error("[tdmpc2] tdmpc2.samples must be at most " + std::to_string(kMostMppiSamples) +
                " on a GPU, got " + std::to_string(options.sizes.S));
  const int64_t D = shape.latent, A = shape.actions, M = shape.mlp_dim, T = shape.task_dim;
  const int64_t tails = shape.episodic ? 2 : 1, nq = shape.num_q;
  const auto f = at::TensorOptions(at::kFloat).device(device);
  auto side = [&](int64_t in, int64_t nets, int64_t width, bool first) {
    return Side{first ? weight({in, nets * width}) : weight({nets, in, width}),
                at::zeros({1, nets, width}, f), at::zeros({1, nets, width}, f),
                at::zeros({1, nets, width}, f)};
  };
  auto out = [&](int64_t width) { return Out{weight({M, width}), at::zeros({width}, f)}; };
  // shapes alone: publish() fills them, at addresses that stay
  step_one_ = side(D + A, heads_, M, true), step_two_ = side(M, heads_, M, false);
  policy_one_ = side(D, tails, M, true), policy_two_ = side(M, tails, M, false);
  dynamics_out_ = side(M, 1, D, true);
  reward_out_ = out(kBins), policy_out_ = out(2 * A), termination_out_ = out(1);
  q_one_ = empty({nq, M * ld_}).zero_(), q_two_ = empty({nq, M * M}),
  q_three_ = empty({nq, product_tiles(kBins) * M}).zero_();
  q_vectors_ = at::zeros({nq, 6 * M + kBins}, f);
  // of tasks, in f32: products with an embedding are where the sums of a first layer begin
  if (T > 0) {
    step_task_ = at::zeros({T, heads_ * M}, f), policy_task_ = at::zeros({T, tails * M}, f);
    q_task_ = at::zeros({T, nq * M}, f);
    embedding_ = at::zeros({shape.tasks, T}, f);
  }
  // discount^t of each task
  const auto gamma = at::tensor(options.discount).unsqueeze(1);
  discount_ = at::pow(gamma, at::arange(options.sizes.H + 1)).to(device);
}

at::Tensor DevicePlanner::empty(at::IntArrayRef sizes) const {
  return at::empty(sizes, at::TensorOptions(dtype_).device(device_));
}

at::Tensor DevicePlanner::weight(at::IntArrayRef sizes) const {
  return product_weight(sizes, at::TensorOptions(dtype_).device(device_));
}

std::string DevicePlanner::obstacle(const ModelShape& shape, Precision precision,
                                    at::Device device) {
  if (!device.is_cuda() || precision != Precision::bf16) return "products are not bf16 on a GPU";
  if (std::ranges::count(precisions_of(device), Precision::bf16) == 0) return "it has no bf16";
  const int64_t widest = std::max(shape.latent, shape.mlp_dim);
  if (shape.latent + shape.actions > kMostProductInputs)
    return "latents and actions are more than " + std::to_string(kMostProductInputs);
  if (shape.latent % kProductTile || shape.mlp_dim % kProductTile || widest > kMostEndedFeatures)
    return "latent_dim and mlp_dim are not multiples of " + std::to_string(kProductTile) +
           " up to " + std::to_string(kMostEndedFeatures);
  return "";
}

void DevicePlanner::publish(const WorldModel& model, const at::Tensor& params) {
  at::NoGradGuard no_grad;
  const int64_t D = shape_.latent, A = shape_.actions, M = shape_.mlp_dim;
  auto vectors = [](Side& side, int64_t g, const Layer& layer) {
    side.start[0][g].copy_(layer.bias);
    side.gain[0][g].copy_(layer.gain), side.shift[0][g].copy_(layer.shift);
  };
  // of a first layer's weights the first `own` inputs, then 0 up to `one`'s; the task's are apart
  auto hidden = [&](Side& one, Side& two, at::Tensor& task, int64_t g, const Mlp& mlp,
                    int64_t own) {
    const Layer &first = *mlp.layers[0], &second = *mlp.layers[1];
    auto columns = one.weight.narrow(1, g * M, M);
    columns.narrow(0, 0, own).copy_(first.weight.narrow(1, 0, own).t());
    if (own < columns.size(0)) columns.narrow(0, own, columns.size(0) - own).zero_();
    if (task.defined())
      task.narrow(1, g * M, M).copy_(first.weight.narrow(1, own, task.size(0)).t());
    two.weight[g].copy_(second.weight.t());
    vectors(one, g, first), vectors(two, g, second);
  };
  auto out = [](Out& to, const Mlp& mlp) {
    to.weight.copy_(mlp.layers[2]->weight.t());
    to.start.copy_(mlp.layers[2]->bias);
  };
  // networks that read the same inputs lie side by side: those of a step, those of a latent
  hidden(step_one_, step_two_, step_task_, 0, model.dynamics_head(), D + A);
  hidden(step_one_, step_two_, step_task_, 1, model.reward_head(), D + A);
  hidden(policy_one_, policy_two_, policy_task_, 0, model.policy_head(), D);
  if (shape_.episodic) {
    at::Tensor none;
    hidden(step_one_, step_two_, none, 2, *model.termination_head(), D);
    hidden(policy_one_, policy_two_, none, 1, *model.termination_head(), D);
    out(termination_out_, *model.termination_head());
  }
  // last layers: each head has its own
  const Layer& latent = *model.dynamics_head().layers[2];
  dynamics_out_.weight.copy_(latent.weight.t());
  vectors(dynamics_out_, 0, latent);
  out(reward_out_, model.reward_head());
  out(policy_out_, model.policy_head());

  // value networks stay apart: a round gathers the drawn pair of each environment
  const ModelLayout& layout = model.layout();
  const int64_t nq = shape_.num_q;
  const auto q = stacked(params.narrow(0, layout.q_begin(), layout.q_end() - layout.q_begin()),
                         layout.q[0], nq);
  q_one_.view({nq, M, ld_}).narrow(2, 0, D + A).copy_(q[0].weight.narrow(2, 0, D + A));
  q_two_.view({nq, M, M}).copy_(q[1].weight);
  q_three_.view({nq, -1, M}).narrow(1, 0, kBins).copy_(q[2].weight);
  int64_t offset = 0;
  for (size_t l = 0; l < 2; ++l)
    for (const auto* part : {&q[l].bias, &q[l].gain, &q[l].shift})
      q_vectors_.narrow(1, M * offset++, M).copy_(part->squeeze(1));
  q_vectors_.narrow(1, 6 * M, kBins).copy_(q[2].bias.squeeze(1));
  // products with the embedding are one product for all value networks
  if (q_task_.defined()) {
    q_task_.view({shape_.task_dim, nq, M})
        .copy_(q[0].weight.narrow(2, D + A, shape_.task_dim).permute({2, 0, 1}));
    embedding_.copy_(params.narrow(0, layout.embedding, embedding_.numel()).view_as(embedding_));
  }
}

std::vector<at::Tensor> DevicePlanner::weights() const {
  const int64_t D = shape_.latent, A = shape_.actions, M = shape_.mlp_dim, nq = shape_.num_q;
  std::vector<at::Tensor> all{q_one_.view({nq, M, ld_}).narrow(2, 0, D + A),
                              q_two_.view({nq, M, M}),
                              q_three_.view({nq, -1, M}).narrow(1, 0, kBins)};
  for (const Side* side : {&step_one_, &step_two_, &policy_one_, &policy_two_, &dynamics_out_})
    all.push_back(side->weight);
  for (const Out* out : {&reward_out_, &policy_out_, &termination_out_}) all.push_back(out->weight);
  return all;
}

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

ProductRows DevicePlanner::hidden(const Work& w, const ProductRows& x, const at::Tensor& first,
                                  const at::Tensor& start, const Side& one, const Side& two,
                                  int64_t nets) const {
  const int64_t M = shape_.mlp_dim;
  const auto mish = [&](const at::Tensor& sums, const at::Tensor& begin, const Side& side) {
    return DenseEndTensors{.x = sums,
                           .start = begin,
                           .gain = side.gain.narrow(1, 0, nets),
                           .shift = side.shift.narrow(1, 0, nets),
                           .end = DenseEnd::mish};
  };
  // one product for all first layers; their end lays the networks apart for the second
  const auto side_by_side = product(w, x, for_all(first));
  const int64_t N = side_by_side.size(0), R = side_by_side.size(1);
  at::Tensor apart;
  if (!w.ends_in_products) apart = empty({nets, N, R, M}).permute({1, 2, 0, 3});
  const auto h = ended(w, mish(side_by_side.view({N, R, nets, M}), start, one), apart);
  const auto second = product(w, h, two.weight.narrow(0, 0, nets).unsqueeze(0));
  return ended(w, mish(second, two.start.narrow(1, 0, nets), two), second);
}

ProductRows DevicePlanner::step(Work& w, int64_t t, const ProductRows& latents,
                                const at::Tensor& inputs, const at::Tensor& next, int64_t first,
                                SideStream& rewards) {
  const int64_t D = shape_.latent, A = shape_.actions, M = shape_.mlp_dim;
  // every sequence of an environment begins at the same latent: its products are one row
  const int64_t nets = t == 0 ? 2 : heads_;
  const auto weight = step_one_.weight.narrow(1, 0, nets * M);
  const auto actions = inputs.narrow(2, D, A).unsqueeze(2);
  ProductRows h;
  if (t == 0)
    h = hidden(w, {.ready = actions}, weight.narrow(0, D, A), w.base, step_one_, step_two_, nets);
  else if (latents.open.x.defined())
    h = hidden(w, {.open = latents.open, .ready = actions}, weight, w.step_start, step_one_,
               step_two_, nets);
  else
    h = hidden(w, {.ready = inputs.narrow(2, 0, D + A).unsqueeze(2)}, weight, w.step_start,
               step_one_, step_two_, nets);
  // the next step waits for latents alone
  const auto reward = [&] { add_reward(w, t, h, nets, first); };
  if (w.beside) rewards.fork(reward);
  else reward();
  // the next latents, straight into the inputs of the next step
  const DenseEndTensors latent{.x = product(w, of_network(h, 0), for_all(dynamics_out_.weight)),
                               .start = dynamics_out_.start,
                               .gain = dynamics_out_.gain,
                               .shift = dynamics_out_.shift,
                               .end = DenseEnd::simnorm};
  if (t + 1 < options_.sizes.H) return ended(w, latent, next.unsqueeze(2));
  dense_end_(next.unsqueeze(2), latent);
  return {.ready = next.unsqueeze(2)};
}

void DevicePlanner::add_reward(Work& w, int64_t t, const ProductRows& h, int64_t nets,
                               int64_t first) {
  // a reward counts while the sequence is alive: that is judged at the latent the step begins at
  const auto reward = product(w, of_network(h, 1), for_all(reward_out_.weight));
  at::Tensor logit;
  if (nets == 3) logit = product(w, of_network(h, 2), for_all(termination_out_.weight));
  // nobody else may be given their memory before they were read
  if (w.beside) w.rewarded.insert(w.rewarded.end(), {h.open.x, h.ready, reward, logit});
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
  const int64_t N = w.N, D = shape_.latent, M = shape_.mlp_dim;
  auto inputs = empty({H, N, P, ld_});
  ProductRows latents{.ready = w.z.view({N, 1, 1, D})};
  for (int64_t t = 0; t < H; ++t) {
    const auto x = inputs[t];
    // all trajectories of an environment begin at one latent: the first head is one row
    const auto h = hidden(w, latents, policy_one_.weight.narrow(1, 0, M),
                          w.policy_start.narrow(1, 0, 1), policy_one_, policy_two_, 1);
    const auto head = product(w, h, for_all(policy_out_.weight));
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
  w.q = gather_rows({q_one_, q_two_, q_three_, q_vectors_}, w.pair[round].view({2 * w.N}));
}

void DevicePlanner::total(Work& w, int64_t round) {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t N = w.N, D = shape_.latent, M = shape_.mlp_dim;
  const int64_t tails = shape_.episodic ? 2 : 1;
  // the round's value networks are there, and the latents of the policy's trajectories
  aside_.join();
  // the policy's actions behind the horizon, and whether a sequence has ended there
  const auto h = hidden(w, {.ready = w.last.narrow(2, 0, D).unsqueeze(2)}, policy_one_.weight,
                        w.policy_start, policy_one_, policy_two_, tails);
  at::Tensor logit;
  const auto terminate = [&] {
    logit = product(w, of_network(h, 1), for_all(termination_out_.weight));
  };
  if (tails == 2 && w.beside) rewards_.fork(terminate);
  else if (tails == 2) terminate();
  const auto head = product(w, of_network(h, 0), for_all(policy_out_.weight));
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

  // the two networks of each environment
  if (!w.beside) gather_q_pair(w, round);
  const auto q = std::exchange(w.q, {});
  const auto pair = w.pair[round].view({2 * N});
  const auto vectors = q[3].view({N, 2, 6 * M + kBins});
  auto part = [&](int64_t i) { return vectors.narrow(2, i * M, M); };
  auto first_start = part(0);
  // with tasks the bias comes with the embedding's products
  if (w.q_start.defined()) {
    const auto row = at::arange(N, pair.options()).repeat_interleave(2) * shape_.num_q + pair;
    first_start = at::index_select(w.q_start, 0, row).view({N, 2, M});
  }
  // both networks of the pair read the same latents and actions: one product an environment
  const auto weight = [&](int64_t i, int64_t nets, int64_t out, int64_t in, int64_t line) {
    return q[i].view({N, nets, -1, line}).narrow(2, 0, out).narrow(3, 0, in).transpose(2, 3);
  };
  const auto mish = [&](const at::Tensor& sums, const at::Tensor& start, int64_t i) {
    return DenseEndTensors{
        .x = sums, .start = start, .gain = part(i), .shift = part(i + 1), .end = DenseEnd::mish};
  };
  const auto one = product(w, {.ready = w.last.narrow(2, 0, D + A).unsqueeze(2)},
                           weight(0, 1, 2 * M, D + A, ld_));
  at::Tensor apart;
  if (!w.ends_in_products) apart = empty({N, 2, S, M}).transpose(1, 2);
  const auto h_one = ended(w, mish(one.view({N, S, 2, M}), first_start, 1), apart);
  const auto two = product(w, h_one, weight(1, 2, M, M, M));
  const auto logits = product(w, ended(w, mish(two, part(3), 4), two), weight(2, 2, kBins, M, M));
  // rewards so far, and behind the horizon the mean of both values
  mppi_total({.bins = kTwoHot,
              .logits = logits.const_data_ptr(),
              .bias = f32(vectors) + 6 * M,
              .end = {.logit = logit.defined() ? logit.const_data_ptr() : nullptr,
                      .bias = f32(termination_out_.start),
                      .soft = options_.soft_termination},
              .discount = w.discount_at(H),
              .value = f32(w.value),
              .alive = f32(w.alive),
              .total = w.total.data_ptr<float>(),
              .bf16 = dtype_ != at::kFloat,
              .bias_step = 6 * M + kBins,
              .discount_env = w.discount_env(),
              .N = N,
              .S = S},
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
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t N = request.latent.size(0), D = shape_.latent, M = shape_.mlp_dim, R = S - P;
  const auto f = at::TensorOptions(at::kFloat).device(device_);
  const bool beside = works_beside(device_, N, S);
  Work w{.request = &request,
         .N = N,
         .beside = beside,
         .ends_in_products = ends_in_products_ && N * S <= kEndsInProductsRows};
  w.z = request.latent.to(dtype_);
  w.step_start = step_one_.start, w.policy_start = policy_one_.start, w.discount = discount_;
  // a task enters by its mask, its discount and the start of first layers
  if (request.task.defined()) {
    const auto e = at::index_select(embedding_, 0, request.task);
    w.mask = at::index_select(options_.action_mask, 0, request.task);
    w.discount = at::index_select(discount_, 0, request.task);
    w.step_start = at::mm(e, step_task_).view({N, heads_, M}) + step_one_.start;
    w.policy_start = at::mm(e, policy_task_).view({N, -1, M}) + policy_one_.start;
    w.q_start = (at::mm(e, q_task_).view({N, shape_.num_q, M}) + q_vectors_.narrow(1, 0, M))
                    .view({N * shape_.num_q, M});
  }
  // products with the first latent: one row an environment, without the termination head
  const auto of_latent = step_one_.weight.narrow(0, 0, D).narrow(1, 0, 2 * M);
  w.base = at::mm(w.z, of_latent).view({N, 2, M}) + w.step_start.narrow(1, 0, 2);
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
  for (int64_t round = 0; round < I; ++round) {
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
  Plan plan{.action = at::empty({N, A}, f),
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
               .explore = request.explore,
               .N = N,
               .H = H,
               .S = S,
               .A = A,
               .E = E},
              device_);
  return plan;
}

}  // namespace maglev::tdmpc2
