#pragma once
#include <functional>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDAStream.h>

namespace c10::cuda::CUDACachingAllocator {

c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device);
void resetPeakStats(DeviceIndex device);
void emptyCache();
using OutOfMemoryObserver =
    std::function<void(int64_t device, size_t allocated, size_t device_total, size_t device_free)>;
void attachOutOfMemoryObserver(OutOfMemoryObserver observer);
void endAllocateToPool(DeviceIndex device, MempoolId_t pool);
void releasePool(DeviceIndex device, MempoolId_t pool);

}  // namespace c10::cuda::CUDACachingAllocator
