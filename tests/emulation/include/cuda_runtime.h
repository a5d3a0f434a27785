#pragma once
// CUDA as the emulated device has it, for the host's compiler: what device code of this tree uses
// of the language and of the runtime. It is found before the toolkit's where tests/emulation is
// built, and what is missing here is added when a kernel wants it. Names are C++ ones, so that they
// do not meet those of a toolkit linked beside them.

#include <cstddef>
#include <cstdint>
#include <math.h>
#include <type_traits>
#include <utility>

#define MAGLEV_EMULATED_CUDA 1

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
// the standard library writes it as an attribute's name, where nothing may come of it
#define __noinline__
// one block runs at a time: a static is what its threads share, with nobody's memory around it
#define MAGLEV_JOINED(a, b) a##b
#define MAGLEV_NAMED(a, b) MAGLEV_JOINED(a, b)
#define __shared__                                                                     \
  [[gnu::used]] static unsigned char MAGLEV_NAMED(emulated_guard_, __COUNTER__)[1024]; \
  static

struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// the running thread's; they do not change while it runs
extern const uint3 threadIdx, blockIdx, blockDim, gridDim;

// language

/// Where a call stands: what the device says when threads wait at different ones.
struct EmulatedPlace {
  const char* file = __builtin_FILE();
  int line = __builtin_LINE();
};

void __syncthreads(EmulatedPlace place = {});
void __syncwarp(unsigned mask = ~0u, EmulatedPlace place = {});

/// What lane `source` of the warp gave to the same call of the lanes in `mask`.
uint64_t emulated_shuffle(unsigned mask, uint64_t bits, int source, EmulatedPlace place);
/// Of the running thread in its warp.
int emulated_lane();
void* emulated_dynamic_shared();
void emulated_wait_for_earlier();

template <class T>
T emulated_shuffle_of(unsigned mask, T x, int source, EmulatedPlace place) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof x);
  bits = emulated_shuffle(mask, bits, source, place);
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
template <class T>
T __shfl_sync(unsigned mask, T x, int source, int width = 32, EmulatedPlace place = {}) {
  const int lane = emulated_lane();
  return emulated_shuffle_of(mask, x, lane / width * width + source % width, place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int with, int width = 32, EmulatedPlace place = {}) {
  const int lane = emulated_lane(), source = lane ^ with;
  return emulated_shuffle_of(mask, x, source < (lane / width + 1) * width ? source : lane, place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32, EmulatedPlace place = {}) {
  const int lane = emulated_lane(), source = lane - int(by);
  return emulated_shuffle_of(mask, x, source >= lane / width * width ? source : lane, place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32, EmulatedPlace place = {}) {
  const int lane = emulated_lane(), source = lane + int(by);
  return emulated_shuffle_of(mask, x, source < (lane / width + 1) * width ? source : lane, place);
}

/// Says that an atomic operation on `bytes` bytes at `place` comes now; threads run one at a time,
/// so what follows is one step.
void emulated_atomic(const void* place, size_t bytes);

template <class T, class Change>
[[gnu::no_sanitize("thread")]] T emulated_exchange(T* place, Change change) {
  emulated_atomic(place, sizeof(T));
  const T before = *place;
  *place = change(before);
  return before;
}
template <class T>
T atomicAdd(T* place, std::type_identity_t<T> delta) {
  return emulated_exchange(place, [=](T x) { return T(x + delta); });
}
template <class T>
T atomicMax(T* place, std::type_identity_t<T> with) {
  return emulated_exchange(place, [=](T x) { return x > with ? x : with; });
}
template <class T>
T atomicMin(T* place, std::type_identity_t<T> with) {
  return emulated_exchange(place, [=](T x) { return x < with ? x : with; });
}
template <class T>
T atomicExch(T* place, std::type_identity_t<T> with) {
  return emulated_exchange(place, [=](T) { return with; });
}
template <class T>
T atomicCAS(T* place, std::type_identity_t<T> expected, std::type_identity_t<T> with) {
  return emulated_exchange(place, [=](T x) { return x == expected ? with : x; });
}

// approximations of a few units in the last place
inline float __expf(float x) { return expf(x); }
inline float __fdividef(float x, float y) { return x / y; }

inline float __uint_as_float(unsigned x) {
  float f;
  __builtin_memcpy(&f, &x, sizeof f);
  return f;
}
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}

// runtime

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNotReady = 600,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
struct EmulatedStream;
struct EmulatedEvent;
using cudaStream_t = EmulatedStream*;
using cudaEvent_t = EmulatedEvent*;
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2;
constexpr unsigned cudaEventRecordDefault = 0, cudaEventRecordExternal = 1;
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor };

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device);

cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemset(void* memory, int value, size_t bytes);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaDeviceSynchronize();

/// The arguments of a launch: where they are now, and their sizes.
struct EmulatedArguments {
  void** places;
  const size_t* bytes;
  size_t count;
};
struct cudaLaunchConfig_t;
/// Runs the whole grid before it returns; `call` calls the kernel with the arguments at `places`.
cudaError_t emulated_launch(const void* kernel, void (*call)(const void* kernel, void** places),
                            const cudaLaunchConfig_t& config, const EmulatedArguments& arguments);

template <class... Params, size_t... I>
[[gnu::no_sanitize("thread")]] void emulated_call(void (*kernel)(Params...), void** places,
                                                  std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_reference_t<Params>*>(places[I])...);
}

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

/// As of code for the newest device of all.
struct cudaFuncAttributes {
  int ptxVersion;
};
template <class... Params>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*)(Params...)) {
  attributes->ptxVersion = 1000;
  return cudaSuccess;
}

template <class... Params>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...),
                               std::type_identity_t<Params>... args) {
  const auto call = [](const void* of, void** arguments) {
    emulated_call(reinterpret_cast<void (*)(Params...)>(const_cast<void*>(of)), arguments,
                  std::index_sequence_for<Params...>());
  };
  static constexpr size_t bytes[] = {sizeof(Params)..., 0};
  void* places[sizeof...(Params) + 1] = {&args...};
  return emulated_launch(reinterpret_cast<const void*>(kernel), call, *config,
                         {places, bytes, sizeof...(Params)});
}
