#include "algos/ppo/sizes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/ppo/panels.h"
#include "algos/ppo/policy.h"
#include "base/core/error.h"
#include "base/simd/panel.h"
#include "kernels/gru_scan/gru_scan.h"

namespace maglev::ppo {
namespace {

// multiply-adds a shard should have, so that its operations outweigh their dispatch and what is
// done once a shard with all weights: gradients set to zero, made, added
constexpr int64_t kShardWork = 64'000'000;
// the same of a block that acts, which makes no gradients
constexpr int64_t kBlockWork = 16'000'000;
// and for each weight, so that reading it from beyond a core's own cache counts little: measured
// with Atari's network, whose 8 rows take 2.2 ms, 4 take 1.5, 2 take 1.0 and one 0.7
constexpr int64_t kReadWork = 24;
// a library computes one row otherwise than several
constexpr int64_t kFewestRows = 2;
// rows of a product that a shard has where a row costs this many multiply-adds, so that reading
// weights counts little; and the least rows of a shard, of these and of others
constexpr int64_t kLargeNetwork = 1'000'000, kLargeShard = 512;
constexpr int64_t kLeastLargeShard = 128, kLeastShard = 64;
// fewest rows of a shard that are advised for more threads; of Atari's network a row takes 1.2
// times as long in shards of 32 as in shards of 128
constexpr int64_t kLeastAdvised = 16;
// rows act gets at once, where threads share them; on panels with a memory, whose steps are several
// times the work, as many as fill a vector of every kind
constexpr int64_t kLeastBlock = 64, kMostBlock = 256, kMemoryBlock = 16;

// kSequencesTogether: sequences of a shard, at most, unless a panel holds more: a few rows share
// what is read of a cell's weights, and many small shards keep threads busy. kCellShares: tasks
// (shards x cells) a minibatch is cut into at least, as long as a shard keeps one sequence per cell
constexpr int64_t kSequencesTogether = 4, kCellShares = 4;

// share of the multiply-add peak that products of layers reach: on panels, in shards of networks
// with convolutions, whose layers are kernels of ours, and by a library; fitted (docs/planning.md)
constexpr double kPanelReach = 0.85, kShardReach = 0.6, kLibraryReach = 0.3;
// parameters, moments and gradients of so many bytes stay in caches from one minibatch to the next
constexpr double kCached = 1 << 20;
// blocks handed to threads for a minibatch; kernels for a time step, minibatch, epoch and iteration
// of a device (docs/iteration.md), and what a minibatch off panels launches
constexpr double kHandOffs = 4;
// what a time step of a block costs beside its rows, of handing work to a thread
constexpr double kBlockStep = 0.1;
constexpr double kStepLaunches = 2, kMinibatchLaunches = 7, kEpochLaunches = 1, kLaunches = 11;
constexpr double kLayersLaunches = 120;
// kernels of a recurrent cell, there and back: weights transposed, a scan and one back, what its
// weights get (kernels/gru_scan); of a wide one at each step, each behind the one before, its
// product and what that is added to, its gates, and the way back through these
constexpr double kRecallLaunches = 5;

// rows that are tried out at once: more are as fast, one by one, and take memory
constexpr int64_t kMostTried = 1024;
// pieces of rows that were seen whose cost is averaged
constexpr int64_t kCounted = 8;

std::shared_ptr<ActorCritic> unmade(const Options& o, const AlgoContext& context) {
  return make_network(o.network, network_context(context), Initializer::shapes());
}

int64_t parameter_count(const ActorCritic& network) {
  int64_t count = 0;
  for (const auto& p : network.parameters()) count += p.numel();
  return count;
}

/// Rows that pieces of work take at once, of those that were seen: each piece has other ones.
class SeenRows {
 public:
  /// `seen` is AlgoContext's, not empty.
  explicit SeenRows(const std::vector<at::Tensor>& seen) : seen_(seen) {
    at::Generator order = at::make_generator<at::CPUGeneratorImpl>(uint64_t(1));
    drawn_ = at::randperm(seen[0].size(0) * seen[0].size(1), order);
  }

