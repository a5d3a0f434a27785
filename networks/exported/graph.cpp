#include "networks/exported/graph.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/jit_type.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/hash.h"

namespace maglev::networks::exported {
namespace {

using Json = nlohmann::json;

constexpr const char* kKey = "maglev_network";
constexpr int64_t kFormat = 1;
constexpr const char* kAgain = "; maglev.save_network writes such files";
// a file's lists and objects within each other, at most: what is deeper is none of this format
constexpr int kMostDepth = 16;
// numbers a row that an operation gives, and multiply-adds a row of all together
constexpr int64_t kMostRow = int64_t(1) << 28;
constexpr double kMostWork = 1e15;
// of an error: what is wrong may be as long as the file
constexpr size_t kMostText = 600;

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

Json parsed(const std::string& text) {
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMostDepth)
      throw Error("its text has more than " + std::to_string(kMostDepth) +
                  " lists and objects within each other");
    return true;
  });
}

/// Weights and values by name, as nodes are read one after the other.
class Names {
 public:
  explicit Names(const Graph& graph) : graph_(graph) {
    for (size_t w = 0; w < graph.weights.size(); ++w)
      weights_[graph.weights[w].tensor.name] = int64_t(w);
  }

  void give(const std::string& name, int64_t slot) {
    if (weights_.contains(name) || !slots_.emplace(name, slot).second)
      throw Error("'" + name + "' is there twice");
  }
  Operand operator()(const std::string& name, Node& reader) const {
    const auto found = weights_.find(name);
    if (found == weights_.end()) return {.constant = {}, .slot = slot(name)};
    const Weight& weight = graph_.weights[size_t(found->second)];
    reader.weights.push_back(found->second);
    const size_t dot = name.rfind('.');
    if (weight.learned) reader.layer = dot == name.npos ? name : name.substr(0, dot);
    const std::vector<int64_t>& shape = weight.tensor.shape;
    if (shape.size() >= 2 && weight.numel() > 0) {
      reader.per_number = weight.numel() / shape[0];
      reader.convolves = shape.size() > 2;
    }
    return {.constant = {}, .weight = found->second};
  }
  int64_t slot(const std::string& name) const {
    const auto found = slots_.find(name);
    if (found == slots_.end()) throw Error("there is no '%" + name + "' before it");
    return found->second;
  }
  /// Of "%name".
  int64_t slot(const Json& text) const {
    const auto name = text.get<std::string>();
    return slot(name.starts_with('%') ? name.substr(1) : name);
  }
  int64_t weight(const std::string& name) const {
    const auto found = weights_.find(name);
    if (found == weights_.end()) throw Error("there is no tensor '" + name + "'");
    return found->second;
  }

 private:
  const Graph& graph_;
  std::map<std::string, int64_t> weights_, slots_;
};

Part part_named(const std::string& text) {
  const auto names = names_of(Part());
  const auto found = std::ranges::find(names, text);
  if (found == names.end())
    throw Error("networks take an image, a vector, privileged numbers or a memory");
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
  if (of.slot < 0 || !which.fixed()) return std::nullopt;
  const int64_t place = which.constant.toInt();
  for (const Node& node : graph.nodes)
    if (node.slot == of.slot && node.results > 1 && place >= 0 && place < node.results)
      return node.slot + place;
  return std::nullopt;
}

bool is_view(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(),
                             [](const c10::Argument& r) { return r.alias_info() != nullptr; });
}

int64_t row_of(const Json& json) {
  const Json& row = json.at("row");
  if (!row.is_number_integer() || row < 0 || row > kMostRow)
    throw Error("its numbers a row must be in 0.." + std::to_string(kMostRow) + ", got " +
                shown(row));
  return row.get<int64_t>();
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
      node.row = is_view(schema) ? 0 : row_of(json);
    }
  } catch (const Error& e) {
    throw Error("its operation '" + node.name + "': " + e.what());
  }
  node.slot = graph.slots;
  graph.slots += node.results;
  names.give(node.name, node.slot);
  graph.nodes.push_back(std::move(node));
}

Head head_of(const Graph& graph, const Names& names, const Json& json) {
  Head head{.slot = names.slot(json.at("input")),
            .weight = names.weight(json.at("weight").get<std::string>()),
            .bias = names.weight(json.at("bias").get<std::string>())};
  const auto &weight = graph.weights[size_t(head.weight)].tensor.shape,
             &bias = graph.weights[size_t(head.bias)].tensor.shape;
  if (weight.size() != 2 || bias.size() != 1 || bias[0] != weight[0])
    throw Error("a last layer has a weight [out, in] and a bias [out]");
  return head;
}

// of what is neither a layer's own nor learned there would be two, or one that stays as it is
void expect_own(const Graph& graph) {
  std::vector<int64_t> own{graph.value_head.weight, graph.value_head.bias};
  if (graph.policy_head)
    own.insert(own.end(), {graph.policy_head->weight, graph.policy_head->bias});
  if (graph.log_std >= 0) own.push_back(graph.log_std);
  for (int64_t weight : own) {
    const auto& [tensor, type, learned] = graph.weights[size_t(weight)];
    if (!learned) throw Error("'" + tensor.name + "' must be learned");
    const auto reads = [&](const Node& node) {
      return std::ranges::find(node.weights, weight) != node.weights.end();
    };
    if (std::ranges::count(own, weight) > 1 || std::ranges::any_of(graph.nodes, reads))
      throw Error("'" + tensor.name + "' is a last layer's or log_std, and something else besides");
  }
}

