// A profiler that asks for ranges of NVTX, as Nsight's libraries do: what tests name in
// NVTX_INJECTION64_PATH. Keeps what each thread was told, as lines "+name" and "-" one behind
// another, in order, for fake_nvtx_told().

#include <map>
#include <mutex>
#include <string>
#include <thread>

#include <nvtx3/nvToolsExt.h>

namespace {

std::mutex mutex;
std::map<std::thread::id, std::string> told;
std::string domains, all;

int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  const std::lock_guard lock(mutex);
  told[std::this_thread::get_id()] += std::string("+") + range->message.ascii + "\n";
  return 0;
}

int pop(nvtxDomainHandle_t) {
  const std::lock_guard lock(mutex);
  told[std::this_thread::get_id()] += "-\n";
  return 0;
}

nvtxDomainHandle_t create(const char* name) {
  const std::lock_guard lock(mutex);
  domains += name;
  return reinterpret_cast<nvtxDomainHandle_t>(&domains);
}

template <class Function>
NvtxFunctionPointer as_pointer(Function* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" {

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = as_pointer(create);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = as_pointer(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = as_pointer(pop);
  return 1;
}

/// Threads' lines, "=" before each thread's; the domains' names first. Until the next call.
const char* fake_nvtx_told() {
  const std::lock_guard lock(mutex);
  all = domains + "\n";
  for (const auto& [thread, lines] : told) all += "=\n" + lines;
  return all.c_str();
}
}
