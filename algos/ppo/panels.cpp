#include "algos/ppo/panels.h"

#include "algos/ppo/device_panels.h"
#include "algos/ppo/host_panels.h"
#include "base/simd/pairs.h"

namespace maglev::ppo {

void LossColumns::fetch(const int64_t* index, int64_t rows) const {
  for (const float* column : {old_log_prob, advantage, target, valid, old_value})
    for (int64_t r = 0; column && r < rows; ++r) __builtin_prefetch(column + index[r]);
}

bool pairs_suit(const AlgoContext& context) {
  return context.precision == Precision::bf16 && context.device.is_cpu() &&
         pair_products_available();
}

bool Panels::suit(const Options& options, const AlgoContext& context, const ActorCritic& network) {
  if (!options.fused) return false;
  if (context.precision != Precision::fp32 && !pairs_suit(context)) return false;
  if (!PanelNetwork::obstacle(network, context.spec).empty()) return false;
  if (network.memory_size() > 0)
    return context.device.is_cpu() && context.precision == Precision::fp32;
  return !context.device.is_cuda() || DevicePanels::suit(network, context.spec);
}

std::unique_ptr<Panels> Panels::make(const AlgoContext& context, const ActorCritic& network,
                                     const FlatParams& params) {
  if (context.device.is_cuda()) return std::make_unique<DevicePanels>(context, network, params);
  return std::make_unique<HostPanels>(network, params, context);
}

PanelSizes Panels::sizes(at::Device device) {
  if (device.is_cuda()) return {.rows = kTileRows, .lanes = kMostTileBlocks};
  // however many threads there are
  return {.rows = kPanelRows, .lanes = 16};
}

}  // namespace maglev::ppo
