// torch's cuda:0 on a machine without one: tensors lie in memory of the emulated device, operations
// of ATen run on the processor, kernels on the emulated device. Linked into a program, it is there;
// engine sources compiled with MAGLEV_DEVICE_CODE find its headers before torch's (include/).
//
// What a device refuses is a Fault or an error of torch's: an operation on tensors of two devices,
// and within a capture whatever would wait, read a value back, or miss the captured stream.

#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "tests/emulation/capture.h"
#include "tests/emulation/device.h"
#include "tests/emulation/torch_accesses.h"
#include "tests/emulation/torch_memory.h"

using maglev::emulation::device_allocator;
using maglev::emulation::pinned_allocator;

// streams

namespace {

const c10::Device kDevice(c10::kCUDA, 0);

thread_local int64_t stream_of_thread = 0;

/// By torch's number; 0 is the default one.
class Streams {
 public:
  c10::Stream of(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    all_.push_back(stream);
    return named(int64_t(all_.size()) - 1);
  }
  cudaStream_t native(int64_t id) {
    const std::lock_guard lock(mutex_);
    return all_.at(size_t(id));
  }
  static c10::Stream named(int64_t id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }

 private:
  std::mutex mutex_;
  std::vector<cudaStream_t> all_{nullptr};
};
Streams& streams() {
  static auto* all = new Streams;
  return *all;
}

cudaStream_t native_stream() { return streams().native(stream_of_thread); }

class OneDevice final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return Streams::named(stream_of_thread); }
  c10::Stream getDefaultStream(c10::Device) const override { return Streams::named(0); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return Streams::named(std::exchange(stream_of_thread, stream.id()));
  }
  // what autograd orders between streams
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (!*event) cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), 0);
    cudaEventRecord(static_cast<cudaEvent_t>(*event), streams().native(stream.id()));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event)
      cudaStreamWaitEvent(streams().native(stream.id()), static_cast<cudaEvent_t>(event), 0);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event) cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }
};
const c10::impl::DeviceGuardImplRegistrar kOneDevice(c10::kCUDA, new OneDevice);

class HostMemory final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override { return pinned_allocator().allocate(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return pinned_allocator().raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
  void end_allocate_to_pool(c10::MempoolId_t) override {}
  void release_pool(c10::MempoolId_t) override {}
};
HostMemory& host_memory() {
  static auto* one = new HostMemory;
  return *one;
}

}  // namespace

namespace at {

struct EmulatedCuda final : CUDAHooksInterface {
  explicit EmulatedCuda(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  int getNumGPUs() const override { return 1; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  Allocator* getPinnedMemoryAllocator() const override { return &host_memory(); }
  bool isPinnedPtr(const void* memory) const override {
    return maglev::emulation::is_pinned(memory);
  }
  Device getDeviceFromPtr(void*) const override { return kDevice; }
  const Generator& getDefaultGenerator(DeviceIndex) const override {
    return detail::getDefaultCPUGenerator();
  }
  void deviceSynchronize(DeviceIndex) const override { cudaDeviceSynchronize(); }
};
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, EmulatedCuda)
REGISTER_HOST_ALLOCATOR(kCUDA, &host_memory())

}  // namespace at

namespace c10::cuda {

cudaStream_t CUDAStream::stream() const { return streams().native(stream_.id()); }
CUDAStream getCurrentCUDAStream(DeviceIndex) {
  return CUDAStream(Streams::named(stream_of_thread));
}
CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) {
  return CUDAStream(streams().of(stream));
}

WarningState& warning_state() {
  static WarningState state;
  return state;
}

namespace CUDACachingAllocator {

CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) {
  constexpr auto kAll = size_t(CachingAllocator::StatType::AGGREGATE);
  const auto now = maglev::emulation::memory_in_use();
  CachingDeviceAllocator::DeviceStats stats;
  stats.allocated_bytes[kAll].current = int64_t(now.held);
  stats.allocated_bytes[kAll].peak = int64_t(now.most);
  stats.reserved_bytes[kAll].current = int64_t(now.kept);
  return stats;
}
void resetPeakStats(DeviceIndex) { maglev::emulation::forget_peak(); }
void attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
  maglev::emulation::on_refusal(
      [observer = std::move(observer)](size_t asked) { observer(0, asked, 0, 0); });
}
void emptyCache() {
  maglev::emulation::expect_no_capture(native_stream(), "emptyCache");
  maglev::emulation::empty_cache();
}
void endAllocateToPool(DeviceIndex, MempoolId_t pool) {
  TORCH_CHECK(maglev::emulation::end_pool(pool), "endAllocateToPool: not currently recording");
}
void releasePool(DeviceIndex, MempoolId_t) {}

}  // namespace CUDACachingAllocator
}  // namespace c10::cuda

