#pragma once
// Replays as files. A dataset is a safetensors file of rows, one time of one environment each,
// episode behind episode; an episode of n transitions is n + 1 rows, the last with its final
// observation and nothing else.
//   obs.<name>  [N, shape]  as the environment's observation columns, `obs.task` where it has tasks
//   action      [N, dims]   i32 or f32, taken at this row
//   reward      [N] f32     of that action
//   terminated, truncated   [N] u8, of that action; one of them at each episode's last action
//   is_first    [N] u8      1 where an episode begins
//   mask        [N, categories] u8, where actions are masked
// Its metadata hold a hash of each of these, `hash.reward`, which reading compares.

#include <memory>
#include <string>
#include <vector>

#include "engine/algo/algorithm.h"
#include "engine/algo/experiment.h"
#include "engine/data/replay.h"

namespace maglev {

/// Writes what `replay` holds; what runs or was cut by the ring becomes an episode that was
/// truncated. `env` is kept in the file. Returns the rows written. Throws Error when it holds no
/// transition, or the file is there already.
int64_t write_dataset(const std::string& path, const std::string& env, const EnvSpec& spec,
                      Replay& replay);

/// The ring that `rows` rows of files fill, as of one environment row; capacities do not matter.
ReplayShape dataset_shape(const RunOptions& run, const ReplayPlan& plan, int64_t rows);

/// All rows of the files of train.dataset as one replay of dataset_shape(). Columns that updates
/// write back are zero. Throws Error that names file and column where something does not fit `spec`
/// or its hash, and where the plan adds columns that nothing writes back.
std::unique_ptr<Replay> load_dataset(const RunOptions& run, const EnvSpec& spec,
                                     const DataPlan& plan, const Placement& placement);

/// Rows in the files of train.dataset.
int64_t dataset_rows(const RunOptions& run);

/// What tells these files from others of their names: a line each of rows, a hash and the path. Of
/// files without hashes a change that keeps rows and columns does not show.
std::string dataset_identity(const RunOptions& run);

/// A line for people for each of these files that has no hashes: older ones, and those of others;
/// and for each that was recorded in another environment than `env`.
std::vector<std::string> dataset_notes(const RunOptions& run, const std::string& env);

}  // namespace maglev
