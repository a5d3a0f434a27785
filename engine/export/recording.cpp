#include "engine/export/recording.h"

#include <cstring>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include "base/core/error.h"

namespace maglev {
namespace {

// results that take nothing of their tensors but the shape
bool takes_shape_alone(const std::string& name) {
  static const std::unordered_set<std::string> names{
      "aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::empty_like",
      "aten::new_zeros",  "aten::new_ones",  "aten::new_full",  "aten::new_empty"};
  return names.contains(name);
}

bool makes_empty(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") ||
         name.starts_with("aten::resize");
}

// operations that write their first argument and do not read it
bool overwrites(const std::string& name) {
  static const std::unordered_set<std::string> names{"aten::copy_", "aten::zero_", "aten::fill_"};
  return names.contains(name);
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const auto x = a.contiguous(), y = b.contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

/// What is recorded on one thread.
class Recorder {
 public:
  Recorder(const std::vector<at::Tensor>& inputs) {
    for (const at::Tensor& input : inputs) add(input, {.varies = true, .made = true});
  }

  void begin(const at::RecordFunction& function) {
    Paused paused(*this);
    RecordedOperation operation{.name = function.name()};
    const auto schema = function.operator_schema();
    operation.writes = schema && schema->is_mutable();
    const auto inputs = function.inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool known = schema && i < schema->arguments().size();
      const bool read =
          !(known && schema->arguments()[i].is_out()) && !(i == 0 && overwrites(operation.name));
      operation.arguments.push_back(
          slot(known ? schema->arguments()[i].name() : "", inputs[i], read, operation.name));
    }
    open_.push_back(std::move(operation));
  }

  void end(const at::RecordFunction& function) {
    Paused paused(*this);
    RecordedOperation operation = std::move(open_.back());
    open_.pop_back();
    RecordedValue kind{.made = true, .empty = makes_empty(operation.name)};
    if (!takes_shape_alone(operation.name))
      for (const RecordedSlot& argument : operation.arguments)
        for (int64_t value : argument.tensors)
          if (value >= 0) {
            kind.varies |= values_[size_t(value)].varies;
            kind.filled |= values_[size_t(value)].filled;
          }
    for (const c10::IValue& output : function.outputs()) {
      RecordedSlot result{.name = "", .value = output};
      for_tensors(output, [&](const at::Tensor& tensor) {
        result.tensors.push_back(tensor.defined() ? made(tensor, kind, operation.writes) : -1);
      });
      operation.results.push_back(std::move(result));
    }
    (open_.empty() ? operations_ : open_.back().parts).push_back(std::move(operation));
  }

  bool paused() const { return paused_; }

  Recording finish(const std::vector<at::Tensor>& outputs) {
    Paused paused(*this);
    std::vector<int64_t> values;
    for (const at::Tensor& output : outputs) values.push_back(value_of(output, "an output"));
    return {std::move(values_), std::move(operations_), std::move(values)};
  }

 private:
  // what is done to record is not recorded
  struct Paused {
    explicit Paused(Recorder& recorder) : of(recorder) { of.paused_ = true; }
    ~Paused() { of.paused_ = false; }
    Recorder& of;
  };

  template <class Visit>
  static void for_tensors(const c10::IValue& value, const Visit& visit) {
    if (value.isTensor()) visit(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
    else if (value.isList())
      for (const c10::IValue& one : value.toListRef()) for_tensors(one, visit);
  }

  // tensors that are written and not `read` are no values yet
  RecordedSlot slot(const std::string& name, const c10::IValue& value, bool read,
                    const std::string& by) {
    RecordedSlot made{.name = name, .value = value};
    for_tensors(value, [&](const at::Tensor& tensor) {
      made.tensors.push_back(tensor.defined() && read ? value_of(tensor, by) : -1);
    });
    return made;
  }

  // what is given back as it came, or as a part of the operation made it, is the same value
  int64_t made(const at::Tensor& tensor, const RecordedValue& kind, bool written) {
    const auto found = live_.find(tensor.unsafeGetTensorImpl());
    if (found == live_.end() || written) return add(tensor, kind);
    const RecordedValue& there = values_[size_t(found->second.second)];
    // what was filled without an operation, or began as memory that happened to look so, is new
    const bool same = !there.empty && !there.filled && there.varies == kind.varies &&
                      same_bytes(there.tensor, tensor);
    return same ? found->second.second : add(tensor, kind);
  }

  int64_t add(const at::Tensor& tensor, RecordedValue kind) {
    kind.tensor = kind.made ? tensor.clone() : tensor;
    const auto before = live_.find(tensor.unsafeGetTensorImpl());
    if (before != live_.end()) kind.previous = before->second.second;
    values_.push_back(std::move(kind));
    const auto value = int64_t(values_.size()) - 1;
    // kept, so that no other tensor takes its place in memory
    live_.insert_or_assign(tensor.unsafeGetTensorImpl(), std::pair{tensor, value});
    return value;
  }

  int64_t value_of(const at::Tensor& tensor, const std::string& by) {
    const auto found = live_.find(tensor.unsafeGetTensorImpl());
    if (found == live_.end()) return add(tensor, {});
    RecordedValue& value = values_[size_t(found->second.second)];
    // numbers from the host, or what a kernel made: which of them shows beside the other recording
    if (value.empty) value.tensor = tensor.clone(), value.empty = false, value.filled = true;
    if (!value.made || same_bytes(value.tensor, tensor)) return found->second.second;
    // how an operation does what it does is its own affair, until its parts are asked for
    if (open_.empty())
      throw Error("[export] what " + by +
                  " takes was written by something else than ATen, or in place of what it is a "
                  "view of; such a step needs a reference (engine/device/aten_only.h)");
    return add(tensor, {.varies = true, .made = true, .filled = true});
  }

  bool paused_ = false;
  std::vector<RecordedValue> values_;
  std::unordered_map<c10::TensorImpl*, std::pair<at::Tensor, int64_t>> live_;
  std::vector<RecordedOperation> open_, operations_;
};

// the observer is told of a thread's operations without more than the thread
thread_local Recorder* recorder = nullptr;
// an observer must not throw: kept until the function is back
thread_local std::exception_ptr recorder_failure;

template <class Work>
void observe(const Work& work) {
  if (!recorder || recorder->paused() || recorder_failure) return;
  try {
    work();
  } catch (...) {
    recorder_failure = std::current_exception();
  }
}

}  // namespace

const RecordedSlot* RecordedOperation::find(const std::string& argument) const {
  for (const RecordedSlot& slot : arguments)
    if (slot.name == argument) return &slot;
  return nullptr;
}

Recording record(const std::vector<at::Tensor>& inputs,
                 const std::function<std::vector<at::Tensor>()>& function) {
  MAGLEV_ASSERT(recorder == nullptr, "one recording at a time on a thread");
  Recorder own(inputs);
  struct Watch {
    explicit Watch(Recorder& of) {
      recorder = &of, recorder_failure = nullptr;
      at::RecordFunctionCallback callback(
          [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
            observe([&] { recorder->begin(f); });
            return nullptr;
          },
          [](const at::RecordFunction& f, at::ObserverContext*) {
            observe([&] { recorder->end(f); });
          });
      handle = at::addThreadLocalCallback(
          callback.needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
    }
    ~Watch() {
      at::removeCallback(handle);
      recorder = nullptr;
    }
    at::CallbackHandle handle;
  };
  std::vector<at::Tensor> outputs;
  {
    Watch watch(own);
    outputs = function();
  }
  if (recorder_failure) std::rethrow_exception(std::exchange(recorder_failure, nullptr));
  return own.finish(outputs);
}

}  // namespace maglev
