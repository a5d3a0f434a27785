#include "kernels/actor_critic/actor_critic_op.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/policy/distribution_op.h"
#include "kernels/ppo_loss/ppo_loss_op.h"

namespace maglev {
namespace {

const auto no_cpu_side = [](const auto&...) {
  MAGLEV_ASSERT(false, "a processor runs networks on panels");
};

/// What a case is about: widths of hidden layers, observations and actions.
struct NetworkShape {
  const char* name;
  std::vector<int64_t> shared, hidden;
  Activation activation;
  std::vector<ObsColumn> columns;
  ActionSpec action;
  bool standardised;
  int64_t rows;
};

/// A network, rows of observations and what the loss reads, on a device.
class NetworkExample {
 public:
  NetworkExample(const NetworkShape& s, at::Device device)
      : shape_(s),
        device_(device),
        gen_(at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.rows))) {
    make_columns();
    make_layers();
    make_loss();
    args_ = lay_out(network_);
    const int64_t blocks = std::min<int64_t>((s.rows + kTileRows - 1) / kTileRows, kLanes);
    args_.blocks = blocks;
    if (!tile_is_shared(args_)) {
      tiles_ = at::empty({blocks, args_.tile_floats}, device);
      args_.tiles = tiles_.data_ptr<float>();
    }
    for (size_t c = 0; c < columns_.size(); ++c)
      args_.columns[c].rows = static_cast<const std::byte*>(columns_[c].const_data_ptr());
  }

  const ActionSpec& action() const { return shape_.action; }
  int64_t multiply_adds() const { return multiply_adds_; }
  /// The lengths of the sums on the longest way through forward and backward.
  int64_t sums() const { return sums_; }
  int64_t rows() const { return shape_.rows; }

  // by ATen

  /// Logits, value of all stored rows, differentiable.
  std::pair<at::Tensor, at::Tensor> outputs() const {
    std::vector<at::Tensor> seen, secret;
    for (size_t c = 0; c < columns_.size(); ++c) {
      auto x = columns_[c].to(at::kFloat);
      if (shape_.standardised)
        x = at::clamp((x - means_[c]) * at::rsqrt(vars_[c] + 1e-8), -kClip, kClip);
      (network_.columns[c].privileged ? secret : seen).push_back(x);
    }
    auto x = at::cat(seen, 1);
    x = through(x, 0, shape_.shared.size(), true);
    auto critic = x;
    if (!secret.empty()) critic = at::cat({x, at::cat(secret, 1)}, 1);
    const size_t n = shape_.hidden.size() + 1, first = shape_.shared.size();
    return {through(x, first, n, false), through(critic, first + n, n, false).squeeze(1)};
  }
  Tensors acted_reference() const {
    const auto [logits, value] = outputs();
    auto action = action_.clone();
    const auto log_prob =
        sample(shape_.action, {logits.detach(), log_std_, mask_}, ActMode::sample, kKey, 0, action);
    return {log_prob, action.to(at::kFloat), value.detach()};
  }
  Tensors learned_reference() const {
    at::AutoGradMode with_gradients(true);
    const auto fresh = [&](at::Tensor t) { return t.detach().set_requires_grad(true); };
    NetworkExample copy = *this;
    for (auto* list : {&copy.weights_, &copy.biases_})
      for (auto& t : *list) t = fresh(t);
    if (log_std_.defined()) copy.log_std_ = fresh(log_std_);
    const auto [logits, value] = copy.outputs();
    PpoLossRows rows = loss_rows_;
    for (auto* column : {&rows.action, &rows.old_log_prob, &rows.advantage, &rows.target,
                         &rows.old_value, &rows.valid, &rows.mask})
      if (column->defined()) *column = column->index_select(0, index_);
    rows.advantage = (rows.advantage - kScalars.advantage_mean) * kScalars.advantage_scale;
    const auto count = at::full({}, 1.0 / kScalars.inverse_count, device_);
    // means over the rows that count are sums times the count's inverse
    const auto loss =
        ppo_loss_reference(shape_.action, logits.index_select(0, index_), copy.log_std_,
                           value.index_select(0, index_), rows,
                           {.clip = at::full({}, kScalars.clip, device_),
                            .value_clip = at::full({}, kScalars.value_clip, device_),
                            .entropy_coef = at::full({}, kScalars.entropy_coef, device_),
                            .settings = kSettings});
    const auto share = rows.valid.sum() / count;
    (loss.total * share).backward();
    Tensors out{loss.figures().detach() * share};
    for (size_t l = 0; l < weights_.size(); ++l)
      out.push_back(copy.weights_[l].grad()), out.push_back(copy.biases_[l].grad());
    if (log_std_.defined()) out.push_back(copy.log_std_.grad());
    return out;
  }

