#include "engine/export/operations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include <ATen/ATen.h>

namespace maglev {
namespace {

using Ints = std::vector<int64_t>;
using Attributes = std::vector<onnx::Attribute>;

// the types runtimes compute in: smaller integers are stored and no more
at::ScalarType computed(at::ScalarType type) {
  switch (type) {
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kBool:
      return at::kInt;
    default:
      return type;
  }
}

void expect_default(const Emitted& e, const std::string& argument, double value) {
  if (e.has(argument) && e.real(argument) != value)
    e.refuse(argument + " is not " + std::to_string(value));
}

// of both operands, or of the tensor beside a number
at::ScalarType compared_type(const Emitted& e, const char* a, const char* b) {
  if (e.is_tensor(b)) return computed(at::result_type(e.like(a), e.like(b)));
  return computed(e.like(a).scalar_type());
}

// one input, one output of the same type
EmitOperation unary(const char* operation) {
  return [operation](Emitted& e) {
    // softplus and round have more than ONNX's
    expect_default(e, "beta", 1);
    expect_default(e, "threshold", 20);
    expect_default(e, "decimals", 0);
    const auto type = computed(e.type());
    e.give_as(e.graph.node(operation, {e.tensor("self", type)}), type);
  };
}

// the same, put together of several
EmitOperation composed(const std::function<std::string(Emitted&, std::string x)>& made) {
  return [made](Emitted& e) {
    const auto type = computed(e.type());
    e.give_as(made(e, e.tensor("self", type)), type);
  };
}

std::string scalar(Emitted& e, double value, at::ScalarType type) {
  return e.graph.constant(at::scalar_tensor(value, at::TensorOptions(type)));
}

EmitOperation binary(const char* operation, bool reversed = false) {
  return [operation, reversed](Emitted& e) {
    const auto type = computed(e.type());
    if (e.has("rounding_mode")) e.refuse("the quotient is rounded");
    std::string a = e.number("self", type), b = e.number("other", type);
    if (e.has("alpha") && e.real("alpha") != 1) {
      std::string& scaled = reversed ? a : b;
      scaled = e.graph.node("Mul", {scaled, scalar(e, e.real("alpha"), type)});
    }
    if (reversed) std::swap(a, b);
    e.give_as(e.graph.node(operation, {a, b}), type);
  };
}

EmitOperation comparison(const char* operation, bool negated = false) {
  return [operation, negated](Emitted& e) {
    auto type = compared_type(e, "self", "other");
    // a number that an integer cannot be is compared as it is
    if (!e.is_tensor("other") && !at::isFloatingType(type) &&
        e.real("other") != std::floor(e.real("other")))
      type = at::kFloat;
    auto y = e.graph.node(operation, {e.tensor("self", type), e.number("other", type)});
    if (negated) y = e.graph.node("Not", {y});
    e.give_as(y, at::kBool);
  };
}

EmitOperation logical(const char* operation) {
  return [operation](Emitted& e) {
    if (e.type() != at::kBool) e.refuse("its inputs are numbers");
    std::vector<std::string> inputs{e.tensor("self", at::kBool)};
    if (e.has("other")) inputs.push_back(e.number("other", at::kBool));
    e.give(e.graph.node(operation, inputs));
  };
}

// another name for what is there
void same(Emitted& e) { e.give(e.tensor("self")); }

void converted(Emitted& e) { e.give(e.tensor("self", e.type())); }

// the same numbers in the same order, by the shape they have then
void reshaped(Emitted& e) {
  const ExportedSizes sizes = e.graph.sizes_of(e.result());
  Ints shape;
  int64_t free = 0;
  for (const ExportedSize& extent : sizes) {
    free += extent.per_row;
    shape.push_back(extent.per_row ? -1 : extent.size);
  }
  const auto to = free <= 1 ? e.graph.constant(shape) : e.graph.shape(sizes);
  e.give(e.graph.node("Reshape", {e.tensor("self"), to}));
}

void permuted(Emitted& e) {
  const int64_t rank = e.like("self").dim();
  Ints order(size_t(rank), 0);
  for (int64_t d = 0; d < rank; ++d) order[size_t(d)] = d;
  if (e.has("dims")) {
    order = e.integers("dims");
    for (int64_t& d : order) d = d < 0 ? d + rank : d;
  } else if (e.has("dim0")) {
    std::swap(order[size_t(e.dimension("dim0"))], order[size_t(e.dimension("dim1"))]);
  } else {
    std::reverse(order.begin(), order.end());
  }
  e.give(e.graph.node("Transpose", {e.tensor("self")}, {{"perm", order}}));
}

std::string broadcast(Emitted& e, const std::string& name, const ExportedSizes& from,
                      ExportedSizes to) {
  if (from == to) return name;
  // a 1 leaves what is there
  for (size_t i = 1; i <= from.size(); ++i)
    if (from[from.size() - i] == to[to.size() - i]) to[to.size() - i] = {1, false};
  return e.graph.node("Expand", {name, e.graph.shape(to)});
}

void expanded(Emitted& e) {
  e.give(broadcast(e, e.tensor("self"), e.graph.sizes_of(e.value("self")),
                   e.graph.sizes_of(e.result())));
}

// numbers written over others
void copied(Emitted& e) {
  const int64_t from = e.value("src");
  e.give(broadcast(e, e.graph.name_of(from, e.type()), e.graph.sizes_of(from),
                   e.graph.sizes_of(e.result())));
}

std::string slice(Emitted& e, const std::string& x, int64_t dim, int64_t begin, int64_t end,
                  int64_t step = 1) {
  return e.graph.node("Slice", {x, e.graph.constant(Ints{begin}), e.graph.constant(Ints{end}),
                                e.graph.constant(Ints{dim}), e.graph.constant(Ints{step})});
}

void narrowed(Emitted& e) {
  const int64_t dim = e.dimension("dim");
  const ExportedSizes whole = e.graph.sizes_of(e.value("self")),
                      part = e.graph.sizes_of(e.result());
  if (whole == part) return same(e);
  if (whole[size_t(dim)].per_row || part[size_t(dim)].per_row)
    e.refuse("it takes some of the rows");
  int64_t begin = e.has("start") ? e.integer("start") : 0;
  if (begin < 0) begin += whole[size_t(dim)].size;
  const int64_t step = e.has("step") ? e.integer("step") : 1;
  const int64_t end = begin + (part[size_t(dim)].size - 1) * step + 1;
  e.give(slice(e, e.tensor("self"), dim, begin, end, step));
}

void selected(Emitted& e) {
  const int64_t dim = e.dimension("dim");
  if (e.graph.sizes_of(e.value("self"))[size_t(dim)].per_row) e.refuse("it takes one of the rows");
  const auto index = e.graph.constant(at::scalar_tensor(e.integer("index"), at::kLong));
  e.give(e.graph.node("Gather", {e.tensor("self"), index}, {{"axis", dim}}));
}

// pieces side by side, or one a place
void taken_apart(Emitted& e) {
  const int64_t dim = e.dimension("dim");
  const bool single = e.graph.like(e.result()).dim() < e.like("self").dim();
  if (e.graph.sizes_of(e.value("self"))[size_t(dim)].per_row) e.refuse("it takes rows apart");
  int64_t begin = 0;
  for (size_t i = 0; i < e.results(); ++i) {
    if (single) {
      const auto index = e.graph.constant(at::scalar_tensor(int64_t(i), at::kLong));
      e.give(e.graph.node("Gather", {e.tensor("self"), index}, {{"axis", dim}}), i);
      continue;
    }
    const int64_t size = e.graph.like(e.result(i)).size(dim);
    e.give(slice(e, e.tensor("self"), dim, begin, begin + size), i);
    begin += size;
  }
}

void joined(Emitted& e) {
  const int64_t rank = e.graph.like(e.result()).dim(), dim = e.integer("dim");
  const int64_t place = dim < 0 ? dim + rank : dim;
  const bool stacked = e.name() == "aten::stack";
  std::vector<std::string> parts;
  for (int64_t value : e.values("tensors")) {
    // an old way to say "nothing yet"
    if (!stacked && e.graph.like(value).dim() == 1 && e.graph.like(value).numel() == 0 && rank > 1)
      continue;
    auto part = e.graph.name_of(value, e.type());
    // a constant that is the same in each row is one row so far
    ExportedSizes whole = e.graph.sizes_of(value), there = whole;
    for (ExportedSize& size : there)
      if (size.per_row && !e.graph.varies(value)) size = {1, false};
    part = broadcast(e, part, there, whole);
    if (stacked) part = e.graph.node("Unsqueeze", {part, e.graph.constant(Ints{place})});
    parts.push_back(part);
  }
  e.give(e.graph.node("Concat", parts, {{"axis", place}}));
}

void clamped(Emitted& e) {
  const auto type = computed(e.type());
  auto x = e.tensor("self", type);
  if (e.has("min")) x = e.graph.node("Max", {x, e.number("min", type)});
  if (e.has("max")) x = e.graph.node("Min", {x, e.number("max", type)});
  e.give_as(x, type);
}

void raised(Emitted& e) {
  const auto type = computed(e.type());
  const auto x = e.number("self", type);
  if (!e.is_tensor("exponent") && e.real("exponent") == 2)
    return e.give_as(e.graph.node("Mul", {x, x}), type);
  e.give_as(e.graph.node("Pow", {x, e.number("exponent", type)}), type);
}

void chosen(Emitted& e) {
  const auto type = e.type();
  e.give(e.graph.node("Where", {e.tensor("condition", at::kBool), e.number("self", type),
                                e.number("other", type)}));
}

void filled_where(Emitted& e) {
  const auto type = e.type();
  e.give(e.graph.node(
      "Where", {e.tensor("mask", at::kBool), e.number("value", type), e.tensor("self", type)}));
}

// over some dimensions or all. Sums take them as an input since opset 13, others as an attribute
EmitOperation reduction(const char* operation, bool axes_are_input = false) {
  return [=](Emitted& e) {
    const int64_t rank = e.like("self").dim();
    const bool boolean = e.type() == at::kBool;
    const auto type = computed(e.type());
    Ints dims;
    if (e.has("dim")) dims = e.integers("dim");
    const bool keep = e.has("keepdim") && e.flag("keepdim");
    for (int64_t d = 0; dims.empty() && d < rank; ++d) dims.push_back(d);
    for (int64_t& d : dims) d = d < 0 ? d + rank : d;
    auto x = e.tensor("self", boolean ? at::kBool : type);
    if (boolean) x = e.graph.cast(x, at::kBool, type);
    Attributes attributes{{"keepdims", int64_t(keep)}};
    std::vector<std::string> inputs{x};
    if (axes_are_input) inputs.push_back(e.graph.constant(dims));
    else attributes.push_back({"axes", dims});
    e.give_as(e.graph.node(operation, inputs, attributes), type);
  };
}

void norm(Emitted& e) {
  const std::string order = e.has("p") ? "p" : "ord";
  const double p = e.has(order) ? e.real(order) : 2;
  if (p == 2) return reduction("ReduceL2")(e);
  if (p == 1) return reduction("ReduceL1")(e);
  e.refuse("it is neither of order 1 nor 2");
}

void largest(Emitted& e) {
  if (!e.has("dim")) e.refuse("it has no dimension");
  const auto type = computed(e.like("self").scalar_type());
  const auto y = e.graph.node("ArgMax", {e.tensor("self", type)},
                              {{"axis", e.dimension("dim")},
                               {"keepdims", int64_t(e.flag("keepdim"))},
                               {"select_last_index", int64_t(0)}});
  e.give_as(y, at::kLong);
}

void summed_up(Emitted& e) {
  const auto type = computed(e.type());
  const auto dim = e.graph.constant(at::scalar_tensor(e.dimension("dim"), at::kLong));
  e.give_as(e.graph.node("CumSum", {e.tensor("self", type), dim}), type);
}

// ONNX has none: factor by factor
void multiplied_up(Emitted& e) {
  const auto type = computed(e.type());
  const int64_t dim = e.dimension("dim"), size = e.like("self").size(dim);
  const auto x = e.tensor("self", type);
  std::vector<std::string> parts;
  for (int64_t i = 0; i < size; ++i) {
    const auto factor = slice(e, x, dim, i, i + 1);
    parts.push_back(i == 0 ? factor : e.graph.node("Mul", {parts.back(), factor}));
  }
  e.give_as(e.graph.node("Concat", parts, {{"axis", dim}}), type);
}

void linear(Emitted& e) {
  const auto x = e.tensor("input"), weight = e.tensor("weight");
  const bool bias = e.has("bias");
  if (e.like("input").dim() == 2) {
    std::vector<std::string> inputs{x, weight};
    if (bias) inputs.push_back(e.tensor("bias"));
    return e.give(e.graph.node("Gemm", inputs, {{"transB", int64_t(1)}}));
  }
  const auto turned = e.graph.node("Transpose", {weight}, {{"perm", Ints{1, 0}}});
  auto y = e.graph.node("MatMul", {x, turned});
  if (bias) y = e.graph.node("Add", {y, e.tensor("bias")});
  e.give(y);
}

void product(Emitted& e) {
  const std::string other = e.has("mat2") ? "mat2" : "other";
  e.give(e.graph.node("MatMul", {e.tensor("self"), e.tensor(other)}));
}

// beta self + alpha a b
EmitOperation product_onto(const char* a, const char* b) {
  return [=](Emitted& e) {
    expect_default(e, "beta", 1), expect_default(e, "alpha", 1);
    const auto y = e.graph.node("MatMul", {e.tensor(a), e.tensor(b)});
    e.give(e.graph.node("Add", {y, e.tensor("self")}));
  };
}

// a number for each of the image's sides
Ints sides(const Emitted& e, const std::string& argument) {
  Ints numbers = e.integers(argument);
  if (numbers.size() == 1) numbers.push_back(numbers[0]);
  return numbers;
}

Attributes window(const Emitted& e) {
  Attributes attributes{{"strides", sides(e, "stride")}, {"dilations", sides(e, "dilation")}};
  const Ints padding = sides(e, "padding");
  attributes.push_back({"pads", Ints{padding[0], padding[1], padding[0], padding[1]}});
  return attributes;
}

void convolution(Emitted& e) {
  if (e.like("input").dim() != 4) e.refuse("its input is no image");
  if (e.has("transposed") && e.flag("transposed")) e.refuse("it is transposed");
  Attributes attributes = window(e);
  attributes.push_back({"group", e.integer("groups")});
  std::vector<std::string> inputs{e.tensor("input"), e.tensor("weight")};
  if (e.has("bias")) inputs.push_back(e.tensor("bias"));
  e.give(e.graph.node("Conv", inputs, attributes));
}

// softmax(q k^T scale + mask) v, over the last two dimensions
void attention(Emitted& e) {
  if (e.flag("is_causal")) e.refuse("it is causal");
  if (e.has("enable_gqa") && e.flag("enable_gqa")) e.refuse("heads share keys");
  expect_default(e, "dropout_p", 0);
  const auto type = e.type();
  const auto& query = e.like("query");
  Ints order;
  for (int64_t d = 0; d < query.dim(); ++d) order.push_back(d);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  const double scale =
      e.has("scale") ? e.real("scale") : 1 / std::sqrt(double(query.size(query.dim() - 1)));
  auto weights =
      e.graph.node("MatMul", {e.graph.node("Mul", {e.tensor("query"), scalar(e, scale, type)}),
                              e.graph.node("Transpose", {e.tensor("key")}, {{"perm", order}})});
  if (e.has("attn_mask") && e.like("attn_mask").scalar_type() == at::kBool)
    weights = e.graph.node("Where", {e.tensor("attn_mask"), weights,
                                     scalar(e, -std::numeric_limits<double>::infinity(), type)});
  else if (e.has("attn_mask"))
    weights = e.graph.node("Add", {weights, e.tensor("attn_mask", type)});
  weights = e.graph.node("Softmax", {weights}, {{"axis", query.dim() - 1}});
  e.give(e.graph.node("MatMul", {weights, e.tensor("value")}));
}

// numbers before and behind each dimension, of the last one first
void surrounded(Emitted& e) {
  const Ints around = e.integers("pad");
  const size_t rank = size_t(e.like("self").dim());
  Ints pads(2 * rank, 0);
  for (size_t i = 0; i < around.size() / 2; ++i) {
    pads[rank - 1 - i] = around[2 * i];
    pads[2 * rank - 1 - i] = around[2 * i + 1];
  }
  const auto type = e.type();
  e.give(e.graph.node("Pad", {e.tensor("self"), e.graph.constant(pads), e.number("value", type)}));
}

void max_pool(Emitted& e) {
  if (e.flag("ceil_mode")) e.refuse("windows reach beyond the image");
  const Ints kernel = sides(e, "kernel_size");
  Attributes attributes = window(e);
  if (e.integers("stride").empty()) attributes[0].value = kernel;
  attributes.push_back({"kernel_shape", kernel});
  e.give(e.graph.node("MaxPool", {e.tensor("self")}, attributes));
}

void layer_norm(Emitted& e) {
  const Ints shape = e.integers("normalized_shape");
  std::vector<std::string> inputs{e.tensor("input")};
  inputs.push_back(e.has("weight") ? e.tensor("weight")
                                   : e.graph.constant(at::ones(shape, e.like("input").options())));
  if (e.has("bias")) inputs.push_back(e.tensor("bias"));
  e.give(e.graph.node("LayerNormalization", inputs,
                      {{"axis", -int64_t(shape.size())}, {"epsilon", float(e.real("eps"))}}));
}

void rms_norm(Emitted& e) {
  const auto type = e.type();
  Ints dims;
  for (size_t d = 1; d <= e.integers("normalized_shape").size(); ++d) dims.push_back(-int64_t(d));
  const double eps = e.has("eps") ? e.real("eps") : std::numeric_limits<float>::epsilon();
  const auto x = e.tensor("input");
  auto mean = e.graph.node("ReduceMean", {e.graph.node("Mul", {x, x})},
                           {{"axes", dims}, {"keepdims", int64_t(1)}});
  mean = e.graph.node("Sqrt", {e.graph.node("Add", {mean, scalar(e, eps, type)})});
  auto y = e.graph.node("Div", {x, mean});
  if (e.has("weight")) y = e.graph.node("Mul", {y, e.tensor("weight")});
  e.give(y);
}

EmitOperation over_dimension(const char* operation) {
  return [operation](Emitted& e) {
    e.give(e.graph.node(operation, {e.tensor("self", e.type())}, {{"axis", e.dimension("dim")}}));
  };
}

void gathered(Emitted& e) {
  e.give(e.graph.node("Gather", {e.tensor("self"), e.tensor("index")},
                      {{"axis", e.dimension("dim")}}));
}

void embedded(Emitted& e) {
  e.give(e.graph.node("Gather", {e.tensor("weight"), e.tensor("indices")}, {{"axis", int64_t(0)}}));
}

void gathered_elements(Emitted& e) {
  e.give(e.graph.node("GatherElements", {e.tensor("self"), e.tensor("index")},
                      {{"axis", e.dimension("dim")}}));
}

void gelu(Emitted& e) {
  if (e.text("approximate") != "none") e.refuse("it is an approximation");
  const auto type = e.type();
  const auto x = e.tensor("self");
  const auto erf = e.graph.node("Erf", {e.graph.node("Mul", {x, scalar(e, M_SQRT1_2, type)})});
  const auto half = e.graph.node("Mul", {x, scalar(e, 0.5, type)});
  e.give(e.graph.node("Mul", {half, e.graph.node("Add", {erf, scalar(e, 1, type)})}));
}

void elu(Emitted& e) {
  expect_default(e, "scale", 1), expect_default(e, "input_scale", 1);
  e.give(e.graph.node("Elu", {e.tensor("self")}, {{"alpha", float(e.real("alpha"))}}));
}

void leaky_relu(Emitted& e) {
  e.give(
      e.graph.node("LeakyRelu", {e.tensor("self")}, {{"alpha", float(e.real("negative_slope"))}}));
}

std::string one_more(Emitted& e, const std::string& x) {
  return e.graph.node("Add", {x, scalar(e, 1, computed(e.type()))});
}

std::unordered_map<std::string, EmitOperation> made_table() {
  std::unordered_map<std::string, EmitOperation> t;
  const auto add = [&](std::initializer_list<const char*> names, const EmitOperation& emit) {
    for (const char* name : names) t.emplace(std::string("aten::") + name, emit);
  };
  // shapes and types
  add({"view", "reshape", "_reshape_alias", "_unsafe_view", "flatten", "unflatten", "squeeze",
       "unsqueeze"},
      reshaped);
  add({"contiguous", "clone", "alias", "detach", "lift_fresh"}, same);
  add({"to", "_to_copy", "type_as"}, converted);
  add({"permute", "transpose", "t", "numpy_T"}, permuted);
  add({"expand", "expand_as", "broadcast_to"}, expanded);
  add({"copy_"}, copied);
  add({"slice", "narrow"}, narrowed);
  add({"select"}, selected);
  add({"chunk", "split", "split_with_sizes", "unbind"}, taken_apart);
  add({"cat", "concat", "stack"}, joined);
  add({"constant_pad_nd"}, surrounded);
  // each number by itself
  for (const auto& [name, operation] :
       std::initializer_list<std::pair<const char*, const char*>>{{"tanh", "Tanh"},
                                                                  {"relu", "Relu"},
                                                                  {"sigmoid", "Sigmoid"},
                                                                  {"exp", "Exp"},
                                                                  {"log", "Log"},
                                                                  {"sqrt", "Sqrt"},
                                                                  {"abs", "Abs"},
                                                                  {"neg", "Neg"},
                                                                  {"sign", "Sign"},
                                                                  {"floor", "Floor"},
                                                                  {"ceil", "Ceil"},
                                                                  {"round", "Round"},
                                                                  {"erf", "Erf"},
                                                                  {"sin", "Sin"},
                                                                  {"cos", "Cos"},
                                                                  {"reciprocal", "Reciprocal"},
                                                                  {"softplus", "Softplus"}})
    add({name}, unary(operation));
  add({"rsqrt"}, composed([](Emitted& e, std::string x) {
        return e.graph.node("Reciprocal", {e.graph.node("Sqrt", {x})});
      }));
  add({"square"}, composed([](Emitted& e, std::string x) { return e.graph.node("Mul", {x, x}); }));
  add({"log1p"},
      composed([](Emitted& e, std::string x) { return e.graph.node("Log", {one_more(e, x)}); }));
  add({"expm1"}, composed([](Emitted& e, std::string x) {
        return e.graph.node("Sub", {e.graph.node("Exp", {x}), scalar(e, 1, computed(e.type()))});
      }));
  add({"silu"}, composed([](Emitted& e, std::string x) {
        return e.graph.node("Mul", {x, e.graph.node("Sigmoid", {x})});
      }));
  add({"mish"}, composed([](Emitted& e, std::string x) {
        return e.graph.node("Mul", {x, e.graph.node("Tanh", {e.graph.node("Softplus", {x})})});
      }));
  add({"gelu"}, gelu);
  add({"elu"}, elu);
  add({"leaky_relu"}, leaky_relu);
  add({"clamp", "clamp_min", "clamp_max", "clip"}, clamped);
  // of two
  add({"add"}, binary("Add"));
  add({"sub"}, binary("Sub"));
  add({"rsub"}, binary("Sub", /*reversed=*/true));
  add({"mul"}, binary("Mul"));
  add({"div"}, binary("Div"));
  add({"maximum"}, binary("Max"));
  add({"minimum"}, binary("Min"));
  add({"pow"}, raised);
  add({"eq"}, comparison("Equal"));
  add({"ne"}, comparison("Equal", /*negated=*/true));
  add({"lt"}, comparison("Less"));
  add({"le"}, comparison("LessOrEqual"));
  add({"gt"}, comparison("Greater"));
  add({"ge"}, comparison("GreaterOrEqual"));
  add({"logical_and", "bitwise_and", "__and__"}, logical("And"));
  add({"logical_or", "bitwise_or", "__or__"}, logical("Or"));
  add({"logical_not", "bitwise_not"}, logical("Not"));
  add({"where"}, chosen);
  add({"masked_fill"}, filled_where);
  // over dimensions
  add({"sum"}, reduction("ReduceSum", /*axes_are_input=*/true));
  add({"mean"}, reduction("ReduceMean"));
  add({"amax"}, reduction("ReduceMax"));
  add({"amin"}, reduction("ReduceMin"));
  add({"any"}, reduction("ReduceMax"));
  add({"all"}, reduction("ReduceMin"));
  add({"norm", "linalg_vector_norm"}, norm);
  add({"argmax"}, largest);
  add({"cumsum"}, summed_up);
  add({"cumprod"}, multiplied_up);
  add({"softmax", "_softmax"}, over_dimension("Softmax"));
  add({"log_softmax", "_log_softmax"}, over_dimension("LogSoftmax"));
  // layers
  add({"linear"}, linear);
  add({"mm", "bmm", "matmul"}, product);
  add({"addmm"}, product_onto("mat1", "mat2"));
  add({"baddbmm"}, product_onto("batch1", "batch2"));
  add({"conv2d", "convolution"}, convolution);
  add({"scaled_dot_product_attention"}, attention);
  add({"max_pool2d"}, max_pool);
  add({"layer_norm"}, layer_norm);
  add({"rms_norm"}, rms_norm);
  // by indices
  add({"index_select"}, gathered);
  add({"embedding"}, embedded);
  add({"gather"}, gathered_elements);
  return t;
}

}  // namespace

const EmitOperation* find_operation(const std::string& name) {
  static const auto table = made_table();
  auto found = table.find(name);
  if (found == table.end() && name.ends_with('_') && !name.ends_with("__"))
    found = table.find(name.substr(0, name.size() - 1));
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace maglev
