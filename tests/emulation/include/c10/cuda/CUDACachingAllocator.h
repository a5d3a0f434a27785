#pragma once
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDAStream.h>

namespace c10::cuda::CUDACachingAllocator {

c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device);
void emptyCache();
void endAllocateToPool(DeviceIndex device, MempoolId_t pool);
void releasePool(DeviceIndex device, MempoolId_t pool);

}  // namespace c10::cuda::CUDACachingAllocator
