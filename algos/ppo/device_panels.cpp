#include "algos/ppo/device_panels.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace maglev::ppo {
namespace {

int64_t blocks_for(int64_t rows) {
  return std::min(kMostTileBlocks, (rows + kTileRows - 1) / kTileRows);
}

TileNetwork::Stack tile_stack(const PanelNetwork::Stack& of) {
  return {.layers = of.layers, .weight_at = of.weight_at, .bias_at = of.bias_at};
}

ActorCriticArgs args_of(const PanelNetwork& network) {
  TileNetwork tiles{.shared = tile_stack(network.shared_layers()),
                    .policy = tile_stack(network.policy_layers()),
                    .value = tile_stack(network.value_layers()),
                    .columns = {}};
  for (const auto& c : network.columns())
    tiles.columns.push_back({.dtype = c.dtype,
                             .elements = c.elements,
                             .privileged = c.privileged,
                             .mean = c.mean,
                             .var = c.var,
                             .clip = c.clip});
  return lay_out(tiles);
}

}  // namespace

bool DevicePanels::suit(const ActorCritic& network, const EnvSpec& spec) {
  if (spec.action.dims() > kMostDeviceHeads) return false;
  const DenseStacks stacks = *network.dense();
  for (const auto* stack : {&stacks.shared, &stacks.policy, &stacks.value}) {
    if (int64_t(stack->size()) > kMostTileLayers) return false;
    for (const auto& layer : *stack)
      if (layer.weight.size(0) > kMostTileWidth || layer.weight.size(1) > kMostTileWidth)
        return false;
  }
  return true;
}

DevicePanels::DevicePanels(const AlgoContext& context, const ActorCritic& network,
                           const FlatParams& params)
    : device_(context.device),
      action_(context.spec.action),
      network_(network, context.spec, params.data()),
      args_(args_of(network_)) {
  reserve_rows(context.rows);
  if (const auto log_std = network.log_std(); log_std.defined()) {
    log_std_ = log_std.const_data_ptr<float>();
    log_std_at_ = log_std_ - params.data().const_data_ptr<float>();
  }
}

void DevicePanels::reserve_rows(int64_t rows) {
  if (blocks_for(rows) <= args_.blocks) return;
  args_.blocks = blocks_for(rows);
  if (tile_is_shared(args_)) return;
  tiles_ =
      at::zeros({args_.blocks, args_.tile_floats}, at::TensorOptions(at::kFloat).device(device_));
  args_.tiles = tiles_.data_ptr<float>();
}

ActorCriticArgs DevicePanels::over(const std::vector<at::Tensor>& columns) const {
  ActorCriticArgs args = args_;
  for (size_t c = 0; c < network_.columns().size(); ++c)
    args.columns[c].rows =
        static_cast<const std::byte*>(columns[network_.columns()[c].index].const_data_ptr());
  return args;
}

PolicyPanel DevicePanels::policy(const at::Tensor& mask, int64_t rows) const {
  return {.heads = action_.heads.data(),
          .head_count = int64_t(action_.heads.size()),
          .dims = action_.dims(),
          .logits = nullptr,
          .stride = 0,
          .log_std = log_std_,
          .mask = mask.defined() ? mask.const_data_ptr<uint8_t>() : nullptr,
          .mask_width = action_.categories(),
          .rows = rows};
}

void DevicePanels::act(TimeStep& step, Carry&, ActMode mode, const ActKey& key) {
  const bool learning = !step.extra.empty();
  actor_critic_act(device_, over(step.obs),
                   {.policy = policy(step.mask, step.rows()),
                    .seed = key.seed,
                    .purpose = key.purpose,
                    .first_row = key.row_from(step.first),
                    .step = key.step,
                    .base = key.base,
                    .mean = mode == ActMode::mean,
                    .action_i32 = action_.discrete() ? step.action.data_ptr<int32_t>() : nullptr,
                    .action_f32 = action_.discrete() ? nullptr : step.action.data_ptr<float>(),
                    .log_prob = learning ? step.extra[log_prob_column].data_ptr<float>() : nullptr,
                    .index = key.rows,
                    .temperature = key.temperature});
}

void DevicePanels::values(const Batch& batch, at::Tensor& value) {
  actor_critic_values(device_, over(batch.obs), value.data_ptr<float>(), value.numel());
}

void DevicePanels::learn(const Batch& batch, const at::Tensor& index, const LossColumns& columns,
                         const PpoLossSettings& settings, const PpoLossScalars* scalars,
                         at::Tensor& grads, at::Tensor& figures) {
  const bool discrete = action_.discrete();
  // what lies in a panel the kernel knows itself
  PpoLossArgs loss{};
  loss.policy = policy(batch.mask, index.size(0));
  loss.index = index.const_data_ptr<int64_t>();
  loss.action_i32 = discrete ? batch.action.const_data_ptr<int32_t>() : nullptr;
  loss.action_f32 = discrete ? nullptr : batch.action.const_data_ptr<float>();
  loss.old_log_prob = columns.old_log_prob;
  loss.advantage = columns.advantage;
  loss.target = columns.target;
  loss.old_value = columns.old_value;
  loss.valid = columns.valid;
  loss.settings = settings;
  loss.scalars = scalars;
  actor_critic_learn(device_, over(batch.obs), loss,
                     {.lanes = grads.data_ptr<float>(),
                      .lane_stride = grads.size(1),
                      .count = grads.size(0),
                      .log_std = log_std_at_,
                      .figures = figures.data_ptr<double>()});
}

}  // namespace maglev::ppo
