#pragma once
// Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017) within sequences
// of few rows and different lengths, which lie one behind another. For each head of a sequence:
//   weights = softmax(q k^T / sqrt(width))     out = weights v

#include <cstdint>

namespace maglev {

/// Rows of a sequence at most.
constexpr int64_t kMostAttended = 32;
/// Numbers that a row of weights takes of `most`: whole vectors.
constexpr int64_t attention_weights(int64_t most) { return (most + 15) / 16 * 16; }

struct AttentionArgs {
  int64_t sequences, heads, width;  ///< width: of a head
  const int32_t* offsets;  ///< [sequences + 1], where each begins; each has 1 to `most` rows
  int64_t most;            ///< at most kMostAttended
  const float *q, *k, *v;  ///< rows of heads * width numbers
  int64_t q_row, kv_row;   ///< numbers from a row to the next
  bool pooled;     ///< q is one row, asked by every sequence once; else each of its rows asks
  float* out;      ///< [sequences if pooled, else rows, heads * width], written
  float* weights;  ///< [as out, heads, attention_weights(most)], written, 0 behind a sequence's
};
void attention_cpu(const AttentionArgs& args);

struct AttentionBack {
  AttentionArgs of;    ///< weights as above, out is not read
  const float* d_out;  ///< as out
  float* d_q;          ///< as q, or [sequences, heads * width] if pooled: each one's; written
  int64_t d_q_row;
  float *d_k, *d_v;  ///< as k and v, written; where both are one, their sum
};
void attention_back_cpu(const AttentionBack& args);

}  // namespace maglev
