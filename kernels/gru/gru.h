#pragma once
// A gated recurrent unit (Cho et al., "Learning phrase representations using RNN encoder-decoder",
// 2014) in blocks, from the products of its gates on, as Dreamer V3 has it:
//   reset = sigmoid(gate 0)   candidate = tanh(reset * gate 1)   update = sigmoid(gate 2 - 1)
//   next = update * candidate + (1 - update) * h

#include <cstdint>

#include "kernels/gru/carried.h"

namespace maglev {

struct GruArgs {
  int64_t rows, blocks, width;  ///< h has blocks * width elements
  const float* gates;  ///< gates [3][width] of a block begin at g * gates_block + r * gates_row
  int64_t gates_block, gates_row;
  const float* bias;  ///< [blocks][3][width], added to the gates
  const float* h;     ///< [rows][h_row]
  int64_t h_row;
  float* next;  ///< [rows][next_row], written
  int64_t next_row;
  Carried<float> carried = {};  ///< written, of `next`
};

struct GruBack {
  GruArgs forward;      ///< as it was; neither `next` nor what is carried is read
  const float* d_next;  ///< [rows][d_next_row]
  int64_t d_next_row;
  Carried<const float> d_carried = {};  ///< added times keep; may lie where d_h does
  float* d_gates;                       ///< laid out as gates, by strides of its own; written
  int64_t d_gates_block, d_gates_row;
  float* d_h;  ///< [rows][d_h_row], written: by the way past the gates
  int64_t d_h_row;
};

void gru_cpu(const GruArgs& args);
void gru_back_cpu(const GruBack& args);
/// On `stream` (a cudaStream_t); return a cudaError_t. Only in builds with device code.
int gru_cuda(const GruArgs& args, void* stream);
int gru_back_cuda(const GruBack& args, void* stream);

}  // namespace maglev