  /// So many rows, of one time step or `drawn` from all of them; where there are fewer, some again.
  std::vector<at::Tensor> next(int64_t rows, bool drawn) {
    const int64_t piece = turn_++, steps = seen_[0].size(0), of_step = seen_[0].size(1);
    const at::Tensor place = at::arange(rows);
    const at::Tensor chosen = drawn
                                  ? drawn_.index_select(0, (piece * rows + place) % drawn_.size(0))
                                  : piece % steps * of_step + place % of_step;
    std::vector<at::Tensor> columns;
    for (const at::Tensor& column : seen_)
      columns.push_back(column.flatten(0, 1).index_select(0, chosen));
    return columns;
  }

 private:
  std::vector<at::Tensor> seen_;
  at::Tensor drawn_;  ///< numbers of all rows, in an order of chance
  int64_t turn_ = 0;
};

/// What so many rows at once cost on average: as the network says, or of rows that were seen.
RowCost cost_at_once(const ActorCritic& network, const AlgoContext& context, int64_t rows,
                     bool drawn) {
  if (context.seen.empty()) return network.cost();
  SeenRows seen(context.seen);
  RowCost mean = network.cost();
  mean.multiply_adds = 0, mean.outputs = 0;
  for (int64_t piece = 0; piece < kCounted; ++piece) {
    const RowCost cost = network.cost_of_rows(seen.next(rows, drawn));
    mean.multiply_adds += cost.multiply_adds, mean.outputs += cost.outputs;
  }
  mean.multiply_adds /= kCounted, mean.outputs /= kCounted;
  return mean;
}

/// Networks of these options, made once they are asked for, to see how long rows take.
class Tried {
 public:
  Tried(const Options& o, const AlgoContext& context) : options_(o), context_(context) {
    if (!context.seen.empty()) seen_.emplace(context.seen);
  }

  /// Takes so many rows, or kMostTried, through the layers, those that were seen or zeros; `learn`:
  /// and back. Returns their number.
  double forward(int64_t rows, bool learn) {
    // steps are acted one by one, and learned from in sequences, which are gone through in turn
    const int64_t L = learn ? std::min(kMostTried, options_.sequence_steps()) : 1;
    rows = std::max(L, std::min(rows, kMostTried) / L * L);
    if (!policy_) policy_ = std::make_unique<PpoPolicy>(options_, context_);
    at::AutoGradMode with_grad(learn);
    const std::vector<at::Tensor> obs = seen_ ? seen_->next(rows, /*drawn=*/learn) : zeros(rows);
    // behind an empty memory, where there is one
    Recall recall;
    if (policy_->remembers())
      recall = {policy_->initial_carry(rows / L).parts[0], at::zeros({L, rows / L}, at::kByte)};
    const auto out =
        policy_->forward(policy_->network(), obs, {.policy = true, .value = true}, &recall);
    if (learn) (out.logits.sum() + out.value.sum()).backward();
    return double(rows);
  }

 private:
  std::vector<at::Tensor> zeros(int64_t rows) const {
    std::vector<at::Tensor> obs;
    for (const ObsColumn& column : context_.spec.observations) {
      std::vector<int64_t> sizes{rows};
      sizes.insert(sizes.end(), column.shape.begin(), column.shape.end());
      obs.push_back(at::zeros(sizes, column.dtype == DType::u8 ? at::kByte : at::kFloat));
    }
    return obs;
  }

