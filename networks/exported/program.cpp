#include "networks/exported/program.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"

namespace maglev::networks::exported {
namespace {

using Values = std::vector<c10::IValue>;

c10::IValue taken(const Operand& operand, Values& values) {
  if (operand.slot < 0) return operand.constant;
  c10::IValue& value = values[size_t(operand.slot)];
  return operand.last ? std::move(value) : value;
}

template <class T>
c10::List<T> list_taken(const Argument& argument, Values& values) {
  c10::List<T> list;
  list.reserve(argument.parts.size());
  for (const Operand& part : argument.parts) list.push_back(taken(part, values).to<T>());
  return list;
}

c10::IValue argument_taken(const Argument& argument, Values& values, at::Device device) {
  switch (argument.kind) {
    case Argument::Kind::one:
      return taken(argument.parts[0], values);
    case Argument::Kind::device:
      return device;
    case Argument::Kind::integers:
      return list_taken<int64_t>(argument, values);
    case Argument::Kind::tensors:
      return list_taken<at::Tensor>(argument, values);
    case Argument::Kind::maybe_tensors:
      return list_taken<std::optional<at::Tensor>>(argument, values);
  }
  return {};
}

// of a tensor and a dimension, several tensors and a place, or two sizes
c10::IValue worked_out(Node::Work work, const c10::IValue& a, int64_t b) {
  if (work == Node::Work::size) return a.toTensor().size(b);
  if (work == Node::Work::item) return a.toListRef().at(size_t(b)).toTensor();
  const int64_t x = a.toInt();
  const bool divides = work == Node::Work::floordiv || work == Node::Work::mod;
  if (divides && b < 1) throw Error("sizes are divided by whole numbers from 1 on");
  // as Python rounds
  const int64_t rest = divides ? ((x % b) + b) % b : 0;
  switch (work) {
    case Node::Work::add:
      return x + b;
    case Node::Work::sub:
      return x - b;
    case Node::Work::mul:
      return x * b;
    case Node::Work::floordiv:
      return (x - rest) / b;
    default:
      return rest;
  }
}

}  // namespace

Program::Program(const Graph& graph, const std::vector<int64_t>& outputs)
    : inputs_(graph.inputs.size()), outputs_(outputs), slots_(size_t(graph.slots)) {
  // backwards: what is needed, and who reads a value last
  std::vector<bool> needed(slots_);
  for (int64_t slot : outputs) needed[size_t(slot)] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    Node node = graph.nodes[n];
    bool wanted = false;
    for (int64_t r = 0; r < node.results; ++r) wanted = wanted || needed[size_t(node.slot + r)];
    if (!wanted) continue;
    for (size_t a = node.arguments.size(); a-- > 0;)
      for (size_t p = node.arguments[a].parts.size(); p-- > 0;) {
        Operand& part = node.arguments[a].parts[p];
        if (part.slot < 0) continue;
        part.last = !needed[size_t(part.slot)];
        needed[size_t(part.slot)] = true;
      }
    nodes_.push_back(std::move(node));
  }
  std::ranges::reverse(nodes_);
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i] = needed[i];
}

bool Program::needs(const std::string& weight) const {
  return std::ranges::any_of(nodes_, [&](const Node& node) {
    return std::ranges::find(node.weights, weight) != node.weights.end();
  });
}

Program::Pass Program::begin(const std::vector<at::Tensor>& inputs) const {
  Pass pass{.values = Values(slots_), .stack = {}, .device = at::kCPU};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    pass.values[i] = inputs[i];
    pass.device = inputs[i].device();
  }
  return pass;
}

std::vector<at::Tensor> Program::end(const Pass& pass) const {
  std::vector<at::Tensor> made;
  for (int64_t slot : outputs_) made.push_back(pass.values[size_t(slot)].toTensor());
  return made;
}

void Program::step(const Node& node, Pass& pass) {
  Values& values = pass.values;
  if (!node.operation) {
    const c10::IValue a = taken(node.arguments[0].parts[0], values);
    const int64_t b = taken(node.arguments[1].parts[0], values).toInt();
    values[size_t(node.slot)] = worked_out(node.work, a, b);
    return;
  }
  pass.stack.clear();
  for (const Argument& argument : node.arguments)
    pass.stack.push_back(argument_taken(argument, values, pass.device));
  node.operation->callBoxed(pass.stack);
  for (size_t r = 0; r < pass.stack.size(); ++r)
    values[size_t(node.slot) + r] = std::move(pass.stack[r]);
}

std::vector<at::Tensor> Program::run(const std::vector<at::Tensor>& inputs,
                                     std::vector<LayerOutput>* layers) const {
  Pass pass = begin(inputs);
  for (const Node& node : nodes_) {
    step(node, pass);
    if (layers && !node.layer.empty())
      layers->push_back({node.layer, pass.values[size_t(node.slot)].toTensor()});
  }
  return end(pass);
}

std::vector<at::Tensor> Program::try_out(const Graph& graph,
                                         const std::vector<at::Tensor>& inputs) const {
  Pass pass = begin(inputs);
  for (const Node& node : nodes_) {
    const auto refused = [&](const std::string& why) {
      return graph.wrong("its operation '" + node.name + "' does not run: " + why);
    };
    try {
      step(node, pass);
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
