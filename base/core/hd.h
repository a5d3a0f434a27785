#pragma once
// MAGLEV_HD marks a function that runs on the host and, when the same header is compiled by nvcc,
// on the device.

#if defined(__CUDACC__)
#define MAGLEV_HD __host__ __device__ __forceinline__
#else
#define MAGLEV_HD inline
#endif
