#pragma once
// One time step whose rows the host writes, before a policy that may be on a device: of goals that
// are searched or proved, where no environment of a batch writes rows.

#include <optional>
#include <vector>

#include "engine/data/step_window.h"

namespace maglev {

class HostStep {
 public:
  /// `rows` rows of what `spec` shows and takes, and `columns` besides, before a policy on `device`.
  HostStep(const EnvSpec& spec, const std::vector<ExtraColumn>& columns, int64_t rows,
           at::Device device);

  int64_t rows() const { return here_.rows; }
  /// All rows, in host memory.
  const TimeStep& host() const { return here_.window.step(0); }
  /// The first `count` rows where the policy is, with what the host has written in them.
  TimeStep shown(int64_t count);
  /// What acting on shown(count) wrote goes to the host's rows. Waits for a device.
  void bring_back(int64_t count);

 private:
  struct Columns {
    Columns(const EnvSpec& spec, const std::vector<ExtraColumn>& columns, int64_t rows,
            at::Device device);

    int64_t rows;
    Batch batch;
    StepWindow window;
  };

  Columns here_;
  std::optional<Columns> there_;  ///< none on a processor: the policy is shown the host's rows
};

}  // namespace maglev
