#include "networks/exported/graph.h"

#include <algorithm>
#include <utility>

#include <ATen/core/jit_type.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/hash.h"
#include "base/core/safetensors.h"

namespace maglev::networks::exported {
namespace {

using Json = nlohmann::json;

constexpr const char* kKey = "maglev_network";
constexpr int64_t kFormat = 1;
constexpr const char* kAgain = "; maglev.save_network writes such files";

at::ScalarType torch_dtype(const SafeTensor& tensor) {
  switch (tensor.dtype) {
    case SafeDType::f32:
      return at::kFloat;
    case SafeDType::f64:
      return at::kDouble;
    case SafeDType::i64:
      return at::kLong;
    case SafeDType::i32:
      return at::kInt;
    case SafeDType::u8:
      return at::kByte;
    case SafeDType::boolean:
      return at::kBool;
    default:
      throw Error("'" + tensor.name +
                  "' is of a type that networks do not have: " + tensor.shape_text());
  }
}

// zeros of `init`, which may be without memory, or what the file has
at::Tensor read_weight(const FileReader& file, const SafeTensor& tensor, const Initializer& init) {
  at::Tensor made = init.weight(tensor.shape).to(torch_dtype(tensor));
  if (!made.is_meta() && tensor.bytes > 0)
    file.read(tensor.begin, {static_cast<std::byte*>(made.data_ptr()), tensor.bytes});
  return made;
}

/// Values by name, as nodes are read one after the other.
class Names {
 public:
  explicit Names(Graph& graph) : graph_(graph) {}

  void give(const std::string& name, int64_t slot) {
    if (graph_.weights.contains(name) || !slots_.emplace(name, slot).second)
      throw Error("'" + name + "' is there twice");
  }
  Operand operator()(const std::string& name, Node& reader) const {
    if (const auto weight = graph_.weights.find(name); weight != graph_.weights.end()) {
      reader.weights.push_back(name);
      const size_t dot = name.rfind('.');
      if (weight->second.learned) reader.layer = dot == name.npos ? name : name.substr(0, dot);
      return {.constant = weight->second.value};
    }
    return {.constant = {}, .slot = slot(name)};
  }
  int64_t slot(const std::string& name) const {
    const auto found = slots_.find(name);
    if (found == slots_.end()) throw Error("there is no '%" + name + "' before it");
    return found->second;
  }

 private:
  Graph& graph_;
  std::map<std::string, int64_t> slots_;
};

Part part_named(const std::string& text) {
  const auto names = names_of(Part());
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) throw Error("networks take an image, a vector or privileged numbers");
  return Part(found - names.begin());
}

std::optional<Node::Work> work_named(const std::string& op) {
  constexpr std::array kWorks{"size", "add", "sub", "mul", "floordiv", "mod", "item"};
  const auto found = std::ranges::find(kWorks, op);
  if (found == kWorks.end()) return std::nullopt;
  return Node::Work(1 + (found - kWorks.begin()));
}

// the result of a node that gives several needs no work: it has a slot of its own
std::optional<int64_t> result_slot(const Graph& graph, const Node& item) {
  const Operand &of = item.arguments[0].parts[0], &which = item.arguments[1].parts[0];
  for (const Node& node : graph.nodes)
    if (const int64_t place = which.slot < 0 ? which.constant.toInt() : -1;
        node.slot == of.slot && node.results > 1 && place >= 0 && place < node.results)
      return node.slot + place;
  return std::nullopt;
}

bool is_view(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(),
                             [](const c10::Argument& r) { return r.alias_info() != nullptr; });
}

void read_node(Graph& graph, Names& names, const Json& json) {
  Node node{.name = json.at("name").get<std::string>()};
  try {
    const auto op = json.at("op").get<std::string>();
    const Find find = [&](const std::string& name) { return names(name, node); };
    if (const auto work = work_named(op)) {
      node.work = *work;
      for (const Json& value : json.at("args"))
        node.arguments.push_back({.parts = {operand_of(value, c10::IntType::get(), find)}});
      if (node.arguments.size() != 2) throw Error(op + " takes two arguments");
      if (node.work == Node::Work::item)
        if (const auto slot = result_slot(graph, node)) return names.give(node.name, *slot);
    } else {
      node.operation = find_operation(op);
      const c10::FunctionSchema& schema = node.operation->schema();
      node.arguments = arguments_of(schema, json, find);
      node.results = int64_t(schema.returns().size());
      node.row = is_view(schema) ? 0 : json.at("row").get<int64_t>();
    }
  } catch (const Error& e) {
    throw Error("its operation '" + node.name + "': " + e.what());
  }
  node.slot = graph.slots;
  graph.slots += node.results;
  names.give(node.name, node.slot);
  graph.nodes.push_back(std::move(node));
}

