#pragma once
// How fast steps are written to a replay and batches drawn from it, on one thread, and pictures
// drawn by all; and the same of storages in Python, measured by their scripts in bench/peers.

#include <cstdint>
#include <string>
#include <vector>

namespace maglev::verbs::bench {

struct ReplayFigure {
  /// "write": a step of `rows` rows. "sample": 256 slices of 3 transitions out of `rows` rows.
  /// "frames": 16 rows added, then 16 sequences of 64 drawn out of `rows` rows.
  std::string work;
  std::string columns;  ///< "vector": 18 f32; "image": 64 x 64 x 3 u8
  int64_t rows = 0;
  /// Who, and how: "maglev direct" and "memcpy" write whole steps where they are kept, "list" is
  /// rows that lie apart, written one by one, "batched" the rows of a step side by side.
  std::string way;
  double per_second = 0;      ///< calls, by the wall clock
  double per_cpu_second = 0;  ///< by the process's own
  int64_t bytes = 0;          ///< of observations a call moves
};

/// Ours, each measured for `seconds`.
std::vector<ReplayFigure> measure_replay(double seconds);

/// What `python script` measures of the same works, told as one JSON object a line. Throws Error
/// when it fails.
std::vector<ReplayFigure> measure_peer(const std::string& python, const std::string& script,
                                       double seconds);

/// One JSON object a line.
std::string replay_lines(const std::vector<ReplayFigure>& figures);
/// A table for people; "x ours" is how many times as much processor time as ours each way takes.
std::string replay_table(const std::vector<ReplayFigure>& figures);

}  // namespace maglev::verbs::bench
