// Fully connected layers with residual blocks behind them (He et al., "Deep residual learning for
// image recognition", 2016): a network that differs from others in its layers alone, and the one
// docs/adding_a_network.md walks through.

#include <ATen/ATen.h>

#include "engine/nn/linear.h"
#include "engine/nn/trunk_network.h"

namespace maglev::networks::residual {
namespace {

struct Options {
  int64_t blocks = 1;

  void describe(OptionTable& t) {
    t.add("blocks", blocks, "residual blocks behind each fully connected layer",
          {.min = 0, .max = 100});
  }
};

/// Everything observed side by side; then for each layer x = f(W x + b), and for each of its blocks
/// x = x + V f(U x + c) + d.
class ResidualTrunk : public Trunk {
 public:
  ResidualTrunk(const Shape& shape, const NetworkOptions& options, Initializer& init)
      : f_(options.nonlinearity()), features_(shape.elements()) {
    for (int64_t units : options.hidden) {
      const std::string name = "fc" + std::to_string(stages_.size());
      Stage stage{add_layer(name, {units, features_}, init), {}};
      for (int64_t b = 0; b < options.own_as<Options>().blocks; ++b) {
        const std::string block = name + "_block" + std::to_string(b);
        stage.blocks.push_back({add_layer(block + "_in", {units, units}, init),
                                add_layer(block + "_out", {units, units}, init)});
      }
      stages_.push_back(std::move(stage));
      features_ = units;
    }
  }

  at::Tensor forward(const NetInput& input, const at::Tensor& extra) override {
    auto x = side_by_side(input, extra);
    for (const auto& stage : stages_) {
      x = activate(through(stage.first, x), f_);
      for (const auto& block : stage.blocks)
        x = x + through(block.out, activate(through(block.in, x), f_));
      input.noted(x);
    }
    return x;
  }

  int64_t features() const override { return features_; }

 private:
  struct Block {
    Layer in, out;
  };
  struct Stage {
    Layer first;
    std::vector<Block> blocks;
  };
  static at::Tensor through(const Layer& layer, const at::Tensor& x) {
    return linear(x, layer.weight, layer.bias);
  }

  Nonlinearity f_;
  int64_t features_;
  std::vector<Stage> stages_;
};

}  // namespace

NetworkEntry entry() {
  return {.name = "residual",
          .summary = "fully connected layers with residual blocks behind them",
          .suits = [](const EnvSpec&) { return Suits::yes; },
          .own = own_settings<Options>(),
          .make = [](const NetworkOptions& options, const NetworkContext& context,
                     Initializer init) -> std::shared_ptr<ActorCritic> {
            return std::make_shared<TrunkNetwork>(
                context.spec, options, init, [&](const Trunk::Shape& shape, Initializer& init) {
                  return std::make_shared<ResidualTrunk>(shape, options, init);
                });
          }};
}

}  // namespace maglev::networks::residual