  Options options_;
  AlgoContext context_;
  std::optional<SeenRows> seen_;
  std::unique_ptr<PpoPolicy> policy_;
};

constexpr int64_t kF32 = 4;

// bytes of a number that layers leave: on a processor what bf16 keeps beyond panels was not fitted
int64_t rounded_bytes(const AlgoContext& context) {
  const bool low = context.precision == Precision::bf16 || context.precision == Precision::fp16;
  return low && context.device.is_cuda() ? 2 : kF32;
}

// bytes of `copies` of the outputs of a row that no convolution gives
int64_t dense_bytes(const RowCost& cost, int64_t copies, const AlgoContext& context) {
  const int64_t dense = cost.outputs - cost.convolved;
  const int64_t rounded = std::max<int64_t>(0, cost.rounded - cost.convolved);
  return copies * (kF32 * (dense - rounded) + rounded_bytes(context) * rounded);
}

// what is observed of a row, as panels load it
int64_t observed_bytes(const AlgoContext& context) {
  int64_t elements = 0;
  for (const auto& column : context.spec.observations) elements += column.elements();
  return kF32 * elements;
}

// bytes of what a pass keeps of a weight beside it: all of them, rounded
int64_t rounded_weights(const AlgoContext& context) {
  const int64_t bytes = rounded_bytes(context);
  return bytes < kF32 ? bytes : 0;
}

// rows of a shard that is cut for threads
int64_t thread_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  int64_t rows = o.shard_rows;
  const RowCost cost = network.cost();
  const int64_t work = cost.multiply_adds, batch = minibatch_rows(o, context);
  if (rows == 0)
    rows = work > kLargeNetwork ? std::max(kLeastLargeShard, kLargeShard / cost.uses)
                                : std::clamp<int64_t>(kShardWork / work, kLeastShard, 1024);
  rows = std::min(rows, std::max(kLeastShard, (batch + 1) / 2));
  // of whole sequences
  const auto whole = [L = o.sequence_steps()](int64_t r) { return (r + L - 1) / L * L; };
  if (o.shard_rows > 0) return whole(rows);
  // a minibatch's shards as even as can be: threads end together
  const int64_t shards = std::max<int64_t>(1, (batch + rows / 2) / rows);
  return whole((batch + shards - 1) / shards);
}

// recurrent cells: of policy and value together, or one each
int64_t cell_count(const Options& o, const ActorCritic& network) {
  return network.memory_size() > 0 ? network.memory_size() / o.network.memory : 0;
}

// rows of a shard on panels that is whole sequences, whose cells are gone through at once
int64_t sequence_shard(const Options& o, const AlgoContext& context, int64_t cells) {
  const int64_t L = o.sequence_steps(), sequences = minibatch_rows(o, context) / L;
  const int64_t most = std::max(kSequencesTogether, (kPanelRows + L - 1) / L);
  const int64_t least = std::min({cells, sequences, most});
  return L * std::clamp(sequences * cells / kCellShares, least, most);
}

}  // namespace

bool learns_on_panels(const Options& o, const AlgoContext& context) {
  return Panels::suit(o, context, *unmade(o, context));
}

int64_t scheduled_rows(const Options& o, const AlgoContext& context) {
  const int64_t update = std::max<int64_t>(1, o.rollout * context.rows * context.processes);
  // the last one ends at train.steps or behind it
  return std::max<int64_t>(1, (context.total_steps + update - 1) / update) * update;
}

int64_t minibatch_rows(const Options& o, const AlgoContext& context) {
  return o.minibatch == 0 ? o.rollout * context.rows : o.minibatch / context.processes;
}

int64_t shard_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  if (Panels::suit(o, context, network)) {
    const int64_t cells = cell_count(o, network);
    return cells > 0 ? sequence_shard(o, context, cells) : Panels::sizes(context.device).rows;
  }
  // off panels a device and the reference take a minibatch as a whole
  if (!o.fused || context.device.is_cuda()) return minibatch_rows(o, context);
  return thread_rows(o, context, network);
}

int64_t lane_count(const AlgoContext& context, int64_t minibatch, int64_t shard) {
  return std::min((minibatch + shard - 1) / shard, Panels::sizes(context.device).lanes);
}

int64_t panel_rows_at_once(const Options& o, const AlgoContext& context) {
  return std::max(minibatch_rows(o, context), (o.rollout + 1) * context.rows);
}

bool takes_pairs(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  return pairs_suit(context) && Panels::suit(o, context, network);
}

int64_t block_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  if (context.device.is_cuda()) return context.rows;
  if (Panels::suit(o, context, network))
    return network.memory_size() > 0 ? kMemoryBlock : Panels::sizes(context.device).rows;
  const int64_t work = network.cost().multiply_adds;
  const int64_t rows =
      work > kLargeNetwork ? kMostBlock : std::clamp(kBlockWork / work, kLeastBlock, kMostBlock);
  // a shard's memory is enough for it
  return std::min(rows, thread_rows(o, context, network));
}

