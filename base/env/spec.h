#pragma once
// What an environment shows and takes: observation columns, actions, limits, event counters.
// Torch-free; the store, the networks and the Python face are all sized from it.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace maglev {

enum class DType : uint8_t { u8, i32, f32 };

constexpr int64_t dtype_bytes(DType t) { return t == DType::u8 ? 1 : 4; }

/// Who may look at an observation column. A critic column is privileged: never shown to the policy.
enum class Audience : uint8_t { both, critic };

/// A u8 column may hold cell codes of `bits` each, packed little-endian (cell i at bit i*bits of
/// the row), instead of channel values: lossless, 16 to 60 times smaller, and one stored window
/// serves both palettes. The network sees channels x grid of f32: channel c of a cell with code k
/// is palette[k * channels + c].
struct CellCoding {
  int bits = 0;                    ///< 0: the column is plain values
  std::vector<int64_t> grid = {};  ///< e.g. {11, 11}; rows first
  int channels = 0;
  std::vector<float> policy = {};  ///< [codes, channels]
  std::vector<float> critic =
      {};  ///< [codes, channels], what the critic sees besides; empty: nothing more
  /// [codes], what is left of each code once a rollout is learned from, as of a buffer that cannot
  /// hold what was seen; empty: every code as it was.
  std::vector<uint8_t> kept = {};
};

/// One named observation column, one row per agent.
struct ObsColumn {
  std::string name = {};  ///< "vector", "image", "window", ...
  DType dtype = DType::f32;
  std::vector<int64_t> shape = {};  ///< of a stored row, e.g. {4}; {H, W, C} for an image
  Audience audience = Audience::both;
  CellCoding cells = {};
  /// An i32 column of tokens, which networks embed: number k of the last dimension is in
  /// [0, vocabulary[k]), and 0 is padding. Empty: plain numbers.
  std::vector<int64_t> vocabulary = {};
  /// Hash of what each token stands for, such as a graph's names; a policy is of these alone.
  /// Empty: nothing is said.
  std::string tokens = {};

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  int64_t row_bytes() const { return elements() * dtype_bytes(dtype); }
};

/// Actions are categorical heads (int32, one column a head) or bounded continuous (float, one
/// column a dimension).
struct ActionSpec {
  std::vector<int64_t> heads = {};  ///< categories of each categorical head; empty: continuous
  std::vector<float> low = {}, high = {};  ///< continuous bounds, one entry a dimension
  bool masked =
      false;  ///< the environment says which categories are allowed; heads are concatenated
  /// What people call each category, "up", heads one behind another; empty: by their numbers.
  std::vector<std::string> names = {};

  bool discrete() const { return !heads.empty(); }
  /// Columns an action row has.
  int64_t dims() const { return discrete() ? int64_t(heads.size()) : int64_t(low.size()); }
  /// Sum of categories over heads: width of logits and of a mask row. 0 when continuous.
  int64_t categories() const {
    int64_t n = 0;
    for (int64_t h : heads) n += h;
    return n;
  }
  /// The name of category k of a head; "" where categories have none.
  std::string name(int64_t head, int64_t k) const {
    if (names.empty()) return "";
    for (int64_t h = 0; h < head; ++h) k += heads[size_t(h)];
    return names[size_t(k)];
  }
};

/// One task of an environment that has several. They share columns: a smaller task's observations
/// and actions come first, what is left over is 0 and ignored.
struct TaskSpec {
  std::string name = {};
  int64_t obs_dims = 0;     ///< of the `vector` column that this task uses
  int64_t action_dims = 0;  ///< likewise of the actions
  int64_t max_steps = 0;    ///< episode limit
};

/// How much of some events another one is: "efficiency", food of all that was eaten. Metrics have
/// it as share/NAME, evaluations as eval/NAME.
struct EventShare {
  std::string name = {};
  int32_t event = 0;             ///< which of EnvSpec::events
  std::vector<int32_t> of = {};  ///< likewise; their sum is the whole
};

/// Of totals of the events; NaN where none came of what it is a share of.
template <class Totals>
double share_of(const EventShare& share, const Totals& totals) {
  double whole = 0;
  for (int32_t k : share.of) whole += double(totals[size_t(k)]);
  return whole > 0 ? double(totals[size_t(share.event)]) / whole
                   : std::numeric_limits<double>::quiet_NaN();
}

/// Which of EnvSpec::events count games, one a game, as the first agent sees their end.
struct GameEvents {
  int32_t won = 0, drawn = 0, lost = 0;
};

struct EnvSpec {
  std::vector<ObsColumn> observations = {};
  ActionSpec action = {};
  int64_t max_steps = 0;  ///< episode limit after which it is truncated; 0: none
  std::vector<std::string> events =
      {};  ///< names of counters a step adds to, e.g. "food"; reported per 1,000 steps
  std::vector<EventShare> shares = {};
  std::optional<GameEvents> games = {};  ///< none: episodes are no games that are won or lost
  /// Empty: one task. Else an i32 column `task` of shape {1} says which one a row belongs to.
  std::vector<TaskSpec> tasks = {};
  double solved_at = 0;   ///< mean return at which the field calls it solved; 0: no such figure
  double render_fps = 0;  ///< steps a second at which people are to see it; 0: not said
  int agents = 1;  ///< rows that an environment has; written by the table where E::kAgents says it
  /// Agents may end, or come, while others go on (EndsApart), so that rows may wait: see
  /// StepColumns::is_first. Written by the table.
  bool ends_apart = false;

  /// Most steps an episode of any task has; 0: no limit is known.
  int64_t longest_episode() const {
    int64_t most = max_steps;
    for (const TaskSpec& task : tasks) most = std::max(most, task.max_steps);
    return most;
  }
};

}  // namespace maglev
