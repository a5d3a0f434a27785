#include "engine/nn/panel_sequences.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/trace/span.h"
#include "kernels/gru_scan/gru_scan.h"
#include "kernels/products/products.h"
#include "kernels/products/transpose.h"

namespace maglev {
namespace {

// a panel's columns, of so many features, to rows that lie together, and back with 0 as padding
void columns_to_rows(const PanelNetwork::Panel& panel, const float* columns, int64_t features,
                     float* rows) {
  transpose_cpu({.from = columns,
                 .from_row = panel.stride(),
                 .to = rows,
                 .to_row = features,
                 .rows = features,
                 .columns = panel.rows()});
}
void rows_to_columns(const PanelNetwork::Panel& panel, const float* rows, int64_t features,
                     float* columns) {
  transpose_cpu({.from = rows,
                 .from_row = features,
                 .to = columns,
                 .to_row = panel.stride(),
                 .rows = panel.rows(),
                 .columns = features});
  for (int64_t f = 0; f < features; ++f)
    std::fill(columns + f * panel.stride() + panel.rows(), columns + (f + 1) * panel.stride(), 0.f);
}

}  // namespace

PanelSequences::PanelSequences(const PanelNetwork& network, int64_t rows) : network_(&network) {
  panels_.emplace_back(network);
  for (int64_t first = kPanelRows; first < rows; first += kPanelRows)
    panels_.emplace_back(network, &panels_.front());
  if (network.cells().empty()) return;
  // all in one piece of memory
  std::vector<std::pair<float**, int64_t>> wanted;
  int64_t total = 0, widest = 0;
  const auto want = [&](float*& pointer, int64_t count) {
    wanted.emplace_back(&pointer, total);
    total += (count + 15) / 16 * 16;
  };
  cells_.resize(network.cells().size());
  for (size_t c = 0; c < cells_.size(); ++c) {
    const int64_t H = network.cells()[c].units;
    want(cells_[c].gates, rows * 3 * H);
    for (auto part : {&Cell::before, &Cell::behind, &Cell::state, &Cell::d_state})
      want(cells_[c].*part, rows * H);
    widest = std::max(widest, 3 * H);
  }
  want(keep_, rows);
  want(no_bias_, widest);
  memory_ = at::zeros({total});
  for (const auto& [pointer, place] : wanted) *pointer = memory_.data_ptr<float>() + place;
}

void PanelSequences::load(const ObsRows& obs, const int64_t* index, int64_t first, int64_t L,
                          int64_t B) {
  L_ = L, B_ = B;
  MAGLEV_ASSERT(panels() <= int64_t(panels_.size()), "there is memory for as many rows");
  for (int64_t p = 0; p < panels(); ++p) {
    const int64_t begin = p * kPanelRows, rows = std::min(kPanelRows, L * B - begin);
    network_->load(panel(p), obs, index ? index + begin : nullptr, first + begin, rows);
  }
}

void PanelSequences::forward_cell(size_t c) {
  const PanelNetwork::Cell& of = network_->cells()[c];
  const Cell& cell = cells_[c];
  const int64_t H = of.units, G = 3 * H;
  // what depends on no step before
  for (int64_t p = 0; p < panels(); ++p) {
    network_->forward_gates(panel(p), c);
    columns_to_rows(panel(p), panel(p).gates(c), G, cell.gates + p * kPanelRows * G);
  }
  // step by step what does
  const auto span = trace::kernel("gru_scan", 2 * L_ * B_ * H * G);
  gru_scan_cpu({.L = L_,
                .B = B_,
                .H = H,
                .products = cell.gates,
                .bias = no_bias_,
                .weight_t = of.weight_t,
                .weight_row = of.weight_t_row,
                .h = cell.state,
                .keep = keep_,
                .gates = cell.gates,
                .before = cell.before,
                .behind = cell.behind});
}

void PanelSequences::forward(int64_t p, bool policy, bool value) {
  // the policy begins with the first cell, the value with the last, and they may be one
  for (size_t c = 0; c < cells_.size(); ++c) {
    if (!(policy && c == 0) && !(value && c + 1 == cells_.size())) continue;
    const int64_t H = network_->cells()[c].units;
    rows_to_columns(panel(p), cells_[c].behind + p * kPanelRows * H, H, panel(p).remembered(c));
  }
  network_->forward(panel(p), policy, value);
}

void PanelSequences::backward(int64_t p, const PanelNetwork::Gradients& grad) {
  network_->backward(panel(p), grad);
  for (size_t c = 0; c < cells_.size(); ++c) {
    const int64_t H = network_->cells()[c].units;
    columns_to_rows(panel(p), panel(p).d_remembered(c), H, cells_[c].behind + p * kPanelRows * H);
  }
}

const float* PanelSequences::behind(size_t c, int64_t l) const {
  return cells_[c].behind + l * B_ * network_->cells()[c].units;
}

void PanelSequences::backward_cell(size_t c, const PanelNetwork::Gradients& grad) {
  const PanelNetwork::Cell& of = network_->cells()[c];
  const Cell& cell = cells_[c];
  const int64_t H = of.units, G = 3 * H;
  // step by step, and what weights get of all steps at once
  {
    const auto span = trace::kernel("gru_scan_back", 4 * L_ * B_ * H * G);
    gru_scan_back_cpu({.L = L_,
                       .B = B_,
                       .H = H,
                       .gates = cell.gates,
                       .before = cell.before,
                       .bias = no_bias_,
                       .keep = keep_,
                       .weight = of.weight,
                       .weight_row = of.weight_row,
                       .d_behind = cell.behind,
                       .d_gates = cell.gates,
                       .d_h = cell.d_state});
    product_cpu({.a = cell.gates,
                 .a_row = 1,
                 .a_column = G,
                 .b = cell.before,
                 .b_row = H,
                 .c = grad.memory[c],
                 .c_row = H,
                 .rows = G,
                 .columns = H,
                 .depth = L_ * B_,
                 .add = true});
  }
  for (int64_t p = 0; p < panels(); ++p) {
    rows_to_columns(panel(p), cell.gates + p * kPanelRows * G, G, panel(p).gates(c));
    network_->backward_gates(panel(p), c, grad);
  }
}

}  // namespace maglev
