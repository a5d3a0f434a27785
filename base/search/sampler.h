#pragma once
// Who says what to try next. A sampler is a function: of the space, the trials so far, the seed and
// the new trial's number, and of nothing else. So a search that was killed goes on as it would
// have, workers need only agree on the trials, and a program outside can stand in its place.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/search/space.h"

namespace maglev::search {

enum class TrialState {
  running,   ///< or waiting to go on
  finished,  ///< it has a score
  stopped,   ///< it ended early: the score is that of its last rung
  failed,
  unscored,  ///< it was trained to its end, and nothing says how well: no sampler hears of it
};
constexpr auto names_of(TrialState) {
  return std::array{"running", "finished", "stopped", "failed", "unscored"};
}

/// What is known of one try.
struct SearchTrial {
  int64_t number = 0;
  Values values = {};
  TrialState state = TrialState::running;
  double score = std::numeric_limits<double>::quiet_NaN();  ///< more is better; finite once known
  double cost = std::numeric_limits<double>::quiet_NaN();   ///< seconds; finite once ended
  int64_t ended = 0;               ///< its place among those that ended, from 1 on; 0: none
  std::vector<double> rungs = {};  ///< scores at the rungs it reached (asha.h)
  int64_t parent = -1;             ///< whose checkpoint it began from; -1: nobody's
};

/// What to try.
struct Proposal {
  Values values;
  int64_t parent = -1;  ///< begin from this trial's checkpoint
};

/// What a sampler is asked.
struct Question {
  const SearchSpace& space;
  std::span<const SearchTrial> trials;  ///< all so far, by number
  uint64_t seed = 1;
  int64_t number = 0;  ///< of the trial to come
};

struct SamplerOptions {
  bool independent = false;  ///< tpe: one dimension at a time
  int64_t start = 10;        ///< tpe, pareto: trials at random first
  int64_t population = 8;    ///< pbt: its members
};

struct SamplerEntry {
  const char* name;
  const char* summary;
  /// Nothing: none can be said before a running trial ends.
  std::optional<Proposal> (*ask)(const Question& question, const SamplerOptions& options);
};

/// random, tpe, cmaes, pareto, pbt.
std::span<const SamplerEntry> sampler_table();

/// Evenly over the space.
std::optional<Proposal> ask_random(const Question& question, const SamplerOptions& options);
/// Tree-structured Parzen estimator (Bergstra et al., "Algorithms for hyper-parameter
/// optimization", 2011): the trials are split into few good ones and the rest, each a mixture of
/// kernels around its trials; of candidates drawn from the good mixture the one whose density ratio
/// is greatest. Jointly over all dimensions (Falkner et al., "BOHB", 2018) unless `independent`. A
/// running trial counts among the rest (constant liar), so that others run elsewhere.
std::optional<Proposal> ask_tpe(const Question& question, const SamplerOptions& options);
/// The same for score against seconds: good are the trials of the first Pareto fronts, within one
/// by the hypervolume that they alone add (Ozaki et al., "Multiobjective tree-structured Parzen
/// estimator", 2020), seconds by their logarithm.
std::optional<Proposal> ask_pareto(const Question& question, const SamplerOptions& options);
/// (mu/mu_w, lambda)-CMA-ES (Hansen, "The CMA evolution strategy: a tutorial", 2016) over the unit
/// cube, replayed from the trials: each lambda that ended are a generation. Whole numbers are
/// rounded, with at least a deviation of half a cell so that none freezes (Hansen, "A CMA-ES for
/// mixed-integer nonlinear optimization", 2011); choices are drawn by the independent estimator
/// above.
std::optional<Proposal> ask_cmaes(const Question& question, const SamplerOptions& options);
/// Population based training (Jaderberg et al., 2017). Trials come in generations of `population`;
/// each goes on from the checkpoint of its own forerunner, or where that is among the worst fifth
/// from one of the best fifth (exploit, by truncation) with values that are perturbed (explore): a
/// number by 0.8 or 1.2 of itself, a choice drawn anew one time in four. Nothing while the
/// generation before still runs. A member without a score goes on from itself.
std::optional<Proposal> ask_pbt(const Question& question, const SamplerOptions& options);

/// Trials that ended, best first: by how many rungs they reached, then by score; failed ones last.
/// Those without a score have no place, and are left out.
std::vector<const SearchTrial*> by_score(std::span<const SearchTrial> trials);
/// The same by Pareto front of score and log seconds, within one by the hypervolume added.
std::vector<const SearchTrial*> by_pareto(std::span<const SearchTrial> trials);
/// Finished trials that none beats in both score and seconds, by seconds.
std::vector<const SearchTrial*> pareto_front(std::span<const SearchTrial> trials);

}  // namespace maglev::search