int64_t least_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  if (context.device.is_cuda() || Panels::suit(o, context, network)) return kLeastBlockRows;
  // weights that each call rounds anew
  const bool low = context.precision == Precision::bf16 || context.precision == Precision::fp16;
  if (low && !network.rounds_weights()) return kLeastBlockRows;
  const int64_t worth = std::max(kBlockWork, kReadWork * parameter_count(network));
  return std::clamp(worth / network.cost().multiply_adds, kFewestRows, kLeastBlockRows);
}

int64_t acting_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  const int64_t most = block_rows(o, context, network);
  return context.device.is_cuda() ? most
                                  : maglev::block_rows(most, context.rows, context.spec.agents,
                                                       least_rows(o, context, network));
}

std::string for_more_threads(const Options& o, const AlgoContext& context,
                             const ActorCritic& network) {
  if (!o.fused || context.device.is_cuda() || !context.pool || Panels::suit(o, context, network))
    return "";
  const int64_t batch = minibatch_rows(o, context);
  const int64_t threads =
      std::min(int64_t(context.pool->threads()), Panels::sizes(context.device).lanes);
  Options finer = o;
  finer.shard_rows = std::max(kLeastAdvised, (batch + threads - 1) / threads);
  // whole sequences may be no smaller
  const bool helps = shard_rows(finer, context, network) < shard_rows(o, context, network);
  return helps ? "ppo.shard_rows=" + std::to_string(finer.shard_rows) : "";
}

DataPlan planned_data(const Options& o, const AlgoContext& context) {
  o.expect_shares(context.rows, context.processes);
  const size_t heads = context.spec.action.heads.size();
  if (context.device.is_cuda() && heads > size_t(kMostDeviceHeads))
    throw Error("[ppo] on a GPU an action has at most " + std::to_string(kMostDeviceHeads) +
                " categorical heads, this environment's has " + std::to_string(heads) +
                "; use device=cpu");
  DataPlan plan;
  plan.collect_steps = o.rollout;
  const auto network = unmade(o, context);
  plan.columns = {{.name = "log_prob"}, {.name = "value", .has_last = true}};
  if (network->memory_size() > 0)
    plan.columns.push_back({.name = "memory", .shape = {network->memory_size()}});
  plan.block_rows = block_rows(o, context, *network);
  plan.least_rows = least_rows(o, context, *network);
  plan.for_more_threads = for_more_threads(o, context, *network);
  plan.shares = true;
  plan.precisions = {Precision::bf16, Precision::fp16};
  plan.capturable = context.device.is_cuda();
  return plan;
}

