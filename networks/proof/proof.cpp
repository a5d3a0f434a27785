// A policy over the successors of a goal, of which each row has another number: the logit of a
// successor is the product of its vector with the state's, all made by one tower. Only successors
// that are there are embedded, equal ones once. docs/knowledge_graphs.md has the formulas.

#include <cmath>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"
#include "engine/device/aten_only.h"
#include "engine/nn/autocast.h"
#include "engine/nn/network.h"
#include "kernels/keyed_sum/keyed_sum_op.h"
#include "kernels/ragged/ragged_op.h"
#include "networks/proof/goals.h"
#include "networks/proof/tower.h"

namespace maglev::networks::proof {
namespace {

enum class Towers { shared, separate };
constexpr auto names_of(Towers) { return std::array{"shared", "separate"}; }
enum class DotScale { none, sqrt, l2 };
constexpr auto names_of(DotScale) { return std::array{"none", "sqrt", "l2"}; }

struct Options {
  AtomEmbedding atoms = AtomEmbedding::transe;
  GoalEmbedding goals = GoalEmbedding::mean;
  int64_t embedding = 64, heads = 1, width = 128, blocks = 2;
  Towers towers = Towers::shared;
  DotScale dot = DotScale::sqrt;
  double temperature = 0.1;
  bool packed = true, fused_layers = true;
  int64_t room = 0;

  void describe(OptionTable& t) {
    t.add("atoms", atoms, "an atom's embedding");
    t.add("goals", goals, "a goal's, from its atoms'");
    t.add("embedding", embedding, "size of embeddings, and of what is compared",
          {.min = 1, .max = 65536, .unit = "numbers"});
    t.add("heads", heads, "of attention and transformer, which they share vectors among",
          {.min = 1, .max = 1024, .unit = "heads"});
    t.add("width", width, "layers' outputs", {.min = 1, .max = 65536, .unit = "units"});
    t.add("blocks", blocks, "residual blocks", {.min = 0, .max = 1000, .unit = "blocks"});
    t.add("towers", towers, "one tower for states and successors, or one each");
    t.add("dot", dot, "products: as they are, over the root of the size, of unit vectors");
    t.add("temperature", temperature, "what products of unit vectors are divided by",
          {.min = 1e-6, .max = 1e6});
    t.add("packed", packed, "embed what is there, once; false: every slot", {.free = true});
    t.add("room", room,
          "goals there is room for behind a row's state, on average and equal ones once; 0: as "
          "many as there are on a processor, every slot's on a GPU",
          {.min = 0, .max = 65536, .unit = "successors"});
    t.add("fused_layers", fused_layers,
          "layers, sums of rows and attention as one operation each; false: ATen's",
          {.free = true});
  }
};

// the columns of observations, by name; -1: there is none
int column_of(const EnvSpec& spec, std::string_view name) {
  for (size_t i = 0; i < spec.observations.size(); ++i)
    if (spec.observations[i].name == name) return int(i);
  return -1;
}

Suits suits(const EnvSpec& spec) {
  const int state = column_of(spec, "state"), successors = column_of(spec, "successors");
  if (spec.observations.size() != 2 || state < 0 || successors < 0) return Suits::no;
  const ObsColumn &goal = spec.observations[size_t(state)],
                  &next = spec.observations[size_t(successors)];
  const bool columns = goal.dtype == DType::i32 && next.dtype == DType::i32 &&
                       goal.shape.size() == 2 && next.shape.size() == 3 && goal.shape[1] == 3 &&
                       next.shape[1] == goal.shape[0] && next.shape[2] == 3;
  const auto& words = goal.vocabulary;
  const bool vocabulary = words.size() == 3 && words == next.vocabulary && words[1] == words[2];
  return columns && vocabulary && spec.action.masked &&
                 spec.action.heads == std::vector<int64_t>{next.shape[0]}
             ? Suits::best
             : Suits::no;
}

class ProofNetwork : public ActorCritic {
 public:
  ProofNetwork(const NetworkOptions& options, const NetworkContext& context, Initializer init)
      : own_(options.own_as<Options>()),
        state_(size_t(column_of(context.spec, "state"))),
        successors_(size_t(column_of(context.spec, "successors"))) {
    const ObsColumn& next = context.spec.observations[successors_];
    S_ = next.shape[0];
    const int64_t E = own_.embedding, H = own_.width;
    embedder_ = register_module(
        "embedder",
        std::make_shared<GoalEmbedder>(GoalEmbedder::Shape{.predicates = next.vocabulary[0],
                                                           .constants = next.vocabulary[1],
                                                           .atoms = next.shape[1],
                                                           .width = E,
                                                           .heads = own_.heads},
                                       own_.atoms, own_.goals, init));
    const auto body = [&](const char* name) {
      return register_module(name,
                             std::make_shared<Body>(embedder_->features(), H, own_.blocks, init));
    };
    const auto head = [&](const char* name) {
      return register_module(
          name, std::make_shared<Head>(H, std::vector<int64_t>{H, E}, false, kHeadGain, init));
    };
    body_ = body("body"), policy_head_ = head("policy_head");
    if (own_.towers == Towers::separate)
      next_body_ = body("next_body"), next_head_ = head("next_head");
    if (!options.shared) critic_body_ = body("critic_body");
    critic_ = register_module(
        "critic", std::make_shared<Head>(H, std::vector<int64_t>{H}, true, std::sqrt(2.0), init));
    value_head_ = register_module(
        "value_head", make_value_head(options.value_head, H, options.popart_beta, init));
  }

