// A network that was written in Python: the operations that torch.export found in a module's
// forward, from what the encoder gives to the policy's outputs, the value and what it remembers
// (graph.h). Its last layers are the heads here, so that PopArt, Muon and reduced precision find them
// where other networks have theirs.

#include <array>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"
#include "engine/nn/autocast.h"
#include "engine/nn/linear.h"
#include "engine/nn/network.h"
#include "networks/exported/computation.h"
#include "networks/exported/dense.h"

namespace maglev::networks::exported {
namespace {

enum class Weights { given, drawn };
constexpr auto names_of(Weights) { return std::array{"given", "drawn"}; }

struct Options {
  std::string file;
  Weights weights = Weights::given;

  void describe(OptionTable& t) {
    t.add("file", file,
          "a network that maglev.save_network wrote; a new run copies it into its folder");
    t.add("weights", weights,
          "what a run begins with: those of the file, for each seed the same, or matrices that are "
          "drawn by the run's seed");
  }
};

// a tensor under a module's own names, "body.0.weight"
void add_tensor(torch::nn::Module& root, const std::string& name, const at::Tensor& tensor,
                bool learned) {
  torch::nn::Module* owner = &root;
  size_t begin = 0;
  for (size_t dot; (dot = name.find('.', begin)) != name.npos; begin = dot + 1) {
    const std::string part = name.substr(begin, dot - begin);
    auto children = owner->named_children();
    const auto* there = children.find(part);
    owner = there ? there->get()
                  : owner->register_module(part, std::make_shared<torch::nn::Module>()).get();
  }
  const std::string leaf = name.substr(begin);
  if (learned) owner->register_parameter(leaf, tensor);
  else owner->register_buffer(leaf, tensor);
}

// whether all that is kept of `before` for gradients is what `next` makes of it
bool takes_place(const Node& next, const Node& before) {
  if (!next.operation) return false;
  const std::string& name = next.operation->schema().name();
  if (name != "aten::tanh" && name != "aten::relu" && name != "aten::sigmoid") return false;
  const Operand& taken = next.arguments[0].parts[0];
  return taken.last && taken.slot == before.slot;
}

// in f32, whatever the layers before computed in
template <class Head>
at::Tensor in_f32(const at::Tensor& features, const Head& head) {
  const WithoutAutocast exact(features.device());
  return head(features.to(at::kFloat));
}

class Exported : public ActorCritic {
 public:
  Exported(const NetworkContext& context, const NetworkOptions& options, Initializer init)
      : computation_(context.original
                         ? static_cast<const Exported&>(*context.original).computation_
                         : std::make_shared<Computation>(options.own_as<Options>().file)),
        graph_(computation_->graph()),
        weights_(graph_.tensors(init)) {
    const EnvSpec& spec = context.spec;
    encoder_ =
        register_module("encoder", std::make_shared<ObsEncoder>(spec, options.normalize_obs));
    expect_inputs(options.memory);
    const bool draws = options.own_as<Options>().weights == Weights::drawn;
    const int64_t outputs = spec.action.discrete() ? spec.action.categories() : spec.action.dims();
    add_log_std(spec, options, outputs);
    add_layers(draws, init);
    add_value_head(options, draws, init);
    expect_policy(outputs);
    // one that is only asked for its sizes computes nothing, and a replica's was tried
    if (!context.original && !weights_.front().is_meta())
      computation_->try_out(weights_, policy_weight_.defined() ? policy_weight_.size(1) : outputs,
                            value_head_->weight().size(1));
  }

  NetworkOutput forward(const std::vector<at::Tensor>& columns, Want want) override {
    return outputs(encoder_->forward(columns, want.value), want, nullptr, nullptr);
  }
  int64_t memory_size() const override { return graph_.memory_size(); }
  NetworkOutput forward_through(const std::vector<at::Tensor>& columns, Want want,
                                Recall& recall) override {
    return outputs(encoder_->forward(columns, want.value), want, &recall, nullptr);
  }
  std::optional<EncodedObs> encode(const std::vector<at::Tensor>& columns) const override {
    return encoder_->forward(columns, /*want_privileged=*/true);
  }
  NetworkOutput look(const EncodedObs& seen, std::vector<LayerOutput>* layers,
                     Recall* recall) override {
    const NetworkOutput out = outputs(seen, {}, recall, layers);
    // what the next step begins with
    if (layers && recall) layers->push_back({"memory", recall->state});
    return out;
  }
  ValueHead& value_head() const override { return *value_head_; }
  at::Tensor log_std() const override { return log_std_; }
  void absorb(const std::vector<at::Tensor>& columns, const at::Tensor& is_first, int64_t T,
              Group* group) override {
    encoder_->absorb(columns, is_first, T, group);
  }