std::vector<MemoryPart> planned_memory(const Options& o, const AlgoContext& context) {
  const auto made = unmade(o, context);
  const ActorCritic& network = *made;
  const int64_t parameters = parameter_count(network);
  const int64_t shard = shard_rows(o, context, network);
  const int64_t lanes = lane_count(context, minibatch_rows(o, context), shard);
  // at work at once; each row keeps what its layers give, its gradients and what fused layers add
  const int64_t threads = context.pool ? context.pool->threads() : 1;
  const bool panels = Panels::suit(o, context, network);
  const bool sequences = panels && network.memory_size() > 0;
  int64_t working = sequences ? lanes : std::min(threads, lanes);
  if (context.device.is_cuda())
    working = panels ? lane_count(context, panel_rows_at_once(o, context), shard) : 1;
  // advantages, returns, valid, targets, old values, errors; the permutation
  int64_t row = 6 * kF32 + 8;
  // with others, columns of all processes that statistics are taken of
  if (context.processes > 1) row += context.processes * (o.normalize_reward ? 12 : 4) * kF32;
  // what convolutions leave, with what their kernels work in; fitted
  constexpr double kConvolved = 1.12;
  const RowCost cost = network.cost();
  const auto images = [&](int64_t numbers) {
    return rounded_bytes(context) * int64_t(kConvolved * double(numbers));
  };
  // in pairs each weight twice, straight and turned, and each activation, both ways
  const int64_t pairs = takes_pairs(o, context, network) ? 1 : 0;
  // whole sequences fill panels that keep what is observed, and have their gradients where what they
  // are of was; threads act beside them
  const int64_t copies = sequences ? 2 : 3 + pairs;
  const int64_t kept =
      dense_bytes(cost, copies, context) + (sequences ? observed_bytes(context) : 0);
  const int64_t rows = sequences ? (shard + kPanelRows - 1) / kPanelRows * kPanelRows : shard;
  const int64_t acting = sequences ? threads * kPanelRows * kept : 0;
  // more threads may act for few rows than learn
  const int64_t block = acting_rows(o, context, network);
  const int64_t acting_threads = std::min(threads, (context.rows + block - 1) / block);
  const int64_t acting_alone =
      panels
          ? 0
          : acting_threads * (kF32 * cost.scratch + block * (dense_bytes(cost, 1, context) +
                                                             images(cost.seen + cost.convolved)));
  // on the way back, through convolutions or the layer behind them
  const int64_t back = std::max(kF32 * cost.scratch + rows * images(cost.passing),
                                kF32 * (cost.widest + rows * cost.returned));
  std::vector<MemoryPart> parts{
      {"parameters and optimiser", (3 + pairs) * kF32 * parameters, 3 * kF32 * parameters},
      // and one rounded, where others add it
      {"gradients", (lanes * kF32 + (context.processes > 1 ? 2 : 0)) * parameters},
      {"activations",
       std::max(acting + working * (rows * (kept + images(cost.seen + cost.convolved)) + back),
                acting_alone)},
      {"rounded weights", rounded_weights(context) * parameters},
      {"advantages and targets", o.rollout * context.rows * row}};
  // the policy it is held by; rewards, drift, valid
  if (o.leash > 0) {
    int64_t leash = kF32 * 3 * o.rollout * context.rows;
    AlgoContext exact = context;
    exact.precision = Precision::fp32;
    for (const MemoryPart& part : planned_policy_memory(o, exact)) leash += part.bytes;
    parts.push_back({"leash", leash});
  }
  return parts;
}

std::vector<MemoryPart> planned_policy_memory(const Options& o, const AlgoContext& context) {
  const auto made = unmade(o, context);
  const ActorCritic& network = *made;
  const int64_t parameters = parameter_count(network);
  // a thread acts for a block of rows at a time
  const int64_t threads = context.pool && !context.device.is_cuda() ? context.pool->threads() : 1;
  const int64_t pairs = takes_pairs(o, context, network) ? 1 : 0;
  const bool sequences = network.memory_size() > 0 && Panels::suit(o, context, network);
  const int64_t rows = sequences ? kPanelRows : block_rows(o, context, network);
  const int64_t copies = sequences ? 2 : 1 + pairs;
  const RowCost cost = network.cost();
  const int64_t row = dense_bytes(cost, copies, context) +
                      rounded_bytes(context) * copies * cost.convolved +
                      (sequences ? observed_bytes(context) : 0);
  return {{"parameters", (1 + pairs) * kF32 * parameters},
          {"rounded weights", rounded_weights(context) * parameters},
          {"activations", threads * (kF32 * cost.scratch + rows * row)}};
}