  NetworkOutput forward(const std::vector<at::Tensor>& columns, Want want) override {
    const at::Tensor &state = columns[state_], &successors = columns[successors_];
    MAGLEV_ASSERT(successors.size(1) == S_, "successors are those the network was made for");
    return own_.packed && !AtenOnly::on() ? packed(state, successors, want)
                                          : padded(state, successors, want);
  }

  ValueHead& value_head() const override { return *value_head_; }
  std::string part_of(const std::string& parameter) const override {
    // the critic's layers lie last
    for (const char* begin : {"critic_body.", "critic.", "value_head."})
      if (parameter.starts_with(begin)) return "value";
    return "policy";
  }
  std::vector<std::string> output_layers() const override {
    return {"embedder", "policy_head", "next_head", "value_head"};
  }

  // of a row whose slots are all taken, or that has its share of a room
  RowCost cost() const override {
    const int64_t slots = own_.packed && own_.room > 0 ? room_of(kPlannedRows) / kPlannedRows : S_;
    RowCost row = cost_with(1, double(slots));
    row.uses = 1 + slots;
    return row;
  }
  // of the goals that are there, each once
  RowCost cost_of_rows(const std::vector<at::Tensor>& columns) const override {
    if (!own_.packed) return cost();
    const at::Tensor &state = columns[state_], &successors = columns[successors_];
    const auto rows = double(state.size(0));
    const PackedGoals goals = pack_goals(state, successors);
    return cost_with(double(goals.states) / rows, double(goals.all - goals.states) / rows);
  }

 private:
  // of a row that has so many goals of its own, states and successors
  RowCost cost_with(double states, double successors) const {
    const auto of = [](const torch::nn::Module& part) { return cost_of(part.parameters()); };
    const RowCost embedding{embedder_->multiply_adds(), embedder_->outputs()};
    const RowCost next = embedding + (next_body_ ? of(*next_body_) + of(*next_head_)
                                                 : of(*body_) + of(*policy_head_));
    RowCost state = embedding + of(*body_) + of(*policy_head_) + of(*critic_) + of(*value_head_);
    if (critic_body_) state = state + of(*critic_body_);
    const auto sum = [&](int64_t RowCost::*part) {
      return int64_t(states * double(state.*part) + successors * double(next.*part));
    };
    RowCost row = state;
    row.multiply_adds = sum(&RowCost::multiply_adds), row.outputs = sum(&RowCost::outputs);
    return row;
  }

  // products of few numbers begin near 0, so that successors begin alike
  static constexpr double kHeadGain = 0.1;
  // a call has at least so many where its cost matters
  static constexpr int64_t kPlannedRows = 64;

