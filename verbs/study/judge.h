#pragma once
// `maglev study judge`: runs of any algorithm on the grid, judged as a study judges its own.

#include <string>
#include <vector>

#include "verbs/study/foraging.h"

namespace maglev::verbs::study {

struct JudgeRequest {
  /// A run, RUN@CHECKPOINT, a folder of seeds, which is one row, or a scripted player's name.
  std::vector<std::string> runs;
  Protocol protocol = {};
  std::vector<std::string> settings = {};  ///< as of sorted_settings
  bool json = false;
  std::string report = {};  ///< path without .md of a page; empty: none
};

/// Judges each of them, saying so on standard error, and prints tables, or all figures as JSON.
/// Throws Error where one is no run of the grid.
int judge_runs(const JudgeRequest& request);

}  // namespace maglev::verbs::study