std::vector<StageWork> planned_work(const Options& o, const AlgoContext& context) {
  const auto made = unmade(o, context);
  const ActorCritic& network = *made;
  const bool device = context.device.is_cuda(), panels = Panels::suit(o, context, network);
  const double rows = double(o.rollout * context.rows), epochs = double(o.epochs);
  const double parameters = double(parameter_count(network));
  const int64_t minibatch = minibatch_rows(o, context), shard = shard_rows(o, context, network);
  const double minibatches = epochs * std::ceil(rows / double(minibatch));
  const double block = double(acting_rows(o, context, network));
  // of a row that acts, and of one that is learned from
  const RowCost acts = cost_at_once(network, context, int64_t(block), /*drawn=*/false);
  const RowCost learns = cost_at_once(network, context, shard, /*drawn=*/true);
  const double forward = 2 * double(acts.multiply_adds), outputs = double(acts.outputs);
  const double learning = 2 * double(learns.multiply_adds);
  const double lanes = double(lane_count(context, minibatch, shard));
  // weights that a row uses several times are convolutions
  const double reach = panels                       ? kPanelReach
                       : forward > 2.1 * parameters ? kShardReach
                                                    : kLibraryReach;
  // on panels act leaves values to the whole rollout's pass, unless they come with a memory; a shared
  // trunk is then gone through twice
  const int64_t memory = network.memory_size();
  const bool leaves = panels && memory == 0;
  const double acting = !leaves || o.network.shared ? 1 : 0.5;
  const double valuing = leaves ? acting : 1 / double(o.rollout);
  // a row of the rollout: advantages, returns, errors and their moments, some of it twice
  constexpr double kAdvantageBytes = 64, kAdvantageElements = 6;
  // gradients of every lane are added, then parameters and moments read and written
  const double optimiser = 4 * parameters * (2 * lanes + 6);
  const bool cached = 4 * parameters * (lanes + 3) <= kCached;
  const double off_panels = panels ? 0 : kLayersLaunches;
  // a minibatch's sequences side by side, one step after another
  const double cells = double(cell_count(o, network));
  // on panels a minibatch's shards are loaded, then their cells gone through apart, there and back
  const bool sequences = panels && cells > 0;
  const double passes = sequences ? 4 : 1, apart = sequences ? cells : 1;
  const bool wide = o.network.memory > kMostGruScanUnits || !o.network.fused_memory;
  const double recalled = kRecallLaunches * cells * double(wide ? o.sequence_steps() : 1);
  // weights that others have stepped, lanes that others add up and clear
  const double threads = context.pool ? double(context.pool->threads()) : 1;
  // of a library's layers nobody knows beforehand what they reach: the network itself is tried; on
  // words that were seen alone, of which zeros are none and take no time
  std::function<double()> acted, learned;
  const bool numbers = std::ranges::none_of(
      context.spec.observations, [](const ObsColumn& c) { return c.dtype == DType::i32; });
  if (!device && !panels && (numbers || !context.seen.empty())) {
    const auto tried = std::make_shared<Tried>(o, context);
    acted = [=] { return tried->forward(int64_t(block), /*learn=*/false) * forward; };
    learned = [=] { return 3 * tried->forward(shard, /*learn=*/true) * learning; };
  }
  return {{.name = "act",
           .flops = acting * forward * rows,
           .reach = reach,
           .elements = acting * outputs * rows,
           .trial = acted,
           .launches =
               double(o.rollout) * (device ? kStepLaunches / 2 + off_panels / 4
                                           : kBlockStep * std::ceil(double(context.rows) / block)),
           .threads = std::ceil(double(context.rows) / block)},
          {.name = "advantages",
           .flops = valuing * forward * rows,
           .reach = reach,
           .elements = (valuing * outputs + kAdvantageElements) * rows,
           .bytes = kAdvantageBytes * rows,
           .launches = device ? kLaunches : kHandOffs,
           .threads = std::ceil((rows + double(context.rows)) / block)},
          {.name = "update",
           .flops = 3 * learning * rows * epochs,
           .reach = reach,
           .elements = 2 * double(learns.outputs) * rows * epochs,
           .trial = learned,
           .shared = 4 * parameters * (1 + 2 * lanes / threads) * minibatches,
           .shared_block = 4 * parameters,
           .launches = device ? (kMinibatchLaunches - 3 + off_panels + recalled) * minibatches +
                                    kEpochLaunches * epochs
                              : kHandOffs / 2 * passes * minibatches,
           .threads = apart * std::ceil(double(minibatch) / double(shard))},
          {.name = "optimiser",
           .elements = 2 * parameters * minibatches,
           .bytes = cached ? 0 : optimiser * minibatches,
           .launches = (device ? 3 : kHandOffs / 2) * minibatches}};
}

}  // namespace maglev::ppo