  // by the kernel

  Tensors acted() const {
    auto action = at::zeros_like(action_), log_prob = at::zeros({rows()}, device_);
    auto value = at::zeros({rows()}, device_);
    const bool discrete = shape_.action.discrete();
    actor_critic_act(device_, args_,
                     {.policy = policy(rows()),
                      .seed = kKey.seed,
                      .purpose = kKey.purpose,
                      .first_row = 0,
                      .step = kKey.step,
                      .base = nullptr,
                      .mean = false,
                      .action_i32 = discrete ? action.data_ptr<int32_t>() : nullptr,
                      .action_f32 = discrete ? nullptr : action.data_ptr<float>(),
                      .log_prob = log_prob.data_ptr<float>()});
    actor_critic_values(device_, args_, value.data_ptr<float>(), rows());
    return {log_prob, action.to(at::kFloat), value};
  }
  Tensors learned() const {
    const int64_t B = index_.numel(), P = grads_;
    const int64_t count = std::min(args_.blocks, (B + kTileRows - 1) / kTileRows);
    auto lanes = at::zeros({count, P}, device_);
    auto figures =
        at::zeros({count, int64_t(kPpoFigures)}, at::TensorOptions(at::kDouble).device(device_));
    const bool discrete = shape_.action.discrete();
    const PpoLossRows& r = loss_rows_;
    PpoLossArgs loss{};
    loss.policy = policy(B);
    loss.index = index_.const_data_ptr<int64_t>();
    loss.action_i32 = discrete ? r.action.const_data_ptr<int32_t>() : nullptr;
    loss.action_f32 = discrete ? nullptr : r.action.const_data_ptr<float>();
    loss.old_log_prob = r.old_log_prob.const_data_ptr<float>();
    loss.advantage = r.advantage.const_data_ptr<float>();
    loss.target = r.target.const_data_ptr<float>();
    loss.old_value = r.old_value.const_data_ptr<float>();
    loss.valid = r.valid.const_data_ptr<float>();
    loss.settings = kSettings;
    loss.scalars = reinterpret_cast<const PpoLossScalars*>(scalars_.const_data_ptr());
    actor_critic_learn(device_, args_, loss,
                       {.lanes = lanes.data_ptr<float>(),
                        .lane_stride = P,
                        .count = count,
                        .log_std = log_std_at_,
                        .figures = figures.data_ptr<double>()});
    const auto sum = lanes.sum(0);
    Tensors out{figures.sum(0).to(at::kFloat)};
    for (size_t l = 0; l < weights_.size(); ++l) {
      out.push_back(sum.narrow(0, places_[l], weights_[l].numel()).view_as(weights_[l]));
      out.push_back(sum.narrow(0, places_[l] + weights_[l].numel(), biases_[l].numel()));
    }
    if (log_std_.defined()) out.push_back(sum.narrow(0, log_std_at_, log_std_.numel()));
    return out;
  }

 private:
  // fewer than there are tiles in the longest case
  static constexpr int64_t kLanes = 3;
  static constexpr double kClip = 10;
  static constexpr ActKey kKey{.seed = 3, .purpose = Purpose::act, .step = 11};
  static constexpr PpoLossSettings kSettings{.value_coef = 0.7f, .clips_value = true};
  static constexpr PpoLossScalars kScalars{.advantage_mean = 0.1f,
                                           .advantage_scale = 1.3f,
                                           .inverse_count = 1.f / 64,
                                           .clip = 0.2f,
                                           .value_clip = 0.3f,
                                           .entropy_coef = 0.05f};

