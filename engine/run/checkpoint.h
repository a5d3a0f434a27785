#pragma once
// Saves, restores and hashes a visited state (engine/data/state.h). A checkpoint is built in a
// temporary folder, synced and renamed into place: it is there as a whole or not at all.

#include <functional>
#include <string>

#include "base/core/error.h"
#include "engine/data/state.h"
#include "engine/run/manifest.h"

namespace maglev {

using VisitState = std::function<void(StateVisitor&)>;

/// A sound checkpoint whose names, kinds or shapes are others than those of the live state.
struct UnlikeState : Error {
  using Error::Error;
};

/// Writes `<checkpoints>/step_000000123456/` (with _2, _3, ... when that step is there already) and
/// returns its path. Also sweeps what killed saves left in the folder. Tensors are read one at a
/// time or a piece of one, from any device. Throws Error; every earlier checkpoint is then intact
/// and nothing half-written is left. One process and one thread at a time (RunDir's lock sees to
/// it).
std::string save_checkpoint(const std::string& checkpoints, const CheckpointIdentity& identity,
                            const VisitState& visit);

/// Verifies every byte of the checkpoint folder `dir`, then its algorithm, environment and tokens
/// against
/// `expected` (other fields are not compared), then all names, dtypes and shapes against the live
/// state; only then copies into the live tensors, whatever their device, and numbers and texts.
/// Returns what the checkpoint says of itself. Throws Error, with nothing live changed; but where a
/// tensor indexes something and holds what it cannot (check_range), or another process cuts or
/// changes the file meanwhile, the live state is spoiled.
CheckpointIdentity load_checkpoint(const std::string& dir, const CheckpointIdentity& expected,
                                   const VisitState& visit);
/// The same of one that was verified already.
CheckpointIdentity load_checkpoint(const VerifiedCheckpoint& checkpoint,
                                   const CheckpointIdentity& expected, const VisitState& visit);

/// Loads what `visit` names of `section` of a checkpoint, e.g. a policy of "algo"; the section may
/// hold more, and the rest be of any kind. Throws Error when it lacks a name or holds another kind
/// or shape of it, with nothing live changed. Everything else as load_checkpoint.
CheckpointIdentity load_section(const std::string& dir, const std::string& section,
                                const CheckpointIdentity& expected, const VisitState& visit);

/// Loads into `algorithm` what `policy` names alone (Policy::visit_state: networks and what else
/// acting needs), whatever environment the checkpoint is of; both visit within the section "algo".
/// Throws UnlikeState when the checkpoint's policy has other names, kinds or shapes, with nothing
/// live changed.
void load_networks(const std::string& dir, const CheckpointIdentity& expected,
                   const VisitState& algorithm, const VisitState& policy);

/// Hash over all named values; equal exactly when the states are equal to the bit. The same as the
/// manifest's.
std::string state_hash(const VisitState& visit);

}  // namespace maglev