// what C++ programs have of torch's record of a device's memory; this one keeps none
namespace torch::cuda {

std::string _memory_snapshot_pickled() { return "blocks"; }

}  // namespace torch::cuda

// operations

namespace maglev::emulation {
namespace {

using torch::jit::Stack;

// within an operation, whose copies between the two memories are the emulation's own
thread_local int inside = 0;
struct Inside {
  Inside() { ++inside; }
  ~Inside() { --inside; }
};

/// The same elements in the same memory as a tensor of `key`'s device that does not hold it.
at::Tensor same_memory(const at::Tensor& t, c10::Device device) {
  const auto key = device.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA;
  const size_t bytes =
      at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.dtype().itemsize());
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       c10::DataPtr(t.numel() ? t.data_ptr() : nullptr, device));
  auto same = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key),
                                                       t.dtype());
  same.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides());
  return same;
}
at::Tensor on_host(const at::Tensor& t) { return t.is_cuda() ? same_memory(t, at::kCPU) : t; }

/// As a graph keeps it: where a tensor of the device lies, and the value of one on the host.
at::Tensor kept(const at::Tensor& t) {
  if (!t.defined()) return t;
  if (t.is_cuda()) return same_memory(t, kDevice);
  // a plain number has no say in the type of a result
  at::Tensor number = t.clone();
  number.unsafeGetTensorImpl()->set_wrapped_number(t.unsafeGetTensorImpl()->is_wrapped_number());
  return number;
}
c10::IValue kept(const c10::IValue& value) {
  if (value.isTensor()) return kept(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(kept(t));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      list.push_back(t ? std::optional(kept(*t)) : std::nullopt);
    return list;
  }
  return value;
}

// Operations whose result's shape or value the host has to know: torch waits for the device.
bool reads_back(const std::string& name, c10::ArrayRef<c10::IValue> arguments) {
  static const std::set<std::string> always{
      "aten::nonzero",    "aten::masked_select", "aten::_unique2", "aten::unique_consecutive",
      "aten::unique_dim", "aten::bincount",      "aten::equal",    "aten::_local_scalar_dense",
      "aten::multinomial"};
  if (always.contains(name)) return true;
  // without the size that comes out
  if (name == "aten::repeat_interleave") return arguments.back().isNone();
  // a mask counts its elements, and indices of the host are brought
  bool found = false;
  if (name.starts_with("aten::index") || name.starts_with("aten::_index_put"))
    for (const c10::IValue& value : arguments)
      if (value.isOptionalTensorList())
        for_tensors(value, [&](const at::Tensor& t) {
          found |= !t.is_cuda() || t.scalar_type() == at::kBool || t.scalar_type() == at::kByte;
        });
  return found;
}

// torch takes numbers of the host beside tensors of the device, and indices
void expect_one_device(const std::string& name, c10::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& value : arguments) {
    if (value.isOptionalTensorList()) continue;
    for_tensors(value, [&](const at::Tensor& t) {
      TORCH_CHECK(t.is_cuda() || t.dim() == 0, "[emulated device] ", name,
                  ": expected all tensors to be on the same device, got one of ", t.sizes(),
                  " on the host beside those of cuda:0");
    });
  }
}

// the device will be waited for
void expect_may_wait(const std::string& what) {
  if (inside > 0) return;
  expect_no_capture(native_stream(), what);
  TORCH_CHECK(c10::cuda::warning_state().get_sync_debug_mode() != c10::cuda::SyncDebugMode::L_ERROR,
              "called a synchronizing CUDA operation: ", what);
}

// the arguments, which are the last of the stack, become the results
void run_operation(const c10::OperatorHandle& op, Stack* stack) {
  const Inside guard;
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}
void run_operation(const c10::OperatorHandle& op, Stack* stack, cudaStream_t stream) {
  const Operation operation(stream, op.schema().name());
  const size_t arguments = op.schema().arguments().size(), below = stack->size() - arguments;
  operation.takes(op, c10::ArrayRef<c10::IValue>(*stack).slice(below, arguments));
  run_operation(op, stack);
  operation.gives(op, c10::ArrayRef<c10::IValue>(*stack).slice(below));
}

