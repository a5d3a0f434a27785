// PPO of rl-tools on its Pendulum with our settings: environments, steps a rollout and minibatch
// are compile-time constants there (BENCH_ENVS, BENCH_ROLLOUT, BENCH_MINIBATCH, BENCH_FAST_TANH).
//
//   pendulum_ppo <updates>
//
// Two updates pass before the clock starts. Prints one JSON object.

#include <chrono>
#include <cstdio>
#include <cstdlib>

// each needs the declarations of those before it; the second cpu_mux brings BLAS into the layers
// clang-format off
#include <rl_tools/operations/cpu_mux.h>
#include <rl_tools/rl/environments/pendulum/operations_generic.h>
#include <rl_tools/nn/optimizers/adam/instance/operations_generic.h>
#include <rl_tools/nn/operations_cpu_mux.h>
#include <rl_tools/nn/layers/standardize/operations_generic.h>
#include <rl_tools/nn_models/mlp_unconditional_stddev/operations_generic.h>
#include <rl_tools/nn_models/sequential/operations_generic.h>
#include <rl_tools/nn/optimizers/adam/operations_generic.h>
#include <rl_tools/rl/algorithms/ppo/loop/core/config.h>
#include <rl_tools/rl/algorithms/ppo/loop/core/operations_generic.h>
// clang-format on

namespace rlt = rl_tools;
namespace loop = rlt::rl::algorithms::ppo::loop::core;

using Device = rlt::devices::DEVICE_FACTORY<>;
using Index = Device::index_t;
using Types = rlt::numeric_types::Policy<float>;
using Rng = Device::SPEC::RANDOM::ENGINE<>;
using PendulumParameters = rlt::rl::environments::pendulum::DefaultParameters<float>;
using Environment = rlt::rl::environments::Pendulum<
    rlt::rl::environments::pendulum::Specification<float, Index, PendulumParameters>>;

struct Parameters : loop::DefaultParameters<Types, Index, Environment> {
  using Activation = rlt::nn::activation_functions::ActivationFunction;
  static constexpr Index STEP_LIMIT = 1'000'000'000;
  static constexpr Index EPISODE_STEP_LIMIT = 200;
  static constexpr Index N_ENVIRONMENTS = BENCH_ENVS;
  static constexpr Index ON_POLICY_RUNNER_STEPS_PER_ENV = BENCH_ROLLOUT;
  static constexpr Index DATASET_SIZE = N_ENVIRONMENTS * ON_POLICY_RUNNER_STEPS_PER_ENV;
  static constexpr Index BATCH_SIZE = BENCH_MINIBATCH;
  // the layers count the output
  static constexpr Index ACTOR_NUM_LAYERS = 3, CRITIC_NUM_LAYERS = 3;
  static constexpr Index ACTOR_HIDDEN_DIM = 64, CRITIC_HIDDEN_DIM = 64;
  static constexpr auto kTanh = BENCH_FAST_TANH ? Activation::FAST_TANH : Activation::TANH;
  static constexpr auto ACTOR_ACTIVATION_FUNCTION = kTanh;
  static constexpr auto CRITIC_ACTIVATION_FUNCTION = kTanh;
  struct Adam : rlt::nn::optimizers::adam::DEFAULT_PARAMETERS_PYTORCH<Types> {
    static constexpr float ALPHA = 3e-4f;
  };
  using ACTOR_OPTIMIZER_PARAMETERS = Adam;
  using CRITIC_OPTIMIZER_PARAMETERS = Adam;
  struct PPO_PARAMETERS
      : rlt::rl::algorithms::ppo::DefaultParameters<Types, Index, BENCH_MINIBATCH> {
    static constexpr float ACTION_ENTROPY_COEFFICIENT = 0;
    static constexpr float INITIAL_ACTION_STD = 1;
    static constexpr Index N_EPOCHS = 4;
  };
};

using Config = loop::Config<Types, Index, Rng, Environment, Parameters,
                            loop::ConfigApproximatorsSequential, true>;

int main(int argc, char** argv) {
  const long updates = argc == 2 ? std::atol(argv[1]) : 0;
  if (updates < 1) {
    std::fprintf(stderr, "usage: pendulum_ppo <updates>\n");
    return 2;
  }
  Device device;
  static Config::State<Config> state;
  rlt::malloc(device, state);
  rlt::init(device, state, 1);
  for (int i = 0; i < 2; ++i) rlt::step(device, state);
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < updates; ++i) rlt::step(device, state);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const double steps = double(updates) * BENCH_ENVS * BENCH_ROLLOUT;
  // whether it learns at all: rewards of the last rollout
  double reward = 0;
  auto& data = state.on_policy_runner_dataset;
  for (Index i = 0; i < Index(BENCH_ENVS) * BENCH_ROLLOUT; ++i)
    reward += double(rlt::get(data.rewards, i, 0));
  std::printf("{\"steps_per_second\": %.1f, \"reward_mean\": %.3f}\n", steps / took.count(),
              reward / (double(BENCH_ENVS) * BENCH_ROLLOUT));
  rlt::free(device, state);
  return 0;
}
