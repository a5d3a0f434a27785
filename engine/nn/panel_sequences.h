#pragma once
// Sequences of rows through a PanelNetwork: panels up to the gates of its cells, from there on step
// by step, and panels again from what is remembered to logits and values; and back. Where a network
// remembers nothing a step alone is a sequence, and all this is its panels.
//
// Threads: memory of one thread; but different cells of it may run at once.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/nn/panel_network.h"

namespace maglev {

class PanelSequences {
 public:
  /// Memory for up to so many rows. `network` outlives it.
  PanelSequences(const PanelNetwork& network, int64_t rows);

  /// Takes L steps of B sequences as input, time first: row l * B + b is row index[l * B + b] of
  /// `obs`, or row first + l * B + b when `index` is null. They fill panel after panel.
  void load(const ObsRows& obs, const int64_t* index, int64_t first, int64_t L, int64_t B);

  // what a cell begins with: written between load and forward_cell

  float* keep() { return keep_; }  ///< [L][B]: 0 where a step forgets what was before it, else 1
  float* state(size_t cell) { return cells_[cell].state; }  ///< [B][units]

  /// Takes a cell through all steps: its gates, and what is remembered behind each step.
  void forward_cell(size_t cell);
  /// What a cell remembers behind step l, [B][units]; between forward_cell and backward.
  const float* behind(size_t cell, int64_t l) const;
  /// From what backward left of all panels adds the gradients of a cell and of the layers before it.
  void backward_cell(size_t cell, const PanelNetwork::Gradients& grad);

  /// The panels that hold the rows loaded, 64 each and the last one what is left. Heads are gone
  /// through there and back in one panel before the next: all answer in the same memory.
  int64_t panels() const { return (L_ * B_ + kPanelRows - 1) / kPanelRows; }
  PanelNetwork::Panel& panel(int64_t p) { return panels_[size_t(p)]; }
  /// A panel's logits and, or, value, after forward_cell of the cells they begin with.
  void forward(int64_t p, bool policy, bool value);
  /// From the panel's d_logits and d_value, as PanelNetwork::backward.
  void backward(int64_t p, const PanelNetwork::Gradients& grad);

 private:
  /// Rows are [L][B][..]. Gradients take the place of what they are of.
  struct Cell {
    float *gates, *before, *behind;
    float *state, *d_state;  ///< [B][units]
  };

  const PanelNetwork* network_;
  std::vector<PanelNetwork::Panel> panels_;
  std::vector<Cell> cells_;
  float *keep_ = nullptr, *no_bias_ = nullptr;  ///< no_bias_: gates come with theirs
  int64_t L_ = 0, B_ = 0;
  at::Tensor memory_;
};

}  // namespace maglev