// names are those of modules within each other, "body.0.weight"
void expect_name(const std::string& name) {
  if (name.starts_with('.') || name.ends_with('.') || name.find("..") != name.npos)
    throw Error("'" + name + "' is no name of a module's tensor: something is empty in it");
}

void read_parameters(Graph& graph, const Names& names, const Json& json) {
  for (const auto& name : json.at("parameters").get<std::vector<std::string>>()) {
    graph.parameters.push_back(names.weight(name));
    Weight& weight = graph.weights[size_t(graph.parameters.back())];
    if (weight.type != at::kFloat) throw Error("'" + name + "' is learned, and so must be F32");
    if (weight.tensor.bytes == 0) throw Error("'" + name + "' is learned and has no numbers");
    if (std::exchange(weight.learned, true)) throw Error("'" + name + "' is learned twice");
  }
}

void read_inputs(Graph& graph, Names& names, const Json& json) {
  for (const Json& input : json.at("inputs")) {
    graph.inputs.push_back({.name = input.at("name").get<std::string>(),
                            .part = part_named(input.at("of").get<std::string>()),
                            .shape = input.at("shape").get<std::vector<int64_t>>()});
    names.give(graph.inputs.back().name, graph.slots++);
  }
  for (const Input& input : graph.inputs)
    if (graph.input_of(input.part) != &input - graph.inputs.data())
      throw Error("it takes its " + std::string(names_of(Part())[size_t(input.part)]) + " twice");
}

void read_memory(Graph& graph, const Names& names, const Json& json) {
  const int64_t before = graph.input_of(Part::memory);
  if ((before >= 0) != json.contains("memory"))
    throw Error("a memory is both taken and given, behind the step");
  if (before < 0) return;
  const auto& shape = graph.inputs[size_t(before)].shape;
  if (shape.size() != 1 || shape[0] < 1) throw Error("a memory is of some numbers a row");
  graph.memory = names.slot(json["memory"]);
}

void expect_work(const Graph& graph) {
  double work = 0;
  for (const Node& node : graph.nodes) work += double(node.row) * double(node.per_number);
  if (work > kMostWork) throw Error("it says that a row costs it more than 1e15 multiply-adds");
}

void read_graph(Graph& graph, const Json& json) {
  if (!json.at("format").is_number_integer() || json["format"] != kFormat)
    throw Error("it is of format " + shown(json["format"]) + ", this program reads " +
                std::to_string(kFormat));
  Names names(graph);
  read_parameters(graph, names, json);
  read_inputs(graph, names, json);
  for (const Json& node : json.at("nodes")) read_node(graph, names, node);
  if (json.contains("policy_head")) graph.policy_head = head_of(graph, names, json["policy_head"]);
  else graph.logits = names.slot(json.at("logits"));
  graph.value_head = head_of(graph, names, json.at("value_head"));
  read_memory(graph, names, json);
  if (json.contains("log_std")) graph.log_std = names.weight(json["log_std"].get<std::string>());
  expect_own(graph);
  expect_work(graph);
}

}  // namespace

Graph::Graph(const std::string& file_path) : path(file_path) {
  const FileReader file(path);
  const SafeTensors read = parse_safetensors(file);
  const auto text = read.metadata.find(kKey);
  if (text == read.metadata.end())
    throw Error("[" + path + "] has tensors, and no network of them" + kAgain);
  Hash all;
  all.add_text(text->second);
  hash = all.hex();
  std::string torch = "?";
  try {
    for (const SafeTensor& tensor : read.tensors) {
      expect_name(tensor.name);
      weights.push_back({tensor, torch_dtype(tensor)});
    }
    // by name, so that their order is that of buffers
    std::ranges::sort(weights, {}, [](const Weight& w) { return w.tensor.name; });
    const Json json = parsed(text->second);
    if (json.contains("torch") && json["torch"].is_string()) torch = json["torch"];
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

std::vector<at::Tensor> Graph::tensors(const Initializer& init) const {
  std::vector<at::Tensor> made;
  try {
    for (const auto& [tensor, type, learned] : weights)
      made.push_back(init.weight(tensor.shape).to(type));
  } catch (const c10::Error& e) {
    throw wrong(e.what_without_backtrace());
  }
  if (init.skips()) return made;
  const FileReader file(path);
  for (size_t w = 0; w < weights.size(); ++w)
    if (const SafeTensor& tensor = weights[w].tensor; tensor.bytes > 0)
      file.read(tensor.begin, {static_cast<std::byte*>(made[w].data_ptr()), tensor.bytes});
  return made;
}

int64_t Graph::input_of(Part part) const {
  const auto found = std::ranges::find(inputs, part, &Input::part);
  return found == inputs.end() ? -1 : found - inputs.begin();
}

Error Graph::wrong(const std::string& what) const {
  size_t end = std::min(what.size(), kMostText);
  // no character in halves
  while (end < what.size() && (what[end] & 0xc0) == 0x80) --end;
  return Error("[" + path + "] is no network that can be trained: " + what.substr(0, end) +
               (end < what.size() ? " .." : "") + kAgain);
}

}  // namespace maglev::networks::exported
