#pragma once
// The named columns algorithms read and write. A TimeStep is one step of all environment rows; a
// Batch is what an update sees. Both are views with fixed shapes and addresses.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/env/spec.h"

namespace maglev {

/// A column an algorithm adds to the store, e.g. "value".
struct ExtraColumn {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;  ///< of one row; empty: a scalar
  bool has_last = false;       ///< also at row T, the bootstrap row
  /// update may write it in its batch, all but row 0: a replay takes it back.
  bool rewritten = false;
  /// What its elements are where nobody has acted yet, as in a dataset: within dtype.
  int64_t unwritten = 0;
};

/// One time step t. `rows` = environments * agents. Writer of each column in brackets.
struct TimeStep {
  int64_t first = 0;  ///< index of row 0 of this view in the whole batch: its random stream
  std::vector<at::Tensor> obs;  ///< [rows, shape] per observation column [environments]
  at::Tensor mask;  ///< [rows, categories] u8, 1 = allowed; undefined without masks [environments]
  at::Tensor is_first;  ///< [rows] u8: obs begins an episode [environments]
  at::Tensor action;    ///< [rows, dims] i32 or f32 [algorithm]
  std::vector<at::Tensor>
      extra;  ///< plan().columns in order [algorithm]; undefined where row T has none
  std::vector<TimeStep> blocks;  ///< these rows cut into blocks of fixed size, for threads

  int64_t rows() const { return is_first.size(0); }
};

/// A whole rollout [T or T+1, rows, ...] or sampled sequences [L or L+1, B, ...], time first.
struct Batch {
  std::vector<at::Tensor> obs;    ///< [T+1, rows, shape]
  at::Tensor mask;                ///< [T+1, rows, categories] u8, or undefined
  at::Tensor is_first;            ///< [T+1, rows] u8
  at::Tensor action;              ///< [T, rows, dims]
  at::Tensor reward;              ///< [T, rows] f32
  at::Tensor terminated;          ///< [T, rows] u8
  at::Tensor truncated;           ///< [T, rows] u8
  std::vector<at::Tensor> extra;  ///< [T or T+1, rows, ...]
  /// Where slices are drawn by priorities, else undefined: with what probability each was, and how
  /// much is to be learned from it next time, which update writes.
  at::Tensor chance;    ///< [B] f32
  at::Tensor priority;  ///< [B] f32, >= 0: proportional to the size of a slice's errors
};

}  // namespace maglev
