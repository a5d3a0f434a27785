#include "networks/exported/operation.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>
#include <c10/core/MemoryFormat.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"

namespace maglev::networks::exported {
namespace {

using Json = nlohmann::json;

bool listed(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool is_tensor(const c10::TypePtr& type) { return type->kind() == c10::TypeKind::TensorType; }

bool is_tensors(const c10::TypePtr& type) {
  const auto list = type->cast<c10::ListType>();
  return list && is_tensor(list->getElementType());
}

// why it is no function of tensors to tensors; "" where it is one
std::string impurity(const c10::OperatorHandle& operation) {
  const c10::FunctionSchema& schema = operation.schema();
  const std::string_view name = std::string_view(schema.name()).substr(sizeof "aten::" - 1);
  const auto takes = [&](std::string_view argument) {
    return schema.argumentIndexWithName(std::string(argument)).has_value();
  };
  if (schema.is_mutable()) return "it writes what it is given";
  if (schema.returns().empty()) return "it gives nothing";
  // recurrent layers and attention draw where they drop (expect_still)
  if (operation.hasTag(at::Tag::nondeterministic_seeded) && !takes("dropout") &&
      !takes("dropout_p"))
    return "it draws random numbers";
  // statistics, though its schema does not say so
  if (takes("running_mean") && !takes("training") && !takes("use_input_stats"))
    return "it writes what it is given";
  if (operation.hasTag(at::Tag::data_dependent_output))
    return "the host would wait for its numbers";
  // of `index` the file's writer has seen to it that no mask chooses
  if (operation.hasTag(at::Tag::dynamic_output_shape) && name != "index")
    return "what it gives has a size that depends on numbers";
  if (name.find("empty") != name.npos) return "it gives memory as it was";
  if (name.find("backward") != name.npos) return "it is the way back of another";
  for (const char* library : {"cudnn_", "miopen_", "mkldnn_", "mps_", "quantized_", "fbgemm_"})
    if (name.starts_with(library)) return "it is torch's own, behind others";
  if (name.starts_with('_') && !listed(name, {"_to_copy", "_softmax", "_log_softmax",
                                              "_unsafe_view", "_adaptive_avg_pool2d"}))
    return "it is torch's own, behind others";
  for (const c10::Argument& result : schema.returns())
    if (!is_tensor(result.type()) && !is_tensors(result.type())) return "it gives no tensors";
  const bool of_tensors =
      std::ranges::any_of(schema.arguments(), [](const c10::Argument& argument) {
        return is_tensor(argument.type()) || is_tensors(argument.type());
      });
  if (!of_tensors &&
      !listed(name, {"zeros", "ones", "full", "arange", "eye", "linspace", "scalar_tensor"}))
    return "it takes no tensors";
  return "";
}

constexpr std::array<std::pair<const char*, at::ScalarType>, 10> kDTypes{
    {{"float32", at::kFloat},
     {"float64", at::kDouble},
     {"float16", at::kHalf},
     {"bfloat16", at::kBFloat16},
     {"int64", at::kLong},
     {"int32", at::kInt},
     {"int16", at::kShort},
     {"int8", at::kChar},
     {"uint8", at::kByte},
     {"bool", at::kBool}}};
constexpr std::array<std::pair<const char*, at::MemoryFormat>, 3> kFormats{
    {{"contiguous_format", at::MemoryFormat::Contiguous},
     {"preserve_format", at::MemoryFormat::Preserve},
     {"channels_last", at::MemoryFormat::ChannelsLast}}};

// the value that `text` names; torch passes both as integers
template <class Names>
c10::IValue named(const Names& names, const std::string& text) {
  for (const auto& [name, value] : names)
    if (name == text) return int64_t(value);
  throw Error("there is no '" + text + "'");
}

// {"dtype": "float32"}, {"memory_format": ..}, {"text": ..}, {"float": "inf"}
c10::IValue spelled(const Json& value) {
  const auto only = value.begin();
  const std::string& kind = only.key();
  const auto name = only.value().get<std::string>();
  if (kind == "dtype") return named(kDTypes, name);
  if (kind == "memory_format") return named(kFormats, name);
  if (kind == "text") return name;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (kind == "float") {
    if (name == "inf") return kInfinity;
    if (name == "-inf") return -kInfinity;
    if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  throw Error("there is no constant " + shown(value));
}

c10::IValue constant_of(const Json& value, const c10::TypePtr& type) {
  if (const auto maybe = type->cast<c10::OptionalType>())
    return value.is_null() ? c10::IValue() : constant_of(value, maybe->getElementType());
  const auto kind = type->kind();
  const bool number = kind == c10::TypeKind::NumberType;
  c10::IValue made;
  if (value.is_object() && value.size() == 1) made = spelled(value);
  else if (value.is_boolean()) made = value.get<bool>();
  else if (value.is_number_integer() && kind == c10::TypeKind::FloatType)
    made = value.get<double>();
  else if (value.is_number_integer()) made = value.get<int64_t>();
  else if (value.is_number_float()) made = value.get<double>();
  // a number beside a tensor takes the tensor's type
  if (is_tensor(type) && made.isScalar()) return at::native::wrapped_scalar_tensor(made.toScalar());
  const bool fits = number                              ? made.isScalar()
                    : kind == c10::TypeKind::IntType    ? made.isInt()
                    : kind == c10::TypeKind::FloatType  ? made.isDouble()
                    : kind == c10::TypeKind::BoolType   ? made.isBool()
                    : kind == c10::TypeKind::StringType ? made.isString()
                                                        : false;
  if (!fits) throw Error(shown(value) + " is no " + type->str());
  return made;
}

template <class T>
c10::IValue list_of(const std::vector<Operand>& parts) {
  c10::List<T> list;
  for (const Operand& part : parts) list.push_back(part.constant.to<T>());
  return list;
}

// a list's elements, or one for all `count` of them
std::vector<Operand> elements_of(const Json& value, int64_t count, const c10::TypePtr& type,
                                 const Find& find) {
  std::vector<Operand> parts;
  if (!value.is_array()) parts.assign(size_t(count), operand_of(value, type, find));
  else
    for (const Json& one : value) parts.push_back(operand_of(one, type, find));
  return parts;
}

Argument list_argument(const Json& value, const c10::Argument& wanted, const c10::TypePtr& element,
                       const Find& find) {
  Argument made{.parts = elements_of(value, wanted.N().value_or(1), element, find)};
  if (is_tensor(element)) made.kind = Argument::Kind::tensors;
  else if (element->kind() == c10::TypeKind::OptionalType)
    made.kind = Argument::Kind::maybe_tensors;
  else if (!std::ranges::all_of(made.parts, &Operand::fixed)) made.kind = Argument::Kind::integers;
  // what does not change from pass to pass is made once
  else if (element->kind() == c10::TypeKind::IntType) made.parts = {{list_of<int64_t>(made.parts)}};
  else if (element->kind() == c10::TypeKind::FloatType)
    made.parts = {{list_of<double>(made.parts)}};
  else if (element->kind() == c10::TypeKind::BoolType) made.parts = {{list_of<bool>(made.parts)}};
  else throw Error("a list of " + element->str() + " is nothing that a network takes");
  return made;
}

Argument argument_of(const Json& value, const c10::Argument& wanted, const Find& find) {
  c10::TypePtr type = wanted.type();
  if (const auto maybe = type->cast<c10::OptionalType>()) type = maybe->getElementType();
  if (type->kind() == c10::TypeKind::DeviceObjType) return {.kind = Argument::Kind::device};
  if (const auto list = type->cast<c10::ListType>(); list && !value.is_null())
    return list_argument(value, wanted, list->getElementType(), find);
  return {.parts = {operand_of(value, wanted.type(), find)}};
}

// what a schema does not tell: statistics that are written, and numbers that are drawn
void expect_still(const c10::FunctionSchema& schema, const std::vector<Argument>& made) {
  const auto given = [&](const char* name) -> const Operand* {
    const auto place = schema.argumentIndexWithName(name);
    return place ? &made[size_t(*place)].parts.at(0) : nullptr;
  };
  const auto off = [&](const char* name) {
    const Operand* operand = given(name);
    if (!operand) return true;
    if (!operand->fixed()) throw Error(std::string(name) + " is to be a constant");
    const c10::IValue& value = operand->constant;
    return !(value.isBool() && value.toBool()) && !(value.isDouble() && value.toDouble() != 0);
  };
  for (const char* drops : {"dropout_p", "dropout"})
    if (!off(drops)) throw Error("it drops at random, by its " + std::string(drops));
  // of recurrent layers, which have a dropout, it says only that there will be gradients
  if (!off("training") || (!off("train") && !given("dropout")))
    throw Error("it learns by itself or draws as it trains; net.eval() has it as it is afterwards");
  // of each row's own it keeps none where there are none to keep
  const Operand* mean = given("running_mean");
  if (!off("use_input_stats") && mean && !(mean->fixed() && mean->constant.isNone()))
    throw Error("it writes its statistics; net.eval() has them as they are");
  for (const char* place : {"layout", "pin_memory"})
    if (const Operand* said = given(place); said && !(said->fixed() && said->constant.isNone()))
      throw Error(std::string(place) + " is not for a file to say");
}

}  // namespace

std::string shown(const Json& value) {
  return value.is_array() ? "a list" : value.is_object() ? "an object" : value.dump();
}

c10::OperatorHandle find_operation(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string overload = dot == name.npos ? "" : name.substr(dot + 1);
  const auto found = c10::Dispatcher::singleton().findSchema({name.substr(0, dot), overload});
  if (!found || !name.starts_with("aten::"))
    throw Error("torch " TORCH_VERSION " has no operation " + name);
  if (const std::string why = impurity(*found); !why.empty())
    throw Error(name + " is none that a network may have: " + why);
  return *found;
}

Operand operand_of(const Json& value, const c10::TypePtr& type, const Find& find) {
  if (value.is_string()) {
    const auto name = value.get<std::string>();
    if (!name.starts_with('%')) throw Error("'" + name + "' is neither %name nor {\"text\": ..}");
    return find(name.substr(1));
  }
  return {.constant = constant_of(value, type)};
}

std::vector<Argument> arguments_of(const c10::FunctionSchema& schema, const Json& node,
                                   const Find& find) {
  const Json args = node.value("args", Json::array()),
             kwargs = node.value("kwargs", Json::object());
  std::vector<Argument> made;
  size_t taken = 0;
  for (const c10::Argument& wanted : schema.arguments()) {
    const size_t position = made.size();
    try {
      if (kwargs.contains(wanted.name())) {
        made.push_back(argument_of(kwargs.at(wanted.name()), wanted, find)), ++taken;
      } else if (position < args.size() && !wanted.kwarg_only()) {
        made.push_back(argument_of(args.at(position), wanted, find)), ++taken;
      } else if (wanted.type()->isSubtypeOf(
                     *c10::OptionalType::create(c10::DeviceObjType::get()))) {
        made.push_back({.kind = Argument::Kind::device});
      } else if (wanted.default_value()) {
        made.push_back({.parts = {{.constant = *wanted.default_value()}}});
      } else {
        throw Error("there is none");
      }
    } catch (const Error& e) {
      throw Error(schema.name() + "'s " + wanted.name() + ": " + e.what());
    }
  }
  if (taken != args.size() + kwargs.size())
    throw Error(schema.name() + " takes no such arguments: it is of another version of torch");
  try {
    expect_still(schema, made);
  } catch (const Error& e) {
    throw Error(schema.name() + ": " + e.what());
  }
  return made;
}

}  // namespace maglev::networks::exported
