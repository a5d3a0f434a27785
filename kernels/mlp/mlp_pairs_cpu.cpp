#include "kernels/mlp/mlp_pairs.h"

#include "kernels/dense/dense_bf16.h"
#include "kernels/dense_grad/dense_grad_bf16.h"

namespace maglev {
namespace {

// where things lie in the scratch of a way back: pairs of outputs first
struct GradScratch {
  int64_t rows, columns, end;

  GradScratch(int64_t in, int64_t out)
      : rows(words_of_features(out) * kPanelRows),
        columns(rows + pair_blocks_size(out, kPanelRows / 2)),
        end(columns + dense_columns_size(in, kPanelRows) / 2) {}
};

}  // namespace

int64_t pair_scratch_size(int64_t in, int64_t out) { return GradScratch(in, out).end; }

void round_to_pairs(const DenseLayer& layer, PairSide side) {
  const auto pack = [&](int64_t out, int64_t in, int64_t out_step, int64_t in_step,
                        uint32_t* packed) {
    pack_dense_bf16({.weight = layer.weight,
                     .out = out,
                     .in = in,
                     .out_step = out_step,
                     .in_step = in_step,
                     .pairs = words_of_features(in),
                     .first = 0,
                     .packed = packed});
  };
  if (side == PairSide::forward) pack(layer.out, layer.in, layer.in, 1, layer.pairs.forward);
  else pack(layer.in, layer.out, 1, layer.in, layer.pairs.back);
}

void multiply_forward(const DenseLayer& layer, const float* x, int64_t stride, uint32_t* words,
                      float* y) {
  const int64_t depth = words_of_features(layer.in);
  panel_to_pairs(x, layer.in, stride, stride, words);
  const PairPiece piece{layer.pairs.forward, words, depth};
  multiply_pairs(
      {.pieces = {&piece, 1},
       .a_rows = pair_blocks_size(kPairBlock, depth),
       .b_row = stride,
       .rows = layer.out,
       .columns = stride,  // padding too: it follows from x's and not from what was there
       .start = layer.bias,
       .y = y,
       .y_row = stride});
}

PairGrad add_pair_grads(const DenseLayer& layer, const uint32_t* x, const float* dz, int64_t stride,
                        uint32_t* scratch, const DenseGrad& grad) {
  const GradScratch at(layer.in, layer.out);
  // outputs in pairs for the inputs' gradient, rows in pairs for the weights'
  dense_grad_pairs_cpu({.dz = dz,
                        .out = layer.out,
                        .stride = stride,
                        .pairs = scratch,
                        .rows = scratch + at.rows,
                        .d_bias = grad.bias});
  dense_columns_bf16_cpu(
      {.x = x, .in = layer.in, .stride = stride, .columns = scratch + at.columns});
  dense_weight_grad_bf16_cpu({.columns = scratch + at.columns,
                              .columns_step = 0,
                              .dz = scratch + at.rows,
                              .dz_step = 0,
                              .panels = 1,
                              .stride = stride,
                              .in = layer.in,
                              .first = 0,
                              .count = layer.out,
                              .d_weight = grad.weight,
                              .add = true});
  return {scratch};
}

void multiply_back(const DenseLayer& layer, const PairGrad& dz, int64_t features, int64_t stride,
                   float* dx) {
  dense_input_grad_bf16_cpu({.weight = layer.pairs.back,
                             .out = layer.out,
                             .dz = dz.words,
                             .first = 0,
                             .features = features,
                             .dx = dx,
                             .add = false,
                             .stride = stride});
}

}  // namespace maglev
