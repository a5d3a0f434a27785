// Fully connected layers on everything an environment shows, side by side. On a processor they run
// on panels.

#include "engine/nn/trunk_network.h"

namespace maglev::networks::mlp {

NetworkEntry entry() {
  return {.name = "mlp",
          .summary = "fully connected layers",
          .suits =
              [](const EnvSpec& spec) {
                return shows_image(spec) || shows_tokens(spec) ? Suits::yes : Suits::best;
              },
          .make = [](const NetworkOptions& options, const NetworkContext& context,
                     Initializer init) -> std::shared_ptr<ActorCritic> {
            const auto trunk = [&](const Trunk::Shape& shape, Initializer& init) {
              return std::make_shared<DenseTrunk>(shape, options.hidden, options.nonlinearity(),
                                                  init);
            };
            return std::make_shared<TrunkNetwork>(context.spec, options, init, trunk);
          }};
}

}  // namespace maglev::networks::mlp
