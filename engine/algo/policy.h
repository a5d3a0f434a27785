#pragma once
// What acts: networks, and what acting remembers from step to step. Learning is an Algorithm's, and
// an Algorithm has a Policy; play, evaluation and past selves have one without it.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/env/act_key.h"
#include "engine/algo/explanation.h"
#include "engine/data/batch.h"
#include "engine/data/state.h"

namespace maglev {

/// Recurrent or world-model state per row, carried from act to act. Empty for feed-forward
/// policies.
struct Carry {
  std::vector<at::Tensor> parts;  ///< [rows, ...] each

  /// Views of rows [begin, begin + count).
  Carry rows(int64_t begin, int64_t count) const;
};

/// A step that was acted in, and what was remembered before and behind it.
struct ActedStep {
  TimeStep step;
  Carry before, after;
};

/// What a policy may read of B rows of a time step.
struct StepInputs {
  std::vector<at::Tensor> obs;  ///< [B, shape] each, the environment's columns
  at::Tensor mask;              ///< [B, categories] u8; undefined without masks
  at::Tensor is_first;          ///< [B] u8
  Carry carry;
  at::Tensor noise;  ///< [B, ...] f32 as Policy::mean_noise; undefined: none is taken
};

/// What it makes of them.
struct StepOutputs {
  at::Tensor action;  ///< [B, dims], what act writes in mode mean
  /// Each [B, ...], by the name that people see: "log_probs", "value".
  std::vector<std::pair<std::string, at::Tensor>> figures = {};
  Carry carry = {};  ///< what act leaves
};

/// Independent normals that numbers are drawn from, before bounds clip them.
struct Normals {
  at::Tensor mean, log_std;  ///< [rows, dims] f32
};

/// Holds no gradients, no optimiser and nothing of a learner's size.
class Policy {
 public:
  virtual ~Policy() = default;

  /// Most rows act gets at once; fixed, so that threads never show in a result.
  virtual int64_t block_rows() const = 0;
  virtual Carry initial_carry(int64_t rows) const {
    (void)rows;
    return {};
  }

  /// Writes step.action and, where the step has them, its extra columns. `step` is one block of at
  /// most block_rows() rows and `carry` the state of the same rows, advanced in place. Several
  /// threads may be here at once, each with a block of its own.
  virtual void act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) = 0;

  /// What act would draw from at temperature 1: log-probabilities [rows, categories] f32 of a
  /// step's categories, by head, without those its mask excludes (-inf). For searches and people
  /// who look; changes nothing, any number of threads at once. Undefined where actions are numbers,
  /// or it cannot tell.
  virtual at::Tensor log_probs(const TimeStep& step) {
    (void)step;
    return {};
  }

  /// What act would draw numbers from at temperature 1. Changes nothing, any number of threads at
  /// once. None where actions are categories, are drawn from something else, or it cannot tell.
  virtual std::optional<Normals> normals(const TimeStep& step) {
    (void)step;
    return std::nullopt;
  }

  /// act in mode mean as a function of tensors: writes nothing, keeps nothing. Under AtenOnly
  /// (engine/device/aten_only.h) it is made of ATen's operations, which `maglev export` records.
  /// Any number of threads at once. None: it cannot be exported.
  virtual std::optional<StepOutputs> evaluate(const StepInputs& inputs) {
    (void)inputs;
    return std::nullopt;
  }
  /// Names of the carry's parts, in order, for people.
  virtual std::vector<std::string> carry_names() const { return {}; }
  /// The uniform numbers in (0, 1) that act takes with `key` in mode mean for `rows` rows from row
  /// `first` on: [rows, ...] f32. Undefined: it takes none.
  virtual at::Tensor mean_noise(int64_t first, int64_t rows, const ActKey& key) {
    (void)first, (void)rows, (void)key;
    return {};
  }

  /// What it makes of the first row of a step it acted in, in ATen in f32, and what of the
  /// observation `asked` came from, with what was remembered held as it was. For people who look;
  /// changes nothing. None: it cannot tell.
  virtual std::optional<Explanation> explain(const ActedStep& acted, std::optional<Asked> asked) {
    (void)acted, (void)asked;
    return std::nullopt;
  }

  /// Whether act may be captured: its counters are on the device (ActKey::base), it reads nothing
  /// back, and keeps nothing from one call to the next but the carry.
  virtual bool capturable() const { return false; }

  /// Why act cannot take ActKey::temperature, for people, e.g. "its actions are planned"; empty: it
  /// can.
  virtual std::string temperature_obstacle() const {
    return "it does not say how it would draw by one";
  }

  /// What acting needs of a run's state, by the names it has in Algorithm::visit_state.
  virtual void visit_state(StateVisitor& visitor) = 0;
  /// Acts from now on by the parameters as they are: before the first act, after they were loaded
  /// or learned, and never beside an act.
  virtual void publish() {}
};

}  // namespace maglev
