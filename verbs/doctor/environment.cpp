#include "verbs/doctor/environment.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <iterator>
#include <span>
#include <string_view>
#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/core/error.h"
#include "base/core/words.h"
#include "engine/device/precision.h"

namespace maglev::verbs::doctor {
namespace {

// who reads a variable: one that is set where its reader is absent does nothing
enum class Reader {
  all,           // on every machine
  cuda,          // runs on NVIDIA's GPUs
  rocm,          // runs on AMD's GPUs
  intel_openmp,  // libiomp5
  openblas,
  apple,
  engine,  // the engine decides in its place
  nobody,
};

struct Variable {
  const char* name;
  Reader reader;
  // for those that are read: what holds when it is not set; null: not worth a line then
  const char* unset = nullptr;
  // for those the engine or nobody reads: why, and what to do; for those that know few values: what
  // another is taken as
  const char* why = "";
  std::span<const char* const> values = {};
};

// as DispatchStub.cpp of PyTorch, oneDNN's and MKL's manuals have them
constexpr const char* kCapabilities[] = {"default", "avx2",   "avx512", "vsx",
                                         "zvector", "sve128", "sve256", "sve512"};
constexpr const char* kDnnIsas[] = {"DEFAULT",
                                    "SSE41",
                                    "AVX",
                                    "AVX2",
                                    "AVX2_VNNI",
                                    "AVX2_VNNI_2",
                                    "AVX512_CORE",
                                    "AVX512_CORE_VNNI",
                                    "AVX512_CORE_BF16",
                                    "AVX512_CORE_FP16",
                                    "AVX512_CORE_AMX",
                                    "AVX512_CORE_AMX_FP16",
                                    "AVX10_1_512",
                                    "AVX10_1_512_AMX",
                                    "AVX10_1_512_AMX_FP16",
                                    "AVX10_2_512",
                                    "AVX10_2_512_AMX_2"};
constexpr const char* kMklBranches[] = {"SSE4_2",    "AVX",        "AVX2",         "AVX512",
                                        "AVX512_E1", "AVX512_E2",  "AVX512_E3",    "AVX512_E4",
                                        "AVX512_E5", "AVX512_MIC", "AVX512_MIC_E1"};
constexpr const char* kMklReproducible[] = {
    "AUTO",      "OFF",       "COMPATIBLE", "SSE2",      "SSE3",       "SSSE3",
    "SSE4_1",    "SSE4_2",    "AVX",        "AVX2",      "AVX512",     "AVX512_E1",
    "AVX512_E2", "AVX512_E3", "AVX512_E4",  "AVX512_E5", "AVX512_MIC", "AVX512_MIC_E1"};

constexpr const char* kThreadsWhy =
    "the engine's own threads run one operation each; set threads=<count> instead";

constexpr Variable kVariables[] = {
    // threads
    {"OMP_NUM_THREADS", Reader::engine, nullptr, kThreadsWhy},
    {"MKL_NUM_THREADS", Reader::engine, nullptr, kThreadsWhy},
    {"OPENBLAS_NUM_THREADS", Reader::openblas, "all processors"},
    {"OMP_PROC_BIND", Reader::all},
    {"GOMP_CPU_AFFINITY", Reader::all},
    {"OMP_WAIT_POLICY", Reader::engine, nullptr,
     "no OpenMP thread waits, for operations run on the engine's threads; unset it"},
    {"GOMP_SPINCOUNT", Reader::engine, nullptr,
     "no OpenMP thread waits, for operations run on the engine's threads; unset it"},
    {"KMP_AFFINITY", Reader::intel_openmp},
    {"KMP_BLOCKTIME", Reader::intel_openmp, "200 ms"},
    {"KMP_SETTINGS", Reader::intel_openmp},
    // memory
    {"PYTORCH_ALLOC_CONF", Reader::cuda, "native"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", Reader::cuda},
    {"THP_MEM_ALLOC_ENABLE", Reader::engine, nullptr,
     "tensors come from the engine's own cache, not from torch's allocator; unset it"},
    {"MALLOC_ARENA_MAX", Reader::all, "8 a processor"},
    {"LD_PRELOAD", Reader::all},
    // what processors compute with
    {"MAGLEV_SIMD", Reader::all, "the best there is"},
    {"ATEN_CPU_CAPABILITY", Reader::all, "the best there is", "ignored", kCapabilities},
    {"ONEDNN_MAX_CPU_ISA", Reader::all, "the best there is", "ignored", kDnnIsas},
    {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", Reader::all, "1024 shapes"},
    {"MKL_ENABLE_INSTRUCTIONS", Reader::all, "the best there is", "ignored", kMklBranches},
    {"MKL_CBWR", Reader::all, nullptr, "taken as AUTO", kMklReproducible},
    // NVIDIA's GPUs
    {"CUDA_VISIBLE_DEVICES", Reader::cuda, "all"},
    {"CUDA_MODULE_LOADING", Reader::cuda, "LAZY"},
    {"CUDA_LAUNCH_BLOCKING", Reader::cuda, "0"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", Reader::cuda, "8"},
    {"CUBLAS_WORKSPACE_CONFIG", Reader::cuda, "by the library"},
    {"NVIDIA_TF32_OVERRIDE", Reader::cuda},
    {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", Reader::cuda},
    {"TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT", Reader::cuda, "10000 plans"},
    // AMD's
    {"HIP_VISIBLE_DEVICES", Reader::rocm, "all"},
    {"HSA_OVERRIDE_GFX_VERSION", Reader::rocm},
    {"PYTORCH_TUNABLEOP_ENABLED", Reader::rocm, "0"},
    {"MIOPEN_FIND_MODE", Reader::rocm, "DYNAMIC_HYBRID"},
    {"MIOPEN_USER_DB_PATH", Reader::rocm, "~/.config/miopen"},
    {"AMD_SERIALIZE_KERNEL", Reader::rocm, "0"},
    // Apple's
    {"PYTORCH_MPS_HIGH_WATERMARK_RATIO", Reader::apple},
    {"PYTORCH_ENABLE_MPS_FALLBACK", Reader::apple},
    // found in guides, read by nobody
    {"TORCH_CUDNN_BENCHMARK", Reader::nobody, nullptr,
     "PyTorch has no such variable; the engine sets cuDNN's search itself (train.deterministic)"},
    {"TORCH_CUDNN_V8_API_ENABLED", Reader::nobody, nullptr,
     "version 8 of cuDNN's interface is what PyTorch uses; unset it"},
    {"NCCL_TREE_THRESHOLD", Reader::nobody, nullptr,
     "NCCL dropped it in version 2.5; NCCL_ALGO chooses among its ways"},
};

// all that Maglev reads besides, by the engine, the launcher or the tests
constexpr const char* kOurs[] = {
    "MAGLEV_AXE",         "MAGLEV_BUILD",        "MAGLEV_CMAKE_ARGS",    "MAGLEV_ENGINE",
    "MAGLEV_FAKE_GPUS",   "MAGLEV_FAULT",        "MAGLEV_GYMNASIUM",     "MAGLEV_HOME",
    "MAGLEV_INSTALLED",   "MAGLEV_JOBS",         "MAGLEV_MUJOCO",        "MAGLEV_NO_INSTALL",
    "MAGLEV_NVML",        "MAGLEV_ONNX_PYTHON",  "MAGLEV_OPTUNA_PYTHON", "MAGLEV_PLUGINS",
    "MAGLEV_PYKEEN",      "MAGLEV_ROCM_SMI",     "MAGLEV_SIMD",          "MAGLEV_SQLITE",
    "MAGLEV_TEST_DEVICE", "MAGLEV_TOL_SCALE",    "MAGLEV_TORCH",         "MAGLEV_TORCH_INDEX",
    "MAGLEV_TRACE",       "MAGLEV_TRACE_FOLDER", "MAGLEV_TRACE_MODE"};

// variables of ours that there are not: a slip of the pen does nothing, in silence
void find_unknown(const Environment& user, std::vector<IgnoredVariable>& ignored) {
  const std::vector<std::string> known(std::begin(kOurs), std::end(kOurs));
  for (const auto& [name, value] : user) {
    if (!name.starts_with("MAGLEV_") || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    const auto near = near_names(name, known);
    ignored.push_back(
        {name, value,
         "Maglev has no such variable; " +
             (near.empty() ? std::string("unset it") : "did you mean " + near[0] + "?")});
  }
}

// why a reader is absent, and what to do; "" where it is here
std::string absent(const Variable& variable, const Surroundings& around) {
  switch (variable.reader) {
    case Reader::all:
      return "";
    case Reader::cuda:
      if (around.rocm) return "this torch is built for ROCm, which does not read it; unset it";
      return around.on_cuda ? "" : "the run is not on a GPU; unset it";
    case Reader::rocm:
      if (!around.rocm) return "this torch is not built for ROCm; unset it";
      return around.on_cuda ? "" : "the run is not on a GPU; unset it";
    case Reader::intel_openmp:
      return around.intel_openmp
                 ? ""
                 : "libiomp5 is not loaded, and GNU's OpenMP does not read it; unset it";
    case Reader::openblas:
      return around.openblas ? ""
                             : "this torch multiplies with another library than OpenBLAS; unset it";
    case Reader::apple:
      return around.apple ? "" : "it is of Apple's GPUs, and this is another system; unset it";
    case Reader::engine:
    case Reader::nobody:
      return variable.why;
  }
  return "";
}

// why a value does not do what it says, and what to do; "" where it may
std::string meaningless(const Variable& variable, std::string value) {
  if (variable.values.empty()) return "";
  // MKL_CBWR=BRANCH=AVX2,STRICT
  if (constexpr std::string_view branch = "BRANCH="; value.starts_with(branch))
    value.erase(0, branch.size());
  value.erase(std::min(value.find(','), value.size()));
  if (std::ranges::find(variable.values, value) != variable.values.end()) return "";
  std::vector<std::string> names(variable.values.begin(), variable.values.end());
  return std::string("no value that it has, and ") + variable.why + "; it has " + joined(names);
}

const std::string* value_in(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : &found->second;
}

bool loaded(const char* function) { return dlsym(RTLD_DEFAULT, function) != nullptr; }

// what the variables that are read do to a run
void warn_of_variables(const Environment& user, const Surroundings& around, const System& system,
                       std::vector<std::string>& warnings) {
  const Processor& cpu = system.processor;
  for (const char* name : {"OMP_PROC_BIND", "GOMP_CPU_AFFINITY"})
    if (value_in(user, name) && cpu.affinity < cpu.present)
      warnings.push_back(std::string(name) +
                         " binds the program's first thread, and with it all of the "
                         "engine's, to " +
                         std::to_string(cpu.affinity) + " of " + std::to_string(cpu.present) +
                         " processors: unset it");
  if (!around.on_cuda) return;
  const auto is = [&](const char* name, const char* value) {
    const std::string* set = value_in(user, name);
    return set && *set == value;
  };
  if (is("CUDA_LAUNCH_BLOCKING", "1"))
    warnings.push_back(
        "CUDA_LAUNCH_BLOCKING=1 waits after every kernel: unset it but to find faults");
  if (is("NVIDIA_TF32_OVERRIDE", "0"))
    warnings.push_back(
        "NVIDIA_TF32_OVERRIDE=0 turns TF32 off whatever train.precision says: unset it");
  if (is("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"))
    warnings.push_back(
        "PYTORCH_NO_CUDA_MEMORY_CACHING=1 asks the driver for every tensor: unset it");
  const std::string* conf = value_in(user, "PYTORCH_ALLOC_CONF");
  if (!conf) conf = value_in(user, "PYTORCH_CUDA_ALLOC_CONF");
  if (conf && conf->find("expandable_segments:True") == std::string::npos)
    warnings.push_back(
        "the allocator's settings are yours and leave out expandable_segments:True, "
        "which keeps gaps from growing: add it");
}

}  // namespace

Environment this_environment() {
  Environment variables;
  for (char** one = environ; one && *one; ++one)
    if (const char* equals = std::strchr(*one, '='))
      variables.emplace(std::string(*one, size_t(equals - *one)), equals + 1);
  return variables;
}

Surroundings probe_surroundings(const Placement& placement) {
  Surroundings around{.on_cuda = placement.device.is_cuda(),
                      .rocm = at::Context::hasROCM(),
                      .intel_openmp = loaded("kmp_set_blocktime"),
                      .openblas = loaded("openblas_set_num_threads"),
                      .jemalloc = loaded("mallctl"),
                      .tcmalloc = loaded("MallocExtension_ReleaseFreeMemory")};
#ifdef __APPLE__
  around.apple = true;
#endif
  return around;
}

std::string instead_of(const std::string& variable) {
  if (variable == "CUDA_LAUNCH_BLOCKING") return "train.synchronise=true waits after each launch";
  if (variable == "PYTORCH_ALLOC_CONF" || variable == "PYTORCH_CUDA_ALLOC_CONF")
    return "the engine sets expandable_segments:True by itself; export it for another";
  const auto known = std::ranges::find(kVariables, variable,
                                       [](const Variable& one) { return std::string(one.name); });
  const bool vain = known != std::end(kVariables) &&
                    (known->reader == Reader::engine || known->reader == Reader::nobody);
  return vain ? known->why : "export it before the run";
}

EnvironmentReport judge_environment(const Environment& user, const Environment& now,
                                    const Surroundings& around, const System& system) {
  EnvironmentReport report;
  for (const Variable& variable : kVariables) {
    const std::string* set = value_in(user, variable.name);
    const std::string why = absent(variable, around);
    if (!why.empty()) {
      if (set) report.ignored.push_back({variable.name, *set, why});
      continue;
    }
    if (const std::string wrong = set ? meaningless(variable, *set) : ""; !wrong.empty()) {
      report.ignored.push_back({variable.name, *set, wrong});
      continue;
    }
    // what the engine has set since is its own choice
    const std::string* holds = value_in(now, variable.name);
    if (set) report.effective.push_back({variable.name, *set, Origin::user});
    else if (holds) report.effective.push_back({variable.name, *holds, Origin::automatic});
    else if (variable.unset)
      report.effective.push_back({variable.name, variable.unset, Origin::library});
  }
  // the older name counts where the newer is not set
  if (const std::string* old = value_in(user, "PYTORCH_CUDA_ALLOC_CONF")) {
    if (value_in(user, "PYTORCH_ALLOC_CONF"))
      report.ignored.push_back({"PYTORCH_CUDA_ALLOC_CONF", *old,
                                "PYTORCH_ALLOC_CONF is set, too, and comes first; unset this one"});
    else if (!around.on_cuda)
      report.ignored.push_back(
          {"PYTORCH_CUDA_ALLOC_CONF", *old, "the run is not on a GPU; unset it"});
    else report.effective.push_back({"PYTORCH_CUDA_ALLOC_CONF", *old, Origin::user});
  }
  find_unknown(user, report.ignored);
  report.effective.push_back({"malloc",
                              around.jemalloc   ? "jemalloc"
                              : around.tcmalloc ? "tcmalloc"
                                                : "the C library's",
                              Origin::system});
  if (!system.memory.huge_pages.empty())
    report.effective.push_back(
        {"transparent_huge_pages",
         system.memory.huge_pages +
             (system.memory.huge_pages == "madvise" ? ": replays and updates of TD-MPC2 ask" : ""),
         Origin::system});
  warn_of_variables(user, around, system, report.warnings);
  return report;
}

std::vector<EffectiveSetting> torch_settings(const Placement& placement, bool deterministic) {
  apply_precision(placement.precision, placement.device, deterministic);
  const at::Context& context = at::globalContext();
  const auto on = [](bool value) { return std::string(value ? "on" : "off"); };
  std::vector<EffectiveSetting> settings = {
      {"threads_an_operation", std::to_string(at::get_num_threads()), Origin::automatic},
      {"host_tensors", "the engine's cache", Origin::automatic}};
  if (!placement.device.is_cuda()) return settings;
  settings.insert(settings.end(),
                  {{"tf32_products", on(context.allowTF32CuBLAS()), Origin::automatic},
                   {"tf32_convolutions", on(context.allowTF32CuDNN()), Origin::automatic},
                   {at::Context::hasROCM() ? "miopen_search" : "cudnn_search",
                    on(context.benchmarkCuDNN()), Origin::automatic},
                   {"deterministic", on(context.deterministicAlgorithms()),
                    deterministic ? Origin::config : Origin::automatic}});
  return settings;
}

}  // namespace maglev::verbs::doctor
