#include "networks/exported/steps.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/nn/autocast.h"

namespace maglev::networks::exported {
namespace {

using Slots = std::vector<int64_t>;

Slots joined(Slots a, const Slots& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void add_once(Slots& slots, int64_t slot) {
  if (std::ranges::find(slots, slot) == slots.end()) slots.push_back(slot);
}

/// Who makes and who takes values.
class Ways {
 public:
  explicit Ways(const Graph& graph) : graph_(graph), makers_(size_t(graph.slots), -1) {
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      for (int64_t r = 0; r < graph.nodes[n].results; ++r)
        makers_[size_t(graph.nodes[n].slot + r)] = int64_t(n);
  }
  /// -1: an input.
  int64_t maker(int64_t slot) const { return makers_[size_t(slot)]; }
  static void each_taken(const Node& node, const std::function<void(int64_t slot)>& visit) {
    for (const Argument& argument : node.arguments)
      for (const Operand& part : argument.parts)
        if (part.slot >= 0) visit(part.slot);
  }
  /// Visits slots and, where `visit` says so, what their makers take; each once.
  void walk(Slots open, const std::function<bool(int64_t slot)>& visit) const {
    std::vector<bool> seen(makers_.size());
    while (!open.empty()) {
      const int64_t slot = open.back();
      open.pop_back();
      if (seen[size_t(slot)]) continue;
      seen[size_t(slot)] = true;
      if (!visit(slot) || maker(slot) < 0) continue;
      each_taken(graph_.nodes[size_t(maker(slot))], [&](int64_t taken) { open.push_back(taken); });
    }
  }

 private:
  const Graph& graph_;
  Slots makers_;  ///< of each slot a node
};

// of each slot whether it follows from the memory
std::vector<bool> remembered(const Graph& graph) {
  std::vector<bool> follows(size_t(graph.slots));
  follows[size_t(graph.input_of(Part::memory))] = true;
  for (const Node& node : graph.nodes) {
    bool any = false;
    Ways::each_taken(node, [&](int64_t slot) { any = any || follows[size_t(slot)]; });
    for (int64_t r = 0; r < node.results; ++r) follows[size_t(node.slot + r)] = any;
  }
  return follows;
}

// nodes that go step by step: what leads from the memory to the next one, and what takes of that
// something that is no tensor of rows, which steps cannot be joined by
std::vector<bool> stepwise(const Graph& graph, const Ways& ways, const std::vector<bool>& follows,
                           const std::vector<bool>& per_row) {
  std::vector<bool> steps(graph.nodes.size());
  const auto add_all_to = [&](Slots slots) {
    ways.walk(std::move(slots), [&](int64_t slot) {
      if (!follows[size_t(slot)]) return false;
      if (ways.maker(slot) >= 0) steps[size_t(ways.maker(slot))] = true;
      return true;
    });
  };
  add_all_to({graph.memory});
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (steps[n]) continue;
      bool takes = false;
      Ways::each_taken(graph.nodes[n], [&](int64_t slot) {
        const int64_t maker = ways.maker(slot);
        takes = takes || (!per_row[size_t(slot)] && maker >= 0 && steps[size_t(maker)]);
      });
      if (takes) add_all_to({graph.nodes[n].slot}), changed = true;
    }
  }
  return steps;
}

// a value of all steps as one for each
std::vector<at::Tensor> by_step(const at::Tensor& all, int64_t L) {
  // what is remembered is f32, and so is what it is made of
  const at::Tensor x = at::isReducedFloatingType(all.scalar_type()) ? all.to(at::kFloat) : all;
  if (L == 1) return {x};
  return x.unflatten(0, {L, x.size(0) / L}).unbind(0);
}

}  // namespace

Steps::Steps(const Graph& graph, const std::vector<int64_t>& outputs,
             const std::vector<bool>& per_row)
    : Steps(graph, outputs, cut(graph, outputs, per_row)) {}

Steps::Steps(const Graph& graph, const std::vector<int64_t>& outputs, Cut cut)
    : memory_input_(size_t(graph.input_of(Part::memory))),
      seen_(cut.seen.size()),
      before_(graph, cut.inputs, joined(cut.seen, cut.past)),
      step_(graph, joined({int64_t(memory_input_)}, cut.seen), joined({graph.memory}, cut.given)),
      behind_(graph, joined(cut.past, cut.given), outputs) {}

Steps::Cut Steps::cut(const Graph& graph, const std::vector<int64_t>& outputs,
                      const std::vector<bool>& per_row) {
  const Ways ways(graph);
  const std::vector<bool> follows = remembered(graph);
  const std::vector<bool> steps = stepwise(graph, ways, follows, per_row);
  Cut cut;
  const int64_t memory = graph.input_of(Part::memory);
  for (int64_t i = 0; i < int64_t(graph.inputs.size()); ++i)
    if (i != memory) cut.inputs.push_back(i);
  // back from the outputs, as far as the memory or what has nothing to do with it
  ways.walk(outputs, [&](int64_t slot) {
    const int64_t maker = ways.maker(slot);
    if (!follows[size_t(slot)]) return add_once(cut.past, slot), false;
    if (maker >= 0 && !steps[size_t(maker)]) return true;
    return add_once(cut.given, slot), false;
  });
  // back from there through steps; sizes and the like are each step's own
  ways.walk(joined({graph.memory}, cut.given), [&](int64_t slot) {
    if (follows[size_t(slot)] || !per_row[size_t(slot)]) return true;
    return add_once(cut.seen, slot), false;
  });
  return cut;
}

std::vector<c10::IValue> Steps::run(const std::vector<at::Tensor>& weights,
                                    std::vector<c10::IValue> inputs, Recall& recall,
                                    std::vector<LayerOutput>* layers) const {
  inputs.erase(inputs.begin() + int64_t(memory_input_));
  std::vector<c10::IValue> past = before_.run(weights, std::move(inputs), layers);

  // what each step sees of that
  const int64_t L = recall.is_first.size(0);
  std::vector<std::vector<at::Tensor>> seen;
  for (size_t s = 0; s < seen_; ++s) seen.push_back(by_step(past[s].toTensor(), L));
  past.erase(past.begin(), past.begin() + int64_t(seen_));

  // step by step, behind an empty memory where an episode begins
  std::vector<std::vector<at::Tensor>> given;
  {
    const WithoutAutocast exact(recall.state.device());
    const at::Tensor keep = (1 - recall.is_first.to(at::kFloat)).unsqueeze(2);
    for (int64_t l = 0; l < L; ++l) {
      std::vector<c10::IValue> taken{recall.state * keep.select(0, l)};
      for (const auto& steps : seen) taken.emplace_back(steps[size_t(l)]);
      const auto made = step_.run(weights, std::move(taken), layers);
      recall.state = made[0].toTensor().to(at::kFloat);
      given.resize(made.size() - 1);
      for (size_t g = 0; g < given.size(); ++g) given[g].push_back(made[g + 1].toTensor());
    }
  }

  // what follows of all steps
  for (const auto& steps : given) past.emplace_back(L == 1 ? steps[0] : at::cat(steps, 0));
  return behind_.run(weights, std::move(past), layers);
}

}  // namespace maglev::networks::exported
