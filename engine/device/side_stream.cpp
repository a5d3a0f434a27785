#include "engine/device/side_stream.h"

#ifdef MAGLEV_DEVICE_CODE
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cuda_runtime_api.h>

#include "base/core/error.h"
#include "engine/device/device.h"
#endif

namespace maglev {

#ifdef MAGLEV_DEVICE_CODE

namespace {

// Streams that nobody holds, by device. They are kept, not destroyed: cuBLAS's workspaces, 32 MiB
// each, are torch's by handle and stream for good, so each new stream would bring new ones. torch's
// own streams are 32 that are handed out in turn: two threads would have the same one, and what one
// enqueues would become part of what the other captures.
class Streams {
 public:
  cudaStream_t take(c10::DeviceIndex device) {
    {
      std::lock_guard lock(mutex_);
      if (auto& kept = kept_[device]; !kept.empty()) {
        const cudaStream_t stream = kept.back();
        kept.pop_back();
        return stream;
      }
    }
    const c10::cuda::CUDAGuard of(device);
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "side stream");
    return stream;
  }
  void give_back(c10::DeviceIndex device, cudaStream_t stream) {
    std::lock_guard lock(mutex_);
    kept_[device].push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::map<c10::DeviceIndex, std::vector<cudaStream_t>> kept_;
};

Streams& streams() {
  // outlives whatever static object holds a stream
  static Streams& all = *new Streams;
  return all;
}

}  // namespace

struct SideStream::Device {
  explicit Device(at::Device device)
      : index(device.index()),
        own(streams().take(index)),
        side(c10::cuda::getStreamFromExternal(own, device.index())) {
    check_cuda(cudaEventCreateWithFlags(&order, cudaEventDisableTiming), "side stream");
  }
  ~Device() {
    cudaEventDestroy(order);
    streams().give_back(index, own);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // what `later` is given from now on happens after what `earlier` was given so far
  void chain(c10::cuda::CUDAStream earlier, c10::cuda::CUDAStream later) {
    check_cuda(cudaEventRecord(order, earlier.stream()), "side stream");
    check_cuda(cudaStreamWaitEvent(later.stream(), order, 0), "side stream");
  }

  c10::DeviceIndex index;
  cudaStream_t own;
  c10::cuda::CUDAStream side;
  bool forked = false;  ///< since the last join
  cudaEvent_t order;    ///< recorded anew for each fork and join: a wait is for its last record
};

SideStream::SideStream(at::Device device) {
  if (!device.is_cuda()) return;
  MAGLEV_ASSERT(device.has_index(), "a stream is of one GPU");
  device_ = std::make_unique<Device>(device);
}

void SideStream::fork(const std::function<void()>& work) {
  if (!device_) return work();
  device_->forked = true;
  device_->chain(c10::cuda::getCurrentCUDAStream(device_->index), device_->side);
  const c10::cuda::CUDAStreamGuard guard(device_->side);
  work();
}

void SideStream::join() {
  // a stream that is captured must not wait for one that is not
  if (!device_ || !std::exchange(device_->forked, false)) return;
  device_->chain(device_->side, c10::cuda::getCurrentCUDAStream(device_->index));
}

void SideStream::abandon() noexcept {
  if (!device_ || !std::exchange(device_->forked, false)) return;
  // events of a capture that failed are of no use, and the failure is on its way
  const cudaStream_t current = c10::cuda::getCurrentCUDAStream(device_->index).stream();
  if (cudaEventRecord(device_->order, device_->own) == cudaSuccess)
    cudaStreamWaitEvent(current, device_->order, 0);
  cudaGetLastError();
}

void SideStream::wait() const {
  if (device_) check_cuda(cudaStreamSynchronize(device_->own), "side stream");
}

#else

struct SideStream::Device {};

SideStream::SideStream(at::Device) {}
void SideStream::fork(const std::function<void()>& work) { work(); }
void SideStream::join() {}
void SideStream::abandon() noexcept {}
void SideStream::wait() const {}

#endif

SideStream::~SideStream() = default;

}  // namespace maglev
