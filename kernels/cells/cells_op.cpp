#include "kernels/cells/cells_op.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/aten_only.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/cells/cells.h"

namespace maglev {
namespace {

template <class T>
void convert_cells(const at::Tensor& packed, const at::Tensor& table, at::Tensor& out,
                   const CellCoding& cells) {
  const at::Device device = device_of("cells", out, packed, table);
  const CellsArgs<T> args{.packed = packed.const_data_ptr<uint8_t>(),
                          .table = static_cast<const T*>(table.const_data_ptr()),
                          .out = static_cast<T*>(out.data_ptr()),
                          .rows = packed.size(0),
                          .row_bytes = packed.size(1),
                          .cells = cells.grid[0] * cells.grid[1],
                          .channels = cells.channels,
                          .bits = cells.bits};
  launch<cells_cuda<T>>(
      "cells", device, [](const CellsArgs<T>& a) { cells_cpu(a); }, args);
}

// out [B, H, W, C], contiguous, of the table's dtype
void decode_cells_(at::Tensor& out, const at::Tensor& packed, const at::Tensor& table,
                   const CellCoding& cells) {
  MAGLEV_ASSERT(packed.dim() == 2 && packed.is_contiguous() &&
                    packed.size(1) * 8 >= cells.grid[0] * cells.grid[1] * cells.bits,
                "a row of bytes holds the grid's cells");
  MAGLEV_ASSERT(table.is_contiguous() && table.numel() == 256 * (8 / cells.bits) * cells.channels,
                "[256, 8 / bits * channels]");
  if (table.scalar_type() == at::kFloat) return convert_cells<float>(packed, table, out, cells);
  MAGLEV_ASSERT(table.scalar_type() == at::kBFloat16, "f32 or bf16");
  convert_cells<uint16_t>(packed, table, out, cells);
}

at::Tensor empty_output(const at::Tensor& packed, const at::Tensor& table,
                        const CellCoding& cells) {
  return at::empty({packed.size(0), cells.grid[0], cells.grid[1], cells.channels}, table.options());
}

// codes by shift and mask, channels by their code
at::Tensor cells_reference(const at::Tensor& packed, const CellCoding& cells,
                           at::ScalarType dtype) {
  auto palette = at::tensor(cells.policy).view({-1, cells.channels}).to(packed.device(), dtype);
  auto shifts = at::arange(0, 8, cells.bits, packed.options().dtype(at::kInt));
  auto codes = at::bitwise_and(at::bitwise_right_shift(packed.to(at::kInt).unsqueeze(2), shifts),
                               (1 << cells.bits) - 1);
  auto flat = codes.flatten(1).narrow(1, 0, cells.grid[0] * cells.grid[1]).reshape(-1);
  return palette.index_select(0, flat).view(
      {packed.size(0), cells.grid[0], cells.grid[1], cells.channels});
}

// what each byte stands for, side by side: behind the last cell a byte may hold more
at::Tensor by_table(const at::Tensor& packed, const at::Tensor& table, const CellCoding& cells) {
  const int64_t H = cells.grid[0], W = cells.grid[1], C = cells.channels;
  const auto bytes = at::index_select(table, 0, packed.to(at::kInt).reshape(-1));
  return bytes.view({packed.size(0), -1}).narrow(1, 0, H * W * C).reshape({-1, H, W, C});
}

struct CellsShape {
  int64_t rows;
  CellCoding cells;
  at::ScalarType dtype = at::kFloat;
};

CellCoding coding(int bits, int64_t side, int channels) {
  CellCoding cells{.bits = bits, .grid = {side, side}, .channels = channels};
  for (int i = 0; i < (1 << bits) * channels; ++i)
    cells.policy.push_back(float((i * 7) % 11) / 3 - 1);
  return cells;
}

std::vector<KernelCase> cells_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (const CellsShape& s : {CellsShape{1, coding(1, 1, 1)},
                              {7, coding(8, 3, 3)},
                              {33, coding(4, 11, 7)},
                              {256, coding(2, 11, 2)},
                              {4096, coding(2, 11, 2)},
                              {4096, coding(2, 11, 2), at::kBFloat16}}) {
    const int64_t cells = s.cells.grid[0] * s.cells.grid[1], bytes = (cells * s.cells.bits + 7) / 8;
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.rows));
    auto packed =
        at::randint(0, 256, {s.rows, bytes}, gen, at::TensorOptions(at::kByte)).to(device);
    auto table = make_cell_table(s.cells, s.cells.policy).to(device, s.dtype);
    auto out = empty_output(packed, table, s.cells);
    list.push_back(
        {.name = std::to_string(s.cells.bits) + " bits, rows=" + std::to_string(s.rows) +
                 " cells=" + std::to_string(cells) + " C=" + std::to_string(s.cells.channels) +
                 (s.dtype == at::kFloat ? "" : " bf16"),
         .reference =
             [=](const Tensors&) { return Tensors{cells_reference(packed, s.cells, s.dtype)}; },
         .fused = [=](const Tensors&) { return Tensors{decode_cells(packed, table, s.cells)}; },
         .tolerance = 0,
         .bytes = packed.numel() + out.numel() * int64_t(out.element_size()),
         .repeat_fused = [=]() mutable { decode_cells_(out, packed, table, s.cells); }});
  }
  return list;
}

}  // namespace

at::Tensor make_cell_table(const CellCoding& cells, const std::vector<float>& palette) {
  const auto values = cell_table(cells.bits, cells.channels, palette);
  return at::tensor(values).view({256, -1});
}

at::Tensor decode_cells(const at::Tensor& packed, const at::Tensor& table,
                        const CellCoding& cells) {
  if (AtenOnly::on() || table.scalar_type() == at::kByte) return by_table(packed, table, cells);
  auto out = empty_output(packed, table, cells);
  decode_cells_(out, packed.contiguous(), table, cells);
  return out;
}

namespace kernels::cells {
KernelEntry entry() {
  return {"cells", "packed cell codes into channels, for networks", cells_cases};
}
}  // namespace kernels::cells

}  // namespace maglev
