#include "networks/exported/computation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"

namespace maglev::networks::exported {
namespace {

// zeros of so many rows of everything it takes
std::vector<c10::IValue> zeros_of(const Graph& graph, int64_t rows) {
  std::vector<c10::IValue> inputs;
  for (const Input& input : graph.inputs) {
    std::vector<int64_t> sizes{rows};
    sizes.insert(sizes.end(), input.shape.begin(), input.shape.end());
    const bool image = input.part == Part::image;
    inputs.emplace_back(
        at::zeros(sizes, at::TensorOptions(at::kFloat))
            .contiguous(image ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous));
  }
  return inputs;
}

void expect_sizes(const Graph& graph, const char* what, const c10::IValue& made, int64_t rows,
                  int64_t columns) {
  const std::string wanted = std::string(what) + " must be [" + std::to_string(rows) + ", " +
                             std::to_string(columns) + "] for as many rows, got ";
  if (!made.isTensor()) throw graph.wrong(wanted + made.tagKind());
  if (made.toTensor().sizes() != at::IntArrayRef{rows, columns})
    throw graph.wrong(wanted + c10::str(made.toTensor().sizes()));
}

// of each slot whether it is a tensor [rows, ...], by its sizes for two numbers of rows
std::vector<bool> rows_first(const SlotSizes& few, int64_t few_rows, const SlotSizes& more,
                             int64_t more_rows) {
  std::vector<bool> first(few.size());
  for (size_t s = 0; s < few.size(); ++s) {
    if (!few[s] || !more[s] || few[s]->empty() || few[s]->size() != more[s]->size()) continue;
    first[s] = few[s]->front() == few_rows && more[s]->front() == more_rows &&
               std::equal(few[s]->begin() + 1, few[s]->end(), more[s]->begin() + 1);
  }
  return first;
}

}  // namespace

Computation::Computation(const std::string& path)
    : graph_(path),
      ways_{way({graph_.policy_slot()}), way({graph_.value_head.slot}),
            way({graph_.policy_slot(), graph_.value_head.slot})} {}

Computation::Way Computation::way(const std::vector<int64_t>& outputs) const {
  std::vector<int64_t> inputs(graph_.inputs.size()), all = outputs;
  std::iota(inputs.begin(), inputs.end(), 0);
  if (graph_.memory >= 0) all.push_back(graph_.memory);
  return {outputs, Program(graph_, inputs, all), std::nullopt};
}

void Computation::try_out(const std::vector<at::Tensor>& weights, int64_t policy, int64_t value) {
  at::NoGradGuard no_grad;
  const Program& both = whole({});
  constexpr std::array<int64_t, 3> kRows{1, 3, 5};
  std::array<SlotSizes, 3> sizes;
  for (size_t t = 0; t < kRows.size(); ++t) {
    const int64_t rows = kRows[t];
    const auto made = both.try_out(graph_, weights, zeros_of(graph_, rows), sizes[t]);
    expect_sizes(graph_,
                 graph_.policy_head ? "what its last policy layer takes" : "its logits or means",
                 made[0], rows, policy);
    expect_sizes(graph_, "what its last value layer takes", made[1], rows, value);
    if (graph_.memory >= 0)
      expect_sizes(graph_, "what it remembers", made[2], rows, graph_.memory_size());
  }
  if (graph_.memory < 0) return;
  const auto per_row = rows_first(sizes[1], kRows[1], sizes[2], kRows[2]);
  for (Way& way : ways_) way.steps.emplace(graph_, way.outputs, per_row);
}

std::vector<at::Tensor> Computation::run(Want want, const std::vector<at::Tensor>& weights,
                                         std::vector<c10::IValue> inputs, Recall* recall,
                                         std::vector<LayerOutput>* layers) const {
  const Way& way = ways_[index(want)];
  MAGLEV_ASSERT((recall != nullptr) == way.steps.has_value(), "what remembers is given a memory");
  const auto made = recall ? way.steps->run(weights, std::move(inputs), *recall, layers)
                           : way.whole.run(weights, std::move(inputs), layers);
  std::vector<at::Tensor> tensors;
  for (size_t o = 0; o < way.outputs.size(); ++o) tensors.push_back(made[o].toTensor());
  return tensors;
}

}  // namespace maglev::networks::exported
