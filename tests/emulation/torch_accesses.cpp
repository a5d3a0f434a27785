#include "tests/emulation/torch_accesses.h"

#include "tests/emulation/running.h"

namespace maglev::emulation {
namespace {

// as few ranges as the strides allow
void touch_strided(const std::byte* begin, at::IntArrayRef sizes, at::IntArrayRef strides,
                   size_t item, bool write) {
  size_t bytes = item;
  bool dense = true;
  for (size_t d = sizes.size(); d-- > 0;) {
    dense &= sizes[d] == 1 || size_t(strides[d]) * item == bytes;
    bytes *= size_t(sizes[d]);
  }
  if (dense) return touch(begin, bytes, write);
  // what is expanded lies there once
  const int64_t count = strides[0] == 0 ? 1 : sizes[0];
  for (int64_t i = 0; i < count; ++i)
    touch_strided(begin + size_t(i * strides[0]) * item, sizes.slice(1), strides.slice(1), item,
                  write);
}

void touch_elements(const at::Tensor& t, bool write) {
  if (!t.defined() || t.numel() == 0) return;
  const auto* begin = static_cast<const std::byte*>(t.const_data_ptr());
  if (t.is_non_overlapping_and_dense()) return touch(begin, t.nbytes(), write);
  touch_strided(begin, t.sizes(), t.strides(), t.element_size(), write);
}

}  // namespace

Operation::Operation(EmulatedStream* stream, const std::string& name) {
  device_mutex().lock();
  begin_host_copy(name.c_str());
  begin_work(stream);
}
Operation::~Operation() { device_mutex().unlock(); }

void Operation::reads(const at::Tensor& t) const { touch_elements(t, false); }
void Operation::writes(const at::Tensor& t) const { touch_elements(t, true); }

void Operation::takes(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = op.schema().arguments()[i].alias_info();
    const bool write = alias && alias->isWrite();
    for_tensors(arguments[i], [&](const at::Tensor& t) { touch_elements(t, write); });
  }
}

void Operation::gives(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> results) const {
  for (size_t i = 0; i < results.size(); ++i)
    if (!op.schema().returns()[i].alias_info())
      for_tensors(results[i], [&](const at::Tensor& t) { touch_elements(t, true); });
}

}  // namespace maglev::emulation
