#include "engine/group/nccl_group.h"

#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <type_traits>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include "base/core/error.h"
#include "engine/device/launch.h"

namespace maglev {
namespace {

constexpr const char* kTorchsNccl = "libnccl.so.2";
// the first that has bfloat16, and can be captured
constexpr int kOldestNccl = 21000;

// ncclResult_t, ncclDataType_t and ncclRedOp_t
constexpr int kNcclSuccess = 0;
constexpr int kNcclInt8 = 0, kNcclFloat32 = 7, kNcclFloat64 = 8, kNcclBfloat16 = 9;
constexpr int kNcclSum = 0;

// it is passed by value, as ncclUniqueId is
static_assert(sizeof(NcclId) == 128 && std::is_trivially_copyable_v<NcclId>);

// "2.27.3", of 22703; before 2.9 a part had a digit less
std::string nccl_version_text(int version) {
  const int most = version < 10000 ? 1000 : 10000;
  return std::to_string(version / most) + "." + std::to_string(version % most / 100) + "." +
         std::to_string(version % 100);
}

int nccl_type(at::ScalarType dtype) {
  MAGLEV_ASSERT(dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16,
                "a group adds f32, f64 and bf16");
  if (dtype == at::kFloat) return kNcclFloat32;
  return dtype == at::kDouble ? kNcclFloat64 : kNcclBfloat16;
}

}  // namespace

struct NcclGroup::Library {
  std::string name;  ///< "NCCL 2.27.3"
  int (*version)(int* version);
  int (*make_id)(NcclId* id);
  int (*init)(void** communicator, int size, NcclId id, int rank);
  int (*abort)(void* communicator);
  int (*async_error)(void* communicator, int* result);
  int (*all_reduce)(const void* from, void* to, size_t count, int type, int operation,
                    void* communicator, void* stream);
  int (*all_gather)(const void* from, void* to, size_t count, int type, void* communicator,
                    void* stream);
  const char* (*text)(int result);

  void expect_success(int result, const std::string& what) const {
    if (result != kNcclSuccess)
      throw Error("[group] " + name + " failed in " + what + ": " + text(result) +
                  "; with NCCL_DEBUG=WARN it says more");
  }
};

std::unique_ptr<const NcclGroup::Library> NcclGroup::opened(const std::string& path) {
  const std::string file = path.empty() ? kTorchsNccl : path;
  // it would register buffers of captured calls with the other processes, which memory of torch's
  // expandable segments does not take, and which waits for those whose capture has failed
  setenv("NCCL_GRAPH_REGISTER", "0", /*overwrite=*/0);
  // one that torch has loaded already is found by this name; it stays open, for its threads stay
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw Error(
        "[group] several processes on GPUs need libnccl.so.2, which torch's CUDA wheel "
        "brings; install such a torch, or use device=cpu (" +
        std::string(dlerror()) + ")");
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    if (!function)
      throw Error("[group] " + file + " is no NCCL, for it has no " + symbol +
                  "; several processes on GPUs need the one that torch's CUDA wheel brings");
  };
  auto library = std::make_unique<Library>();
  find(library->version, "ncclGetVersion");
  find(library->make_id, "ncclGetUniqueId");
  find(library->init, "ncclCommInitRank");
  find(library->abort, "ncclCommAbort");
  find(library->async_error, "ncclCommGetAsyncError");
  find(library->all_reduce, "ncclAllReduce");
  find(library->all_gather, "ncclAllGather");
  find(library->text, "ncclGetErrorString");

  library->name = "NCCL";
  int version = 0;
  library->expect_success(library->version(&version), "ncclGetVersion");
  library->name += " " + nccl_version_text(version);
  if (version < kOldestNccl)
    throw Error("[group] " + file + " is " + library->name +
                ", and several processes on GPUs need 2.10 or newer; install a newer torch");
  return library;
}

NcclId NcclGroup::make_id(const std::string& library) {
  const auto nccl = opened(library);
  NcclId id;
  nccl->expect_success(nccl->make_id(&id), "ncclGetUniqueId");
  return id;
}

NcclGroup::NcclGroup(int rank, int size, at::Device device, const NcclId& id,
                     const std::string& library)
    : rank_(rank), size_(size), device_(device) {
  MAGLEV_ASSERT(rank >= 0 && rank < size, "a process has a rank of its group");
  MAGLEV_ASSERT(device.is_cuda() && device.has_index(), "NCCL knows CUDA devices, by number");
  if (!has_kernels_for(device)) refuse_device("group", device);
  nccl_ = opened(library);
  // the communicator is the current device's
  const c10::DeviceGuard on(device_);
  nccl_->expect_success(nccl_->init(&communicator_, size, id, rank), "ncclCommInitRank");
}

NcclGroup::~NcclGroup() { nccl_->abort(communicator_); }

void NcclGroup::sum(const at::Tensor& values) {
  expect_ours(values);
  check();
  const c10::DeviceGuard on(device_);
  nccl_->expect_success(
      nccl_->all_reduce(values.const_data_ptr(), values.mutable_data_ptr(), size_t(values.numel()),
                        nccl_type(values.scalar_type()), kNcclSum, communicator_, current_stream()),
      "ncclAllReduce");
}

at::Tensor NcclGroup::gather(const at::Tensor& values) {
  expect_ours(values);
  check();
  const c10::DeviceGuard on(device_);
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes.insert(sizes.begin(), size_);
  const at::Tensor all = at::empty(sizes, values.options());
  nccl_->expect_success(
      nccl_->all_gather(values.const_data_ptr(), all.mutable_data_ptr(), values.nbytes(), kNcclInt8,
                        communicator_, current_stream()),
      "ncclAllGather");
  return all;
}

void NcclGroup::check() const {
  int result = kNcclSuccess;
  nccl_->expect_success(nccl_->async_error(communicator_, &result), "ncclCommGetAsyncError");
  nccl_->expect_success(result, "what it was given before");
}

void NcclGroup::expect_ours(const at::Tensor& values) const {
  if (values.device() != device_) refuse_devices("group", device_, values.device());
  MAGLEV_ASSERT(values.is_contiguous(), "what a group adds or gathers lies together");
}

}  // namespace maglev