  NetworkOutput packed(const at::Tensor& state, const at::Tensor& successors, Want want) const {
    const int64_t B = state.size(0);
    // how many goals there are only the device knows there: they get a room of fixed size. Where
    // nothing is learned it is all that there could be, for evaluations meet goals of any kind
    std::optional<int64_t> room;
    if (own_.room > 0 && at::GradMode::is_enabled()) room = room_of(B);
    else if (state.device().is_cuda()) room = B * S_;
    // goals of the call, each once; one tower takes states and successors together
    const bool together = want.policy && !next_body_;
    PackedGoals rows = pack_goals(state, together ? successors : at::Tensor(),
                                  room ? std::optional(B + (together ? *room : 0)) : room);
    const auto embedded = embed(rows.goals);
    at::Tensor hidden;
    if (want.policy || !critic_body_) hidden = body_->forward(embedded, fused());

    // rows in the same state have one value
    NetworkOutput out;
    if (want.value) {
      const auto first = [&](const at::Tensor& t) {
        return t.narrow(0, 0, room ? B : packed_size(rows.states));
      };
      const auto values = critic_body_ ? value(critic_body_->forward(first(embedded), fused()))
                                       : value(first(hidden));
      out.value = gather_rows(values.unsqueeze(1), rows.state).squeeze(1);
    }
    if (!want.policy) return out;

    const auto u = compared(*policy_head_, hidden);
    auto v = u;
    if (next_body_) {
      const PackedGoals next = pack_goals({}, successors, room);
      v = compared(*next_head_, next_body_->forward(embed(next.goals), fused()));
      rows.successor = next.successor;
    }
    out.logits = ragged_dot(u, v, rows, scale());
    return out;
  }

  // places for the goals of B rows besides their states: the number of a row's successors deviates
  // by half its slots at most, of B rows that do not depend on each other by sqrt(B) of that; two
  // such deviations are kept free
  int64_t room_of(int64_t B) const {
    const auto spare = int64_t(std::ceil(std::sqrt(double(B)))) * S_;
    return std::min(B * S_, B * own_.room + spare);
  }

  // the same with every slot embedded
  NetworkOutput padded(const at::Tensor& state, const at::Tensor& successors, Want want) const {
    NetworkOutput out;
    const auto embedded = embed(state);
    const auto hidden = body_->forward(embedded, fused());
    if (want.value)
      out.value = value(critic_body_ ? critic_body_->forward(embedded, fused()) : hidden);
    if (!want.policy) return out;

    const auto u = compared(*policy_head_, hidden).unsqueeze(1);
    const Body& body = next_body_ ? *next_body_ : *body_;
    const Head& head = next_head_ ? *next_head_ : *policy_head_;
    const auto v = compared(head, body.forward(embed(successors.flatten(0, 1)), fused()));
    const auto present = successors.select(3, 0).select(2, 0).ne(0).cumprod(1);
    out.logits = (scale() * (u * v.view({-1, S_, v.size(1)})).sum(2)).masked_fill(present == 0, 0);
    return out;
  }

  bool fused() const { return own_.fused_layers && !AtenOnly::on(); }
  at::Tensor embed(const at::Tensor& goals) const { return embedder_->forward(goals, fused()); }
  at::Tensor value(const at::Tensor& hidden) const {
    // values are in f32, whatever the layers before them compute in
    const auto features = critic_->forward(hidden, fused()).to(at::kFloat);
    const WithoutAutocast exact(features.device());
    return value_head_->forward(features);
  }
  at::Tensor compared(const Head& head, const at::Tensor& hidden) const {
    // and so are logits, which are sums over these
    const auto x = head.forward(hidden, fused()).to(at::kFloat);
    return own_.dot == DotScale::l2 ? x / x.norm(2, {1}, true).clamp_min(1e-12) : x;
  }
  double scale() const {
    if (own_.dot == DotScale::l2) return 1 / own_.temperature;
    return own_.dot == DotScale::sqrt ? 1 / std::sqrt(double(own_.embedding)) : 1;
  }

  const Options own_;
  size_t state_, successors_;  ///< columns
  int64_t S_;
  std::shared_ptr<GoalEmbedder> embedder_;
  std::shared_ptr<Body> body_, next_body_, critic_body_;  ///< null: body_ takes its place
  std::shared_ptr<Head> policy_head_, next_head_, critic_;
  std::shared_ptr<ValueHead> value_head_;
};

}  // namespace

NetworkEntry entry() {
  return {
      .name = "proof",
      .summary = "products of a state with its successors, of which each row has another number",
      .needs = "columns state [A, 3] and successors [S, A, 3] of tokens, and an action of S",
      .suits = suits,
      .own = own_settings<Options>(),
      .make = [](const NetworkOptions& options, const NetworkContext& context,
                 Initializer init) -> std::shared_ptr<ActorCritic> {
        return std::make_shared<ProofNetwork>(options, context, init);
      }};
}

}  // namespace maglev::networks::proof
