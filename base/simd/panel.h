#pragma once
// Panels: activations of a few rows stored feature-major, x[f * stride + r] = feature f of row r,
// so that a vector lane is a row and heads of two categories fill vectors as well as heads of
// twenty.

#include <cstdint>

namespace maglev {

/// Rows a panel has at most.
constexpr int64_t kPanelRows = 64;

/// Categorical heads a policy may have on a CUDA device.
constexpr int64_t kMostDeviceHeads = 64;

/// What a policy says about the rows of a panel. Pointers of panels are aligned to 64 bytes and
/// `stride` is a multiple of 16 floats; columns in [rows, stride) are padding: readable, finite,
/// and never part of a result. A row's numbers do not depend on its place nor on the other rows.
struct PolicyPanel {
  const int64_t* heads;  ///< [head_count], categories of each categorical head
  int64_t head_count;    ///< 0: diagonal Gaussian
  int64_t dims;          ///< action columns: heads, or dimensions of the Gaussian
  const float* logits;   ///< [categories of all heads, or dims][stride]; the Gaussian's mean
  int64_t stride;        ///< at least rows
  const float* log_std;  ///< [dims], Gaussian
  const uint8_t* mask;   ///< [rows, mask_width] row-major, 0 excludes; null: all allowed
  int64_t mask_width;    ///< categories of all heads
  int64_t rows;          ///< 1 to kPanelRows
};

/// Categories of all heads, or the Gaussian's dimensions: features of `logits`.
inline int64_t panel_width(const PolicyPanel& p) {
  int64_t width = p.head_count == 0 ? p.dims : 0;
  for (int64_t h = 0; h < p.head_count; ++h) width += p.heads[h];
  return width;
}

/// rows [count, width] row-major to a panel [width][kPanelRows] with zeros as padding.
inline void rows_to_panel(const float* rows, int64_t count, int64_t width, float* panel) {
  for (int64_t f = 0; f < width; ++f)
    for (int64_t r = 0; r < kPanelRows; ++r)
      panel[f * kPanelRows + r] = r < count ? rows[r * width + f] : 0.f;
}

/// And back.
inline void panel_to_rows(const float* panel, int64_t count, int64_t width, float* rows) {
  for (int64_t r = 0; r < count; ++r)
    for (int64_t f = 0; f < width; ++f) rows[r * width + f] = panel[f * kPanelRows + r];
}

}  // namespace maglev