  at::Tensor random(at::IntArrayRef sizes) { return at::randn(sizes, gen_).to(device_); }

  void make_columns() {
    for (const ObsColumn& column : shape_.columns) {
      const int64_t D = column.elements();
      auto x = column.dtype == DType::f32 ? at::randn({shape_.rows, D}, gen_)
                                          : at::randint(0, 4, {shape_.rows, D}, gen_);
      if (column.dtype == DType::u8) x = x.to(at::kByte);
      if (column.dtype == DType::i32) x = x.to(at::kInt);
      columns_.push_back(x.to(device_).contiguous());
      means_.push_back(random({D})), vars_.push_back(random({D}).abs() + 0.2);
      const bool by = shape_.standardised;
      network_.columns.push_back({.dtype = column.dtype,
                                  .elements = D,
                                  .privileged = column.audience == Audience::critic,
                                  .mean = by ? means_.back().const_data_ptr<float>() : nullptr,
                                  .var = by ? vars_.back().const_data_ptr<float>() : nullptr,
                                  .clip = float(kClip)});
    }
  }
  void make_layers() {
    int64_t seen = 0, secret = 0;
    for (const auto& c : network_.columns) (c.privileged ? secret : seen) += c.elements;
    const auto stack = [&](int64_t in, std::vector<int64_t> widths, bool ends) {
      TileNetwork::Stack made;
      for (size_t l = 0; l < widths.size(); ++l) {
        const int64_t out = widths[l];
        weights_.push_back(random({out, in}) / std::sqrt(double(in)));
        biases_.push_back(random({out}) * 0.1);
        made.layers.push_back(
            {weights_.back().const_data_ptr<float>(), biases_.back().const_data_ptr<float>(), in,
             out, ends && l + 1 == widths.size() ? Activation::none : shape_.activation});
        // a gap before each, as aligned parameters have
        places_.push_back(grads_ += 3);
        made.weight_at.push_back(grads_), made.bias_at.push_back(grads_ + out * in);
        grads_ += out * in + out;
        multiply_adds_ += out * in, sums_ += out + in;
        in = out;
      }
      return made;
    };
    const int64_t width =
        shape_.action.discrete() ? shape_.action.categories() : shape_.action.dims();
    auto policy = shape_.hidden, value = shape_.hidden;
    policy.push_back(width), value.push_back(1);
    network_.shared = stack(seen, shape_.shared, false);
    const int64_t in = shape_.shared.empty() ? seen : shape_.shared.back();
    network_.policy = stack(in, policy, true);
    network_.value = stack(in + secret, value, true);
    if (shape_.action.discrete()) return;
    log_std_ = random({width}) * 0.3 - 0.5, log_std_at_ = grads_, grads_ += width;
  }
  void make_loss() {
    const int64_t M = shape_.rows;
    const ActionSpec& a = shape_.action;
    index_ = at::randperm(M, gen_).narrow(0, 0, (M + 1) / 2).contiguous().to(device_);
    if (a.masked) {
      mask_ = (at::rand({M, a.categories()}, gen_) < 0.6).to(at::kByte);
      for (int64_t h = 0, begin = 0; h < a.dims(); begin += a.heads[size_t(h++)])
        mask_.select(1, begin).fill_(1);
      mask_ = mask_.to(device_);
    }
    action_ = a.discrete() ? at::zeros({M, a.dims()}, at::TensorOptions(at::kInt).device(device_))
                           : at::zeros({M, a.dims()}, device_);
    // actions this policy drew; it has moved since
    const auto acted = acted_reference();
    loss_rows_ = {.action = acted[1].to(action_.scalar_type()),
                  .old_log_prob = acted[0] + random({M}) * 0.2,
                  .advantage = random({M}),
                  .target = random({M}),
                  .old_value = acted[2] + random({M}) * 0.3,
                  .valid = (at::rand({M}, gen_) < 0.9).to(at::kFloat).to(device_),
                  .mask = mask_};
    scalars_ = packed(kScalars).to(device_);
  }
  at::Tensor through(at::Tensor x, size_t first, size_t count, bool ends) const {
    for (size_t l = first; l < first + count; ++l) {
      x = at::linear(x, weights_[l], biases_[l]);
      if (!ends && l + 1 == first + count) break;
      x = shape_.activation == Activation::tanh   ? at::tanh(x)
          : shape_.activation == Activation::relu ? at::relu(x)
                                                  : at::silu(x);
    }
    return x;
  }
  PolicyPanel policy(int64_t rows) const {
    const ActionSpec& a = shape_.action;
    return {.heads = a.heads.data(),
            .head_count = int64_t(a.heads.size()),
            .dims = a.dims(),
            .logits = nullptr,
            .stride = 0,
            .log_std = log_std_.defined() ? log_std_.const_data_ptr<float>() : nullptr,
            .mask = mask_.defined() ? mask_.const_data_ptr<uint8_t>() : nullptr,
            .mask_width = a.categories(),
            .rows = rows};
  }

