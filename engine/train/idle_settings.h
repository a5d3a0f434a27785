#pragma once
// Settings that cannot matter in a run as its others are, and why: told where somebody gives one,
// left out where settings are searched or compared.

#include <string>
#include <string_view>
#include <vector>

#include "base/core/thread_pool.h"
#include "engine/algo/experiment.h"

namespace maglev {

class IdleSettings {
 public:
  /// `experiment` outlives it. Throws Error where the settings cannot be.
  IdleSettings(const Experiment& experiment, const Placement& placement);

  /// Why the setting of this dotted name changes nothing, in a few words; empty: it may matter.
  std::string why(std::string_view setting) const;
  /// A line for people for each that a file or the command line gave another value than the
  /// engine's own, in vain.
  std::vector<std::string> notes() const;

 private:
  std::string why_of_dataset(std::string_view setting) const;
  std::string why_of_loop(std::string_view setting) const;
  std::string why_of_env(std::string_view setting) const;
  std::string why_of_network(std::string_view setting) const;

  const Experiment* experiment_;
  ThreadPool pool_{1};
  AlgoContext context_;
  std::string algo_, network_;
  bool replay_ = false, priorities_ = false, may_overlap_ = false;
};

}  // namespace maglev
