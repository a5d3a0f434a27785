#include "engine/play/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/env/entry.h"
#include "base/trace/span.h"
#include "engine/data/rollout.h"
#include "engine/data/vec_env.h"
#include "engine/device/host_copy.h"
#include "engine/device/repeated_stage.h"
#include "engine/play/rivals.h"

namespace maglev {
namespace {

void summarise(EvalResult& result, const std::vector<double>& lengths) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), n = double(result.returns.size());
  result.episodes = int64_t(result.returns.size());
  result.return_mean = result.return_std = result.return_min = result.return_max =
      result.length_mean = nan;
  if (result.returns.empty()) return;
  double sum = 0, squares = 0, length = 0;
  for (double r : result.returns) sum += r;
  for (double l : lengths) length += l;
  result.return_mean = sum / n;
  result.length_mean = length / n;
  for (double r : result.returns) squares += (r - result.return_mean) * (r - result.return_mean);
  result.return_std = n > 1 ? std::sqrt(squares / (n - 1)) : 0;
  auto [low, high] = std::minmax_element(result.returns.begin(), result.returns.end());
  result.return_min = *low, result.return_max = *high;
}

}  // namespace

EvalResult evaluate(Player& player, const Game& game, const EvalOptions& options) {
  const at::Device device = game.placement.device;
  const auto begin = std::chrono::steady_clock::now();
  const int64_t N = options.envs > 0
                        ? options.envs
                        : std::min(kMostEvalEnvs, options.steps > 0 ? 64 : options.episodes);
  if (options.steps == 0 && options.episodes < 1)
    throw Error("[eval] needs at least 1 episode or 1 step, got " +
                std::to_string(options.episodes));
  VecEnv envs(game.env, game.params, N, options.seed, device, game.pool,
              /*first_env=*/0, /*learners=*/options.against ? 1 : 0);
  const EnvSpec& spec = envs.spec();
  const int64_t agents = envs.agents();
  const int64_t block = block_rows(player.block_rows(), envs.rows(), agents);
  Rollout store(spec, {.T = 1, .rows = envs.rows(), .block_rows = block}, {}, device);
  const Carry carry = player.initial_carry(envs.rows());
  std::vector<Carry> carries;
  for (const TimeStep& part : store.step(0).blocks)
    carries.push_back(carry.rows(part.first, part.rows()));
  StepIo first_io = store.first_io(), io = store.io(0);
  std::optional<Rivals> rivals;
  if (options.against) {
    rivals.emplace(envs.entry(), spec, N, device, options.seed);
    rivals->add(*options.against);
    rivals->attach(first_io, /*first=*/true);
    rivals->attach(io, /*first=*/false);
  }
  envs.reset(first_io);

  // a time step in two stages, between which rivals act; a replayed one counts on the device
  GraphPool graphs(device);
  RepeatedStage acting("act", "act"), stepping("step", "env_step");
  const bool replayed = graphs.captures() && player.capturable();
  const at::Tensor time = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
  ActKey key{.seed = options.seed, .purpose = Purpose::eval};
  if (replayed) key.base = time.const_data_ptr<int64_t>();
  const auto act = [&](int64_t b) {
    const auto span = trace::stage("act");
    player.act(store.step(0).blocks[size_t(b)], carries[size_t(b)], key);
  };
  const auto act_all = [&] {
    for (size_t b = 0; b < carries.size(); ++b) act(int64_t(b));
  };
  const auto step = [&] {
    const auto span = trace::stage("env_step");
    envs.step(io);
    // what was seen last is what the policy sees next
    store.roll_over();
    time.add_(1);
  };
  HostCopy seen(device);
  const Batch& batch = store.batch();

  // episodes each environment still owes; a run of steps owes none
  std::vector<int64_t> owed(size_t(N), 0);
  for (int64_t i = 0; i < options.episodes; ++i) owed[size_t(i % N)] += 1;
  int64_t open = options.steps > 0 ? N : std::min(N, options.episodes);
  EvalResult result{.seed = options.seed, .envs = N};
  std::vector<std::vector<double>> returns(static_cast<size_t>(N));
  std::vector<double> running(size_t(N), 0), length(size_t(N), 0), lengths;
  EpisodeTotals totals;
  const auto close = [&](int64_t env) {
    totals += envs.take_totals(env, env + 1);
    owed[size_t(env)] = 0;
    --open;
  };
  // what the environment counted since its last life ended is this one's
  const auto tell = [&](int64_t env, bool terminated, bool truncated) {
    const EpisodeTotals own = envs.take_totals(env, env + 1);
    totals += own;
    options.life({.row = env * agents,
                  .steps = own.steps,
                  .terminated = terminated,
                  .truncated = truncated,
                  .events = std::span(own.events).first(spec.events.size()),
                  .last = store.step(0)});
  };
  for (int64_t t = 0; open > 0 && (options.steps == 0 || t * N < options.steps); ++t) {
    if (options.stop && options.stop(t)) break;
    if (replayed) {
      acting.run(graphs, act_all);
    } else {
      key.step = t;
      game.pool.run(int64_t(carries.size()), act);
    }
    if (rivals) {
      const auto span = trace::stage("rivals");
      rivals->act(t);
    }
    if (envs.transfers()) step();
    else stepping.run(graphs, step);
    // episodes that ended
    const auto settling = trace::stage("settle");
    seen.start({batch.reward[0], batch.terminated[0], batch.truncated[0], batch.is_first[1]});
    seen.wait();
    const auto* reward = seen.part<float>(0);
    const auto *terminated = seen.part<uint8_t>(1), *truncated = seen.part<uint8_t>(2);
    const auto* first = seen.part<uint8_t>(3);
    if (rivals)
      for (const GameResult& game : rivals->settle(batch.reward[0])) {
        if (options.steps == 0 && owed[size_t(game.env)] == 0) continue;
        (game.score == 1 ? result.wins : game.score == 0 ? result.losses : result.draws) += 1;
      }
    for (int64_t i = 0; i < N; ++i) {
      const int64_t row = i * agents;
      if (options.steps == 0 && owed[size_t(i)] == 0) continue;
      if (first[row]) continue;  // this step only reset the environment
      running[size_t(i)] += reward[row];
      length[size_t(i)] += 1;
      if (!terminated[row] && !truncated[row]) {
        // an agent that never fails where there is no limit would play for ever
        if (options.steps > 0 || length[size_t(i)] < double(options.longest_episode)) continue;
        result.given_up += owed[size_t(i)];
        close(i);
        continue;
      }
      if (options.life && options.steps > 0) {
        tell(i, terminated[row], truncated[row]);
      } else {
        returns[size_t(i)].push_back(running[size_t(i)]);
        lengths.push_back(length[size_t(i)]);
      }
      running[size_t(i)] = length[size_t(i)] = 0;
      if (options.steps == 0 && --owed[size_t(i)] == 0) close(i);
    }
  }
  for (int64_t i = 0; options.life && options.steps > 0 && i < N; ++i)
    if (length[size_t(i)] > 0) tell(i, false, false);
  if (options.steps > 0) totals += envs.take_totals();

  for (const auto& r : returns) result.returns.insert(result.returns.end(), r.begin(), r.end());
  summarise(result, lengths);
  result.steps = totals.steps;
  for (size_t k = 0; k < spec.events.size(); ++k)
    result.events_per_1k.emplace_back(
        spec.events[k], totals.steps ? 1000 * totals.events[k] / double(totals.steps) : 0);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace maglev
