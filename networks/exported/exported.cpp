// A network that was written in Python: the operations that torch.export found in a module's
// forward, from what the encoder gives to the policy's outputs and the value (graph.h). Its last
// layers are the heads here, so that PopArt, Muon and reduced precision find them where other
// networks have theirs.

#include <array>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"
#include "engine/nn/autocast.h"
#include "engine/nn/linear.h"
#include "engine/nn/network.h"
#include "networks/exported/dense.h"
#include "networks/exported/program.h"

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
void add_tensor(torch::nn::Module& root, const std::string& name, const Weight& weight) {
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
  if (weight.learned) owner->register_parameter(leaf, weight.value);
  else owner->register_buffer(leaf, weight.value);
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
  Exported(const EnvSpec& spec, const NetworkOptions& options, Initializer init)
      : graph_(options.own_as<Options>().file, init),
        policy_(graph_, {policy_slot()}),
        value_(graph_, {graph_.value_head.slot}),
        both_(graph_, {policy_slot(), graph_.value_head.slot}) {
    encoder_ =
        register_module("encoder", std::make_shared<ObsEncoder>(spec, options.normalize_obs));
    expect_inputs();
    const bool draws = options.own_as<Options>().weights == Weights::drawn;
    const int64_t outputs = spec.action.discrete() ? spec.action.categories() : spec.action.dims();
    add_log_std(spec, options, outputs);
    add_layers(draws, init);
    add_value_head(options, draws, init);
    if (!graph_.weights.begin()->second.value.is_meta()) try_out(outputs);
  }

  NetworkOutput forward(const std::vector<at::Tensor>& columns, Want want) override {
    return outputs(encoder_->forward(columns, want.value), want, nullptr);
  }
  std::optional<EncodedObs> encode(const std::vector<at::Tensor>& columns) const override {
    return encoder_->forward(columns, /*want_privileged=*/true);
  }
  NetworkOutput look(const EncodedObs& seen, std::vector<LayerOutput>* layers, Recall*) override {
    return outputs(seen, {}, layers);
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
    const auto& nodes = both_.nodes();
    for (size_t n = 0; n < nodes.size(); ++n) {
      const Node& node = nodes[n];
      int64_t per_number = 1;
      bool convolves = false;
      for (const std::string& name : node.weights) {
        const at::Tensor& weight = graph_.weight(name).value;
        if (weight.dim() < 2 || weight.size(0) == 0) continue;
        per_number = weight.numel() / weight.size(0);
        convolves = weight.dim() > 2;
      }
      cost.multiply_adds += node.row * per_number;
      if (n + 1 == nodes.size() || !takes_place(nodes[n + 1], node)) cost.outputs += node.row;
      if (!convolves) continue;
      cost.convolved += node.row;
      cost.passing = std::max(cost.passing, 2 * node.row);
    }
    if (cost.convolved > 0)
      cost.seen = encoder_->channels() * encoder_->height() * encoder_->width();
    return cost;
  }

  std::string part_of(const std::string& parameter) const override {
    return parameter.starts_with("value") ? "value" : "policy";
  }
  std::optional<DenseStacks> dense() const override {
    if (encoder_->channels() > 0 || encoder_->privileged_size() > 0) return std::nullopt;
    auto stacks = dense_layers(graph_);
    if (!stacks) return std::nullopt;
    stacks->policy.push_back({policy_weight_, policy_bias_, Activation::none});
    stacks->value.push_back({value_head_->weight(), value_head_->bias(), Activation::none});
    stacks->norms = encoder_->norms();
    return stacks;
  }

 private:
  int64_t policy_slot() const {
    return graph_.policy_head ? graph_.policy_head->slot : graph_.logits;
  }

  void expect_inputs() const {
    const std::array<std::vector<int64_t>, 3> shown{
        std::vector<int64_t>{encoder_->channels(), encoder_->height(), encoder_->width()},
        std::vector<int64_t>{encoder_->vector_size()},
        std::vector<int64_t>{encoder_->privileged_size()}};
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const Input& input = graph_.inputs[i];
      const auto& there = shown[size_t(input.part)];
      const auto text = [](const std::vector<int64_t>& shape) {
        return c10::str(at::IntArrayRef(shape));
      };
      const std::string part = names_of(Part())[size_t(input.part)];
      if (input.shape != there)
        throw graph_.wrong("it takes rows of " + part + " " + text(input.shape) +
                           ", this environment shows " + (there[0] == 0 ? "none" : text(there)));
      if (input.part == Part::privileged && policy_.needs_input(i))
        throw graph_.wrong("its policy sees what is for the value alone, " + input.name);
    }
  }

  void add_log_std(const EnvSpec& spec, const NetworkOptions& options, int64_t dims) {
    if (spec.action.discrete()) return;
    at::Tensor made = at::full({dims}, options.log_std);
    if (!graph_.log_std.empty()) {
      made = graph_.weight(graph_.log_std).value;
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
    const auto add = [&](const std::string& name, const Weight& weight) {
      if (draws && weight.learned && weight.value.dim() > 1)
        init.orthogonal(weight.value, std::sqrt(2.0));
      add_tensor(policy_.needs(name) ? *policy : *value, name, weight);
    };
    for (const std::string& name : graph_.parameters)
      if (both_.needs(name)) add(name, graph_.weight(name));
    for (const auto& [name, weight] : graph_.weights)
      if (!weight.learned) add(name, weight);
  }

  void add_policy_head(bool draws, Initializer& init) {
    policy_weight_ = graph_.weight(graph_.policy_head->weight).value;
    policy_bias_ = graph_.weight(graph_.policy_head->bias).value;
    if (draws) init.orthogonal(policy_weight_, 0.01);
    const auto head = register_module("policy_head", std::make_shared<torch::nn::Module>());
    head->register_parameter("weight", policy_weight_);
    head->register_parameter("bias", policy_bias_);
  }

  void add_value_head(const NetworkOptions& options, bool draws, Initializer& init) {
    const at::Tensor &weight = graph_.weight(graph_.value_head.weight).value,
                     &bias = graph_.weight(graph_.value_head.bias).value;
    if (weight.size(0) != 1) throw graph_.wrong("its value is not one number a row");
    value_head_ = register_module("value_head", make_value_head(options.value_head, weight.size(1),
                                                                options.popart_beta, init));
    if (draws || weight.is_meta()) return;
    at::NoGradGuard no_grad;
    value_head_->weight().copy_(weight);
    value_head_->bias().copy_(bias);
  }

  // on zeros of one row and of some: a file whose sizes do not hold is refused before it is trained
  void try_out(int64_t width) const {
    at::NoGradGuard no_grad;
    for (int64_t rows : {1, 3}) {
      std::vector<at::Tensor> inputs;
      for (const Input& input : graph_.inputs) {
        std::vector<int64_t> sizes{rows};
        sizes.insert(sizes.end(), input.shape.begin(), input.shape.end());
        const bool image = input.part == Part::image;
        inputs.push_back(
            at::zeros(sizes, at::TensorOptions(at::kFloat))
                .contiguous(image ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous));
      }
      const auto made = both_.try_out(graph_, inputs);
      const auto expect = [&](const char* what, const at::Tensor& x, int64_t columns) {
        if (x.sizes() != at::IntArrayRef{rows, columns})
          throw graph_.wrong(std::string(what) + " must be [" + std::to_string(rows) + ", " +
                             std::to_string(columns) + "] for as many rows, got " +
                             c10::str(x.sizes()));
      };
      const bool head = policy_weight_.defined();
      expect(head ? "what its last policy layer takes" : "its logits or means", made[0],
             head ? policy_weight_.size(1) : width);
      if (head && policy_weight_.size(0) != width)
        throw graph_.wrong("its policy gives " + std::to_string(policy_weight_.size(0)) +
                           " numbers a row, this environment's actions want " +
                           std::to_string(width));
      expect("what its last value layer takes", made[1], value_head_->weight().size(1));
    }
  }

  NetworkOutput outputs(const EncodedObs& seen, Want want, std::vector<LayerOutput>* layers) const {
    std::vector<at::Tensor> inputs;
    for (const Input& input : graph_.inputs)
      inputs.push_back(input.part == Part::image    ? seen.policy.image
                       : input.part == Part::vector ? seen.policy.vector
                                                    : seen.privileged);
    const Program& program = !want.value ? policy_ : want.policy ? both_ : value_;
    const auto made = program.run(inputs, layers);
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

  Graph graph_;
  Program policy_, value_, both_;
  std::shared_ptr<ObsEncoder> encoder_;
  at::Tensor policy_weight_, policy_bias_, log_std_;  ///< of the policy undefined without a head
  std::shared_ptr<ValueHead> value_head_;
};

}  // namespace

NetworkEntry entry() {
  return {.name = "exported",
          .summary = "one that was written in Python (network.exported.file)",
          .suits = [](const EnvSpec&) { return Suits::yes; },
          .own = own_settings<Options>(),
          .file = "file",
          .computes =
              [](const NetworkOptions& options) {
                return Graph(options.own_as<Options>().file, Initializer::shapes()).hash;
              },
          .make = [](const NetworkOptions& options, const NetworkContext& context,
                     Initializer init) -> std::shared_ptr<ActorCritic> {
            if (options.own_as<Options>().file.empty())
              throw Error(
                  "[network] the kind exported needs network.exported.file, which "
                  "maglev.save_network writes of a torch.nn.Module");
            return std::make_shared<Exported>(context.spec, options, init);
          }};
}

}  // namespace maglev::networks::exported
