#pragma once
// Networks as plug-ins: a folder networks/x/ defines networks::x::entry(), which returns its row of
// the table.

#include <any>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/config/options.h"
#include "base/env/spec.h"

namespace maglev {

class ActorCritic;
class Initializer;
struct NetworkOptions;
struct NetworkContext;

/// Whether a network takes what an environment shows.
enum class Suits {
  no,
  yes,
  best,  ///< kind=auto takes it; of several, the first by name
};

/// A network's own settings: a struct of which every NetworkOptions has a copy.
struct OwnSettings {
  std::any defaults;
  void (*describe)(OptionTable& table, std::any& own) = nullptr;
};
/// Those of T, whose `describe` adds them to a table.
template <class T>
OwnSettings own_settings() {
  return {T(), [](OptionTable& t, std::any& own) { std::any_cast<T&>(own).describe(t); }};
}

struct NetworkEntry {
  const char* name;
  const char* summary;
  const char* needs = "";  ///< what an environment it does not suit lacks, e.g. "an image"
  Suits (*suits)(const EnvSpec& spec);
  OwnSettings own = {};  ///< <algorithm>.network.<name>.* settings, where it has some
  /// Of these the one that names a file, which a run copies into its folder and reads there; null:
  /// there is none.
  const char* file = nullptr;
  /// Hash of what the network of such a file computes; a checkpoint of another is refused.
  std::string (*computes)(const NetworkOptions& options) = nullptr;
  /// The network, its weights drawn by `init` alone: the same for the same seed. Weights made by
  /// Initializer::weight take no memory where only sizes are asked for.
  std::shared_ptr<ActorCritic> (*make)(const NetworkOptions& options, const NetworkContext& context,
                                       Initializer init);
};

/// Every network that was built in, by name.
std::span<const NetworkEntry> network_table();
/// Throws Error with near names.
const NetworkEntry& find_network(std::string_view name);
/// The row that a run gets: `kind`, or, where that is null, the first that suits best. Throws Error
/// where it does not suit, or none does.
const NetworkEntry& network_for(const NetworkEntry* kind, const EnvSpec& spec);

}  // namespace maglev