  RowCost cost() const override {
    RowCost cost = cost_of(value_head_->parameters());
    if (policy_weight_.defined()) cost = cost + cost_of({policy_weight_, policy_bias_});
    const auto& nodes = computation_->whole({}).nodes();
    for (size_t n = 0; n < nodes.size(); ++n) {
      const Node& node = nodes[n];
      cost.multiply_adds += node.row * node.per_number;
      if (n + 1 == nodes.size() || !takes_place(nodes[n + 1], node)) cost.outputs += node.row;
      if (!node.convolves) continue;
      cost.convolved += node.row;
      cost.passing = std::max(cost.passing, 2 * node.row);
    }
    // what a step begins with, what is remembered of it, and all steps' side by side
    cost.outputs += 3 * memory_size();
    if (cost.convolved > 0)
      cost.seen = encoder_->channels() * encoder_->height() * encoder_->width();
    return cost;
  }

  std::string part_of(const std::string& parameter) const override {
    return parameter.starts_with("value") ? "value" : "policy";
  }
  std::optional<DenseStacks> dense() const override {
    if (encoder_->channels() > 0 || encoder_->privileged_size() > 0) return std::nullopt;
    auto stacks = dense_layers(graph_, weights_);
    if (!stacks) return std::nullopt;
    stacks->policy.push_back({policy_weight_, policy_bias_, Activation::none});
    stacks->value.push_back({value_head_->weight(), value_head_->bias(), Activation::none});
    stacks->norms = encoder_->norms();
    return stacks;
  }

 private:
  const at::Tensor& tensor(int64_t weight) const { return weights_[size_t(weight)]; }

  void expect_inputs(int64_t memory) const {
    if (graph_.memory_size() > 0 && memory != graph_.memory_size())
      throw Error("[" + graph_.path + "] remembers " + std::to_string(graph_.memory_size()) +
                  " numbers a row, ppo.network.memory is " + std::to_string(memory) +
                  "; give ppo.network.memory=" + std::to_string(graph_.memory_size()));
    const std::array<std::vector<int64_t>, 3> shown{
        std::vector<int64_t>{encoder_->channels(), encoder_->height(), encoder_->width()},
        std::vector<int64_t>{encoder_->vector_size()},
        std::vector<int64_t>{encoder_->privileged_size()}};
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const Input& input = graph_.inputs[i];
      if (input.part == Part::memory) continue;
      const auto& there = shown[size_t(input.part)];
      const auto text = [](const std::vector<int64_t>& shape) {
        return c10::str(at::IntArrayRef(shape));
      };
      const std::string part = names_of(Part())[size_t(input.part)];
      if (input.shape != there)
        throw graph_.wrong("it takes rows of " + part + " " + text(input.shape) +
                           ", this environment shows " + (there[0] == 0 ? "none" : text(there)));
      if (input.part == Part::privileged &&
          computation_->whole({.policy = true, .value = false}).takes(int64_t(i)))
        throw graph_.wrong("its policy, or what it remembers, sees what is for the value alone, " +
                           input.name);
    }
  }

  void add_log_std(const EnvSpec& spec, const NetworkOptions& options, int64_t dims) {
    if (spec.action.discrete()) return;
    at::Tensor made = at::full({dims}, options.log_std);
    if (graph_.log_std >= 0) {
      made = tensor(graph_.log_std);
      if (made.numel() != dims)
        throw graph_.wrong("log_std has " + std::to_string(made.numel()) +
                           " numbers, actions here have " + std::to_string(dims));
      made = made.reshape({dims});
    }
    log_std_ = register_parameter("log_std", made);
  }

