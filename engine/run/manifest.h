#pragma once
// What a checkpoint folder says about itself, without torch: step_000000123456/{state.safetensors,
// manifest.json}. The manifest holds the identity, all numbers and texts of the state, and hashes
// of everything. It is read back only when it is byte for byte what would be written, so no change
// of it goes unseen.

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/core/file.h"
#include "base/core/safetensors.h"

namespace maglev {

/// Which run a checkpoint belongs to, and where in it.
struct CheckpointIdentity {
  std::string algo = {}, env = {};
  std::string engine_version = {}, torch_version = {};
  std::string options_yaml = {};  ///< the resolved settings
  int64_t step = 0;               ///< environment steps
  int64_t updates = 0;
  double return_mean = std::numeric_limits<double>::quiet_NaN();  ///< NaN: no episode has ended
  double seconds = 0;  ///< of training so far, over all sessions
  std::string tokens =
      {};                 ///< what observations' tokens stood for (ObsColumn::tokens); empty: none
  bool evaluate = false;  ///< it is to be evaluated; see CheckpointStore::unjudged
};

/// All named values of a state: numbers and texts as they are, tensors by the hash of their bytes.
struct StateSummary {
  struct Tensor {
    SafeTensorInfo info;
    std::string hash;
  };
  std::map<std::string, int64_t> integers;
  std::map<std::string, double> reals;
  std::map<std::string, std::string> texts;
  std::map<std::string, Tensor> tensors;

  /// Equal for two states exactly when all names, dtypes, shapes and bits are equal.
  std::string hash() const;
};

struct Manifest {
  CheckpointIdentity identity;
  int64_t sequence = 0;  ///< order of saving within a run; the newest checkpoint has the highest
  StateSummary state;
  uint64_t file_bytes = 0;  ///< of state.safetensors
  std::string file_hash;

  std::string text() const;
  /// Throws Error: not a manifest, another format version, or changed since it was written.
  static Manifest parse(const std::string& text, const std::string& origin);
};

constexpr const char* kStateFile = "state.safetensors";
constexpr const char* kManifestFile = "manifest.json";

/// The manifest of a checkpoint folder; says nothing about the tensors' bytes. Throws Error.
Manifest read_manifest(const std::string& dir);

/// A checkpoint whose every byte was compared with its hashes.
struct VerifiedCheckpoint {
  std::string dir;
  Manifest manifest;
  std::unique_ptr<FileReader> file;  ///< where `tensors` lie
  SafeTensors tensors;
};

/// Throws Error that names the first tensor that differs, when the folder is torn or damaged.
VerifiedCheckpoint verify_checkpoint(const std::string& dir);

}  // namespace maglev