  NetworkShape shape_;
  at::Device device_;
  at::Generator gen_;
  TileNetwork network_;
  ActorCriticArgs args_;
  Tensors columns_, means_, vars_, weights_, biases_;
  std::vector<int64_t> places_;
  at::Tensor log_std_, mask_, action_, index_, scalars_, tiles_;
  PpoLossRows loss_rows_;
  int64_t grads_ = 0, log_std_at_ = 0, multiply_adds_ = 0, sums_ = 0;
};

std::vector<KernelCase> actor_critic_cases(at::Device device) {
  std::vector<KernelCase> list;
  if (!device.is_cuda()) return list;
  const ObsColumn four{.name = "vector", .shape = {4}}, bytes{.dtype = DType::u8, .shape = {5}},
      codes{.dtype = DType::i32, .shape = {2}}, secret{.shape = {3}, .audience = Audience::critic};
  const ActionSpec two{.heads = {2}}, masked{.heads = {5, 3}, .masked = true},
      gaussian{.low = {-1, -1, -1}, .high = {1, 1, 1}};
  for (const NetworkShape& s :
       {NetworkShape{"64-64 tanh", {}, {64, 64}, Activation::tanh, {four}, two, false, 333},
        NetworkShape{"one row", {}, {64, 64}, Activation::tanh, {four}, two, false, 1},
        NetworkShape{"shared 24, 17 silu, masks, critic's column",
                     {24},
                     {17},
                     Activation::silu,
                     {four, bytes, secret},
                     masked,
                     true,
                     200},
        NetworkShape{"70-33 relu, gaussian, codes",
                     {},
                     {70, 33},
                     Activation::relu,
                     {codes, four, secret},
                     gaussian,
                     false,
                     130},
        NetworkShape{"shared 16-16 tanh, gaussian",
                     {16, 16},
                     {},
                     Activation::tanh,
                     {four},
                     gaussian,
                     true,
                     97},
        NetworkShape{"256 relu", {}, {256, 256}, Activation::relu, {four}, two, false, 40}}) {
    const auto example = std::make_shared<const NetworkExample>(s, device);
    const std::string name = std::string(s.name) + " rows=" + std::to_string(s.rows);
    list.push_back({.name = "act and values " + name,
                    .reference = [=](const Tensors&) { return example->acted_reference(); },
                    .fused = [=](const Tensors&) { return example->acted(); },
                    .tolerance = Tolerance::of_sums(example->sums()),
                    .bytes = 4 * example->multiply_adds(),
                    .flops = 2 * example->multiply_adds() * example->rows()});
    list.push_back({.name = "learn " + name,
                    .reference = [=](const Tensors&) { return example->learned_reference(); },
                    .fused = [=](const Tensors&) { return example->learned(); },
                    .tolerance = Tolerance::of_sums(2 * example->sums() + example->rows()),
                    .bytes = 8 * example->multiply_adds(),
                    .flops = 3 * example->multiply_adds() * example->rows()});
  }
  return list;
}

}  // namespace