// any operation: on the processor, over copies of its tensors
void operation(const c10::OperatorHandle& op, Stack* stack) {
  const std::string& name = op.schema().name();
  const size_t arguments = op.schema().arguments().size();
  const size_t below = stack->size() - arguments;
  const auto given = c10::ArrayRef<c10::IValue>(*stack).slice(below, arguments);
  if (inside > 0) return run_operation(op, stack);
  expect_one_device(name, given);
  const bool waits = reads_back(name, given);
  if (waits) expect_may_wait(name + ", which has to know values of the device,");
  expect_given_here(native_stream(), name);
  if (!captured(native_stream())) {
    run_operation(op, stack, native_stream());
    if (waits) cudaStreamSynchronize(native_stream());
    return;
  }

  // arguments are looked at behind the operation: it may give an output its memory
  const Stack before(given.begin(), given.end());
  run_operation(op, stack, native_stream());
  Stack inputs, outputs;
  for (const c10::IValue& value : before) inputs.push_back(kept(value));
  for (size_t i = below; i < stack->size(); ++i) outputs.push_back(kept((*stack)[i]));
  keep(native_stream(), [op, inputs, outputs](EmulatedStream* on) {
    Stack again = inputs;
    run_operation(op, &again, on);
    const Operation kept(on, op.schema().name());
    kept.gives(op, outputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::vector<at::Tensor> from, to;
      for_tensors(again[i], [&](const at::Tensor& t) { from.push_back(t); });
      for_tensors(outputs[i], [&](const at::Tensor& t) { to.push_back(t); });
      for (size_t t = 0; t < to.size(); ++t)
        if (to[t].data_ptr() != from[t].data_ptr()) on_host(to[t]).copy_(on_host(from[t]));
    }
  });
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  const auto run = [](const at::Tensor& to, const at::Tensor& source) {
    const Inside guard;
    on_host(to).copy_(on_host(source));
  };
  const auto given = [run](const at::Tensor& to, const at::Tensor& source, cudaStream_t on) {
    const Operation operation(on, "aten::copy_");
    operation.reads(source), operation.writes(to);
    run(to, source);
  };
  if (inside > 0) return run(self, from), self;
  const bool across = self.device() != from.device();
  const at::Tensor& host = self.is_cuda() ? from : self;
  // only pinned memory is read and written at the stream's own time
  const bool waits = across && !(non_blocking && is_pinned(host.data_ptr()));
  if (waits)
    expect_may_wait(self.is_cuda() ? "aten::copy_ from the host" : "aten::copy_ to the host");
  expect_given_here(native_stream(), "aten::copy_");
  given(self, from, native_stream());
  if (waits && !captured(native_stream())) cudaStreamSynchronize(native_stream());
  keep(native_stream(),
       [given, to = same_memory(self, self.device()),
        source = same_memory(from, from.device())](EmulatedStream* on) { given(to, source, on); });
  return self;
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &device_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, &device_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           dtype.value_or(at::kFloat));
}

const at::Tensor& resized(const at::Tensor& self, at::IntArrayRef sizes,
                          std::optional<at::MemoryFormat>) {
  if (self.sizes() == sizes) return self;
  const at::Tensor fresh = at::empty(sizes, self.options().requires_grad(false));
  self.unsafeGetTensorImpl()->set_storage_and_dtype(fresh.storage(), fresh.dtype());
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  resized(to, from.sizes(), std::nullopt);
  to.copy_(from);
  return to;
}

at::Scalar local_scalar(const at::Tensor& self) {
  expect_may_wait("aten::_local_scalar_dense, which reads a value on the host,");
  if (inside == 0) {
    Operation(native_stream(), "aten::_local_scalar_dense").reads(self);
    cudaStreamSynchronize(native_stream());
  }
  return on_host(self).item();
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
                      std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}
at::Tensor view(const at::Tensor& self, at::IntArrayRef sizes) {
  return at::native::view(self, sizes);
}
at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::native::_reshape_alias(self, sizes, strides);
}
at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&operation>());
}
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("resize_", resized);
  m.impl("copy_", copy);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", unfold);
}

// products of bf16 with results in f32, which torch has for CUDA alone
at::Tensor exact(const at::Tensor& t) { return t.to(at::kFloat); }
at::Tensor& mm_in_f32(const at::Tensor& a, const at::Tensor& b, at::ScalarType, at::Tensor& out) {
  return at::mm_out(out, exact(a), exact(b));
}
at::Tensor& bmm_in_f32(const at::Tensor& a, const at::Tensor& b, at::ScalarType, at::Tensor& out) {
  return at::bmm_out(out, exact(a), exact(b));
}
at::Tensor& addmm_in_f32(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                         at::ScalarType, const at::Scalar& beta, const at::Scalar& alpha,
                         at::Tensor& out) {
  return at::addmm_out(out, self, exact(a), exact(b), beta, alpha);
}
at::Tensor& baddbmm_in_f32(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                           at::ScalarType, const at::Scalar& beta, const at::Scalar& alpha,
                           at::Tensor& out) {
  return at::baddbmm_out(out, self, exact(a), exact(b), beta, alpha);
}

// where the fallback above comes to
TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("mm.dtype_out", mm_in_f32);
  m.impl("bmm.dtype_out", bmm_in_f32);
  m.impl("addmm.dtype_out", addmm_in_f32);
  m.impl("baddbmm.dtype_out", baddbmm_in_f32);
}

}  // namespace

}  // namespace maglev::emulation