  // those that the value alone needs apart, for they are clipped apart
  void add_layers(bool draws, Initializer& init) {
    auto policy = register_module("policy", std::make_shared<torch::nn::Module>());
    if (graph_.policy_head) add_policy_head(draws, init);
    auto value = register_module("value", std::make_shared<torch::nn::Module>());
    const Program &of_policy = computation_->whole({.policy = true, .value = false}),
                  &of_both = computation_->whole({});
    const auto add = [&](int64_t weight) {
      const bool learned = graph_.weights[size_t(weight)].learned;
      if (draws && learned && tensor(weight).dim() > 1)
        init.orthogonal(tensor(weight), std::sqrt(2.0));
      add_tensor(of_policy.needs(weight) ? *policy : *value,
                 graph_.weights[size_t(weight)].tensor.name, tensor(weight), learned);
    };
    for (int64_t weight : graph_.parameters)
      if (of_both.needs(weight)) add(weight);
    for (int64_t weight = 0; weight < int64_t(weights_.size()); ++weight)
      if (!graph_.weights[size_t(weight)].learned) add(weight);
  }

  void add_policy_head(bool draws, Initializer& init) {
    policy_weight_ = tensor(graph_.policy_head->weight);
    policy_bias_ = tensor(graph_.policy_head->bias);
    if (draws) init.orthogonal(policy_weight_, 0.01);
    const auto head = register_module("policy_head", std::make_shared<torch::nn::Module>());
    head->register_parameter("weight", policy_weight_);
    head->register_parameter("bias", policy_bias_);
  }

  void add_value_head(const NetworkOptions& options, bool draws, Initializer& init) {
    const at::Tensor &weight = tensor(graph_.value_head.weight),
                     &bias = tensor(graph_.value_head.bias);
    if (weight.size(0) != 1) throw graph_.wrong("its value is not one number a row");
    value_head_ = register_module("value_head", make_value_head(options.value_head, weight.size(1),
                                                                options.popart_beta, init));
    if (draws || weight.is_meta()) return;
    at::NoGradGuard no_grad;
    value_head_->weight().copy_(weight);
    value_head_->bias().copy_(bias);
  }

  void expect_policy(int64_t width) const {
    if (policy_weight_.defined() && policy_weight_.size(0) != width)
      throw graph_.wrong("its policy gives " + std::to_string(policy_weight_.size(0)) +
                         " numbers a row, this environment's actions want " +
                         std::to_string(width));
  }

  /// `recall`: where it remembers, else null.
  NetworkOutput outputs(const EncodedObs& seen, Want want, Recall* recall,
                        std::vector<LayerOutput>* layers) const {
    std::vector<c10::IValue> inputs;
    for (const Input& input : graph_.inputs)
      inputs.emplace_back(input.part == Part::image        ? seen.policy.image
                          : input.part == Part::vector     ? seen.policy.vector
                          : input.part == Part::privileged ? seen.privileged
                                                           : at::Tensor());
    const auto made = computation_->run(want, weights_, std::move(inputs), recall, layers);
    NetworkOutput out;
    if (want.policy && !policy_weight_.defined()) out.logits = made.front().to(at::kFloat);
    else if (want.policy)
      out.logits = in_f32(made.front(), [&](const at::Tensor& x) {
        return linear(x, policy_weight_, policy_bias_);
      });
    if (want.value)
      out.value = in_f32(made.back(), [&](const at::Tensor& x) { return value_head_->forward(x); });
    return out;
  }

  std::shared_ptr<Computation> computation_;  ///< also its replicas'
  const Graph& graph_;
  std::vector<at::Tensor> weights_;
  std::shared_ptr<ObsEncoder> encoder_;
  at::Tensor policy_weight_, policy_bias_, log_std_;  ///< of the policy undefined without a head
  std::shared_ptr<ValueHead> value_head_;
};

}  // namespace

NetworkEntry entry() {
  return {
      .name = "exported",
      .summary = "one that was written in Python (network.exported.file)",
      .suits = [](const EnvSpec&) { return Suits::yes; },
      .own = own_settings<Options>(),
      .file = "file",
      .computes =
          [](const NetworkOptions& options) { return Graph(options.own_as<Options>().file).hash; },
      .make = [](const NetworkOptions& options, const NetworkContext& context,
                 Initializer init) -> std::shared_ptr<ActorCritic> {
        if (options.own_as<Options>().file.empty())
          throw Error(
              "[network] the kind exported needs network.exported.file, which "
              "maglev.save_network writes of a torch.nn.Module");
        return std::make_shared<Exported>(context, options, init);
      }};
}

}  // namespace maglev::networks::exported
