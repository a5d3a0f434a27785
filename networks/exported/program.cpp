#include "networks/exported/program.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"

namespace maglev::networks::exported {
namespace {

using Values = std::vector<c10::IValue>;

/// What a pass has so far.
struct Taker {
  const std::vector<at::Tensor>& weights;
  Values& values;
  at::Device device;

  c10::IValue operator()(const Operand& operand) const {
    if (operand.weight >= 0) return weights[size_t(operand.weight)];
    if (operand.slot < 0) return operand.constant;
    c10::IValue& value = values[size_t(operand.slot)];
    return operand.last ? std::move(value) : value;
  }
  template <class T>
  c10::List<T> list(const Argument& argument) const {
    c10::List<T> list;
    list.reserve(argument.parts.size());
    for (const Operand& part : argument.parts) list.push_back((*this)(part).to<T>());
    return list;
  }
  c10::IValue operator()(const Argument& argument) const {
    switch (argument.kind) {
      case Argument::Kind::one:
        return (*this)(argument.parts[0]);
      case Argument::Kind::device:
        return device;
      case Argument::Kind::integers:
        return list<int64_t>(argument);
      case Argument::Kind::tensors:
        return list<at::Tensor>(argument);
      case Argument::Kind::maybe_tensors:
        return list<std::optional<at::Tensor>>(argument);
    }
    return {};
  }
};

// of a tensor and a dimension, several tensors and a place, or two sizes
c10::IValue worked_out(Node::Work work, const c10::IValue& a, int64_t b) {
  if (work == Node::Work::size) return a.toTensor().size(b);
  if (work == Node::Work::item) {
    const auto items = a.toListRef();
    if (b < 0 || size_t(b) >= items.size())
      throw Error("there is no result " + std::to_string(b) + " of " +
                  std::to_string(items.size()));
    return items[size_t(b)].toTensor();
  }
  const int64_t x = a.toInt();
  const bool divides = work == Node::Work::floordiv || work == Node::Work::mod;
  if (divides && b < 1) throw Error("sizes are divided by whole numbers from 1 on");
  int64_t made = 0;
  bool too_large = false;
  switch (work) {
    case Node::Work::add:
      too_large = __builtin_add_overflow(x, b, &made);
      break;
    case Node::Work::sub:
      too_large = __builtin_sub_overflow(x, b, &made);
      break;
    case Node::Work::mul:
      too_large = __builtin_mul_overflow(x, b, &made);
      break;
    // as Python rounds
    case Node::Work::floordiv:
      made = x / b - (x % b < 0);
      break;
    default:
      made = x % b + (x % b < 0 ? b : 0);
  }
  if (too_large) throw Error("a size does not fit 64 bits");
  return made;
}

}  // namespace

Program::Program(const Graph& graph, std::vector<int64_t> given, std::vector<int64_t> outputs)
    : given_(std::move(given)), outputs_(std::move(outputs)), needed_(size_t(graph.slots)) {
  // backwards: what is needed, and who reads a value last
  std::vector<bool> there(size_t(graph.slots));
  for (int64_t slot : given_) there[size_t(slot)] = true;
  for (int64_t slot : outputs_) needed_[size_t(slot)] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    Node node = graph.nodes[n];
    bool wanted = false;
    for (int64_t slot = node.slot; slot < node.slot + node.results; ++slot)
      wanted = wanted || (needed_[size_t(slot)] && !there[size_t(slot)]);
    if (!wanted) continue;
    for (size_t a = node.arguments.size(); a-- > 0;)
      for (size_t p = node.arguments[a].parts.size(); p-- > 0;) {
        Operand& part = node.arguments[a].parts[p];
        if (part.slot < 0) continue;
        part.last = !needed_[size_t(part.slot)];
        needed_[size_t(part.slot)] = true;
      }
    nodes_.push_back(std::move(node));
  }
  std::ranges::reverse(nodes_);
}

bool Program::needs(int64_t weight) const {
  return std::ranges::any_of(nodes_, [&](const Node& node) {
    return std::ranges::find(node.weights, weight) != node.weights.end();
  });
}

Program::Pass Program::begin(const std::vector<at::Tensor>& weights,
                             std::vector<c10::IValue> given) const {
  Pass pass{.weights = weights, .values = Values(needed_.size()), .stack = {}, .device = at::kCPU};
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].isTensor() && given[i].toTensor().defined())
      pass.device = given[i].toTensor().device();
    pass.values[size_t(given_[i])] = std::move(given[i]);
  }
  return pass;
}

std::vector<c10::IValue> Program::end(const Pass& pass) const {
  std::vector<c10::IValue> made;
  for (int64_t slot : outputs_) made.push_back(pass.values[size_t(slot)]);
  return made;
}

void Program::step(const Node& node, Pass& pass) {
  const Taker take{pass.weights, pass.values, pass.device};
  if (!node.operation) {
    const c10::IValue a = take(node.arguments[0].parts[0]);
    const int64_t b = take(node.arguments[1].parts[0]).toInt();
    pass.values[size_t(node.slot)] = worked_out(node.work, a, b);
    return;
  }
  pass.stack.clear();
  for (const Argument& argument : node.arguments) pass.stack.push_back(take(argument));
  node.operation->callBoxed(pass.stack);
  for (size_t r = 0; r < pass.stack.size(); ++r)
    pass.values[size_t(node.slot) + r] = std::move(pass.stack[r]);
}

std::vector<c10::IValue> Program::run(const std::vector<at::Tensor>& weights,
                                      std::vector<c10::IValue> given,
                                      std::vector<LayerOutput>* layers) const {
  Pass pass = begin(weights, std::move(given));
  for (const Node& node : nodes_) {
    step(node, pass);
    if (!layers || node.layer.empty()) continue;
    const c10::IValue& made = pass.values[size_t(node.slot)];
    if (made.isTensor()) layers->push_back({node.layer, made.toTensor()});
  }
  return end(pass);
}

std::vector<c10::IValue> Program::try_out(const Graph& graph,
                                          const std::vector<at::Tensor>& weights,
                                          std::vector<c10::IValue> given, SlotSizes& sizes) const {
  Pass pass = begin(weights, std::move(given));
  sizes.assign(pass.values.size(), std::nullopt);
  const auto note = [&](int64_t slot) {
    if (const c10::IValue& value = pass.values[size_t(slot)]; value.isTensor())
      sizes[size_t(slot)] = value.toTensor().sizes().vec();
  };
  for (int64_t slot : given_) note(slot);
  for (const Node& node : nodes_) {
    const auto refused = [&](const std::string& why) {
      return graph.wrong("its operation '" + node.name + "' does not run: " + why);
    };
    try {
      step(node, pass);
      for (int64_t slot = node.slot; slot < node.slot + node.results; ++slot) note(slot);
    } catch (const Error& e) {
      throw refused(e.what());
    } catch (const c10::Error& e) {
      const std::string what = e.what_without_backtrace();
      throw refused(what.substr(0, what.find('\n')));
    } catch (const std::exception& e) {
      throw refused(e.what());
    }
  }
  return end(pass);
}

}  // namespace maglev::networks::exported