ActorCriticArgs lay_out(const TileNetwork& network) {
  ActorCriticArgs args{};
  int64_t next = 0;
  const auto take = [&](int64_t features) {
    const int64_t place = next;
    next += features * kTileStride;
    return place;
  };

  // what is stored, the privileged behind the rest
  int64_t seen = 0, secret = 0;
  for (const auto& c : network.columns) (c.privileged ? secret : seen) += c.elements;
  const int64_t input = take(seen + secret);
  // the loss writes the gradient of the stacks that end in it
  const auto lay_stack = [&](const TileNetwork::Stack& from, int64_t x, int64_t behind,
                             bool meets_loss) {
    TileStack stack{};
    MAGLEV_ASSERT(from.layers.size() <= size_t(kMostTileLayers), "no deeper than a launch can say");
    stack.count = int64_t(from.layers.size()), stack.x = x;
    for (size_t l = 0; l < from.layers.size(); ++l) {
      const DenseLayer& layer = from.layers[l];
      const bool last = l + 1 == from.layers.size();
      const int64_t y = take(layer.out + (last ? behind : 0));
      stack.layers[l] = {.layer = layer,
                         .y = y,
                         .slope = layer.activation == Activation::silu ? take(layer.out) : 0,
                         .dz = last && meets_loss ? take(layer.out) : y,
                         .weight_grad = from.weight_at[l],
                         .bias_grad = from.bias_at[l]};
    }
    return stack;
  };
  args.stacks[kSharedStack] = lay_stack(network.shared, input, secret, false);
  const TileStack& shared = args.stacks[kSharedStack];
  const bool shares = shared.count > 0;
  const int64_t features = shares ? shared.layers[shared.count - 1].y : input;
  const int64_t outputs = shares ? network.shared.layers.back().out : seen;
  args.stacks[kPolicyStack] = lay_stack(network.policy, features, 0, true);
  args.stacks[kValueStack] = lay_stack(network.value, features, 0, true);
  // no more dimensions than logits, a word each, and a byte of mask a logit
  const int64_t logits = network.policy.layers.back().out;
  args.actions = take(logits), args.masks = take((logits + 3) / 4);

  // the critic's own columns stand behind what both stacks see
  int64_t place[2] = {input, input + seen * kTileStride}, again = features + outputs * kTileStride;
  args.column_count = int32_t(network.columns.size());
  for (size_t c = 0; c < network.columns.size(); ++c) {
    const auto& column = network.columns[c];
    int64_t& to = place[column.privileged];
    const int64_t floats = column.elements * kTileStride;
    args.columns[c] = {.rows = nullptr,
                       .dtype = column.dtype,
                       .elements = int32_t(column.elements),
                       .to = to,
                       .again = column.privileged && shares ? again : -1,
                       .mean = column.mean,
                       .var = column.var,
                       .clip = column.clip};
    to += floats;
    if (column.privileged) again += floats;
  }
  args.tile_floats = next;
  return args;
}

void actor_critic_act(at::Device device, const ActorCriticArgs& args, const SampleArgs& sample) {
  launch<actor_critic_act_cuda>("actor_critic_act", device, no_cpu_side, args, sample);
}

void actor_critic_values(at::Device device, const ActorCriticArgs& args, float* value,
                         int64_t rows) {
  launch<actor_critic_values_cuda>("actor_critic_values", device, no_cpu_side, args, value, rows);
}

void actor_critic_learn(at::Device device, const ActorCriticArgs& args, const PpoLossArgs& loss,
                        const TileGradients& into) {
  launch<actor_critic_learn_cuda>("actor_critic_learn", device, no_cpu_side, args, loss, into);
}

namespace kernels::actor_critic {
KernelEntry entry() {
  return {.name = "actor_critic",
          .summary = "small policy and value networks on a device: acting, values, a minibatch",
          .cases = actor_critic_cases,
          .device_only = true};
}
}  // namespace kernels::actor_critic

}  // namespace maglev
