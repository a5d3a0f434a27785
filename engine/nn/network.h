#pragma once
// The settings of networks, and the network they name: an algorithm carries the settings of all in
// network_table() and makes the chosen one, of which it sees an ActorCritic.

#include <any>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/config/options.h"
#include "base/core/error.h"
#include "base/env/spec.h"
#include "engine/nn/activation.h"
#include "engine/nn/actor_critic.h"
#include "engine/nn/init.h"
#include "engine/nn/network_entry.h"
#include "engine/nn/value_head.h"

namespace maglev {

/// Settings of networks: those that most have, and of each network its own.
struct NetworkOptions {
  const NetworkEntry* kind = nullptr;       ///< a row of network_table(); null: by what is observed
  std::vector<int64_t> hidden = {64, 64};   ///< fully connected layers
  std::vector<int64_t> critic_hidden = {};  ///< layers between features and value head
  HiddenActivation activation = HiddenActivation::tanh;
  bool fast_tanh = true;     ///< see Nonlinearity
  bool shared = false;       ///< one trunk for policy and value
  int64_t memory = 0;        ///< units that a cell behind each trunk remembers; 0: none
  bool fused_memory = true;  ///< by kernels/gru_scan, else in ATen
  ValueHeadKind value_head = ValueHeadKind::plain;
  double popart_beta = 1e-3;
  double log_std = 0;  ///< initial, for continuous actions
  bool normalize_obs = false;
  std::vector<std::any> own = defaults();  ///< a struct for each row of network_table(), or none

  /// A network's own settings, found by their type.
  template <class T>
  const T& own_as() const {
    for (const auto& settings : own)
      if (const T* found = std::any_cast<T>(&settings)) return *found;
    assert_failed("own_as<T>()", "a row of network_table() has a T", __FILE__, __LINE__);
  }
  Nonlinearity nonlinearity() const { return {activation, fast_tanh}; }

  /// Adds them all; a network's own under its name.
  void describe(OptionTable& table);

 private:
  static std::vector<std::any> defaults();
};

/// What a network is made for.
struct NetworkContext {
  EnvSpec spec;
  bool bf16 = false;     ///< a run in bf16: a network may round its weights by itself
  bool on_cuda = false;  ///< where it will compute: its layers' memory depends on whose they are
  /// A replica is made, of this one, which the same options made: it may share what does not change.
  const ActorCritic* original = nullptr;
};

/// The network that the settings name. Throws Error where it does not suit the environment.
std::shared_ptr<ActorCritic> make_network(const NetworkOptions& options,
                                          const NetworkContext& context, Initializer init);

/// As a setting: auto, or a name of the table.
ChoiceMember choice_member(const NetworkEntry*& kind);

}  // namespace maglev