int64_t slot_named(const Names& names, const Json& text) {
  const auto name = text.get<std::string>();
  return names.slot(name.starts_with('%') ? name.substr(1) : name);
}

Head head_of(const Graph& graph, const Names& names, const Json& json) {
  Head head{.slot = slot_named(names, json.at("input")),
            .weight = json.at("weight").get<std::string>(),
            .bias = json.at("bias").get<std::string>()};
  const at::Tensor &weight = graph.weight(head.weight).value, &bias = graph.weight(head.bias).value;
  if (weight.dim() != 2 || bias.dim() != 1 || bias.size(0) != weight.size(0))
    throw Error("a last layer has a weight [out, in] and a bias [out]");
  return head;
}

// of what is neither a layer's own nor learned there would be two, or one that stays as it is
void expect_own(const Graph& graph) {
  std::vector<std::string> own{graph.value_head.weight, graph.value_head.bias};
  if (graph.policy_head)
    own.insert(own.end(), {graph.policy_head->weight, graph.policy_head->bias});
  if (!graph.log_std.empty()) own.push_back(graph.log_std);
  for (const std::string& name : own) {
    if (!graph.weight(name).learned) throw Error("'" + name + "' must be learned");
    const auto reads = [&](const Node& node) {
      return std::ranges::find(node.weights, name) != node.weights.end();
    };
    if (std::ranges::count(own, name) > 1 || std::ranges::any_of(graph.nodes, reads))
      throw Error("'" + name + "' is a last layer's or log_std, and something else besides");
  }
}

void read_graph(Graph& graph, const Json& json) {
  if (json.at("format").get<int64_t>() != kFormat)
    throw Error("it is of format " + json.at("format").dump() + ", this program reads " +
                std::to_string(kFormat));
  graph.parameters = json.at("parameters").get<std::vector<std::string>>();
  for (const std::string& name : graph.parameters) {
    if (graph.weight(name).value.scalar_type() != at::kFloat)
      throw Error("'" + name + "' is learned, and so must be F32");
    if (std::exchange(graph.weights.at(name).learned, true))
      throw Error("'" + name + "' is learned twice");
  }
  Names names(graph);
  for (const Json& input : json.at("inputs")) {
    graph.inputs.push_back({.name = input.at("name").get<std::string>(),
                            .part = part_named(input.at("of").get<std::string>()),
                            .shape = input.at("shape").get<std::vector<int64_t>>()});
    names.give(graph.inputs.back().name, graph.slots++);
  }
  for (const Json& node : json.at("nodes")) read_node(graph, names, node);
  if (json.contains("policy_head")) graph.policy_head = head_of(graph, names, json["policy_head"]);
  else graph.logits = slot_named(names, json.at("logits"));
  graph.value_head = head_of(graph, names, json.at("value_head"));
  graph.log_std = json.value("log_std", "");
  expect_own(graph);
}

}  // namespace

Graph::Graph(const std::string& file_path, const Initializer& init) : path(file_path) {
  const FileReader file(path);
  const SafeTensors tensors = parse_safetensors(file);
  const auto text = tensors.metadata.find(kKey);
  if (text == tensors.metadata.end())
    throw Error("[" + path + "] has tensors, and no network of them" + kAgain);
  Hash all;
  all.add_text(text->second);
  hash = all.hex();
  std::string torch = "?";
  try {
    for (const SafeTensor& tensor : tensors.tensors)
      weights[tensor.name].value = read_weight(file, tensor, init);
    const Json json = Json::parse(text->second);
    torch = json.value("torch", torch);
    read_graph(*this, json);
  } catch (const nlohmann::json::exception& e) {
    throw wrong(e.what());
  } catch (const Error& e) {
    throw wrong(std::string(e.what()) +
                (torch == TORCH_VERSION ? "" : "; it was written by torch " + torch));
  } catch (const std::exception& e) {
    // a tensor where a number is wanted
    const std::string what = e.what();
    throw wrong(what.substr(0, what.find('\n')));
  }
}

const Weight& Graph::weight(const std::string& name) const {
  const auto found = weights.find(name);
  if (found == weights.end()) throw Error("there is no tensor '" + name + "'");
  return found->second;
}

Error Graph::wrong(const std::string& what) const {
  return Error("[" + path + "] is no network that can be trained: " + what + kAgain);
}

}  // namespace maglev::networks::exported
