#pragma once
// Who acts on rows of observations that somebody else brings, and remembers what it did: a run's
// policy, a scripted player, a function.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/play/player.h"
#include "engine/play/run_policy.h"
#include "python/bindings/envs.h"

namespace maglev::python {

class Actor {
 public:
  /// The policy that a run saved, in the environment it was trained in. Throws Error.
  Actor(const std::string& run, const std::string& checkpoint,
        const std::vector<std::string>& settings, const std::string& device, ActMode mode,
        float temperature, uint64_t seed);
  /// Who is called `name` where `envs` are played (make_player). `settings`: name=value of how it
  /// acts. `envs` outlive it. Throws Error.
  Actor(Envs& envs, const std::string& name, const std::vector<std::string>& settings, ActMode mode,
        float temperature, uint64_t seed);

  const EnvSpec& spec() const { return game_->spec; }
  const Game& game() const { return *game_; }
  Player& player() { return *player_; }
  at::Device device() const { return game_->placement.device; }
  /// Where its parameters are from; empty: from no checkpoint.
  std::string checkpoint() const { return run_ ? run_->checkpoint() : ""; }

  /// Actions [rows, dims] i32 or f32 for stored columns [rows, ...] of any number of rows, which,
  /// where it remembers them, stays the same until reset(). `mask` is undefined where the
  /// environment has none; `is_first` may be: rows begin at the first call and go on then. Throws
  /// Error.
  at::Tensor act(const std::vector<at::Tensor>& obs, const at::Tensor& mask,
                 const at::Tensor& is_first);
  /// What act would draw from, as Policy::log_probs. Undefined where it cannot tell.
  at::Tensor log_probs(const std::vector<at::Tensor>& obs, const at::Tensor& mask);
  /// What act would draw numbers from, as Policy::normals.
  std::optional<Normals> normals(const std::vector<at::Tensor>& obs, const at::Tensor& mask);
  /// The return that a critic expects which sees what the policy sees, [rows] f32: the figure
  /// "value" of Policy::evaluate. Undefined where it gives none, or remembers rows.
  at::Tensor value(const std::vector<at::Tensor>& obs, const at::Tensor& mask);
  /// Remembers nothing, as before the first call.
  void reset();

 private:
  /// Columns as the player takes them; throws Error where they are none of its environment's.
  TimeStep step_of(const std::vector<at::Tensor>& obs, const at::Tensor& mask,
                   const at::Tensor& is_first) const;

  std::unique_ptr<RunPolicy> run_;
  std::optional<Game> game_;
  std::unique_ptr<Player> player_;
  Policy* policy_ = nullptr;  ///< a run's; null: who acts is none
  uint64_t seed_;
  std::atomic<bool> own_{false},
      *busy_ = &own_;             ///< whose threads work: the environments', or these
  int64_t steps_ = 0, rows_ = 0;  ///< since reset(); rows 0: none yet
  Carry carry_;
};

/// A function that acts: given a step's rows and their environment, writes their actions. Called from
/// several threads, one at a time where it sees to that itself.
class FunctionPlayer : public Player {
 public:
  using Act = std::function<void(const EnvSpec& spec, TimeStep& step)>;
  /// `spec` outlives this.
  FunctionPlayer(Act act, const EnvSpec& spec)
      : Player("function"), act_(std::move(act)), spec_(&spec) {}

  /// The larger, the fewer calls.
  int64_t block_rows() const override { return int64_t(1) << 20; }
  Carry initial_carry(int64_t) override { return {}; }
  void act(TimeStep& step, Carry&, const ActKey&) override { act_(*spec_, step); }

 private:
  Act act_;
  const EnvSpec* spec_;
};

}  // namespace maglev::python
