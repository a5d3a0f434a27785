#include "verbs/doctor/report.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include "base/config/choice.h"
#include "base/core/printed.h"
#include "base/core/version.h"
#include "base/core/words.h"
#include "engine/host/build_text.h"
#include "verbs/table.h"

namespace maglev::verbs::doctor {
namespace {

constexpr int kLabel = 18;

std::string known(const std::vector<std::string>& words) {
  return words.empty() ? "unknown" : joined(words, " ");
}

std::string cores_text(const Processor& cpu) {
  std::string text =
      std::to_string(cpu.affinity) + " of " + std::to_string(cpu.present) + " usable";
  // where a core runs several threads there are fewer of them
  if (cpu.cores > 0 && cpu.cores != cpu.present)
    text += ", " + std::to_string(cpu.cores) + " physical";
  return text + (cpu.quota > 0 ? ", quota " + printed("%g", cpu.quota) : ", no quota");
}

std::string caches_text(const std::vector<Cache>& caches) {
  std::string text;
  for (const Cache& cache : caches) {
    text += (text.empty() ? "L" : "; L") + std::to_string(cache.level);
    if (cache.kind != "unified") text += " " + cache.kind;
    text += " " + bytes_text(cache.bytes);
    if (cache.shared_by > 1) text += " for " + std::to_string(cache.shared_by);
  }
  return text.empty() ? "unknown" : text;
}

nlohmann::json caches_json(const std::vector<Cache>& caches) {
  nlohmann::json all = nlohmann::json::array();
  for (const Cache& cache : caches)
    all.push_back({{"level", cache.level},
                   {"kind", cache.kind},
                   {"bytes", cache.bytes},
                   {"shared_by", cache.shared_by}});
  return all;
}

// which types of products the processor has instructions for; the others are made of those
std::vector<std::string> native_precisions(const std::vector<std::string>& units) {
  const auto has = [&](const char* unit) {
    return std::find(units.begin(), units.end(), unit) != units.end();
  };
  std::vector<std::string> names{"fp64", "fp32"};
  if (has("avx512-bf16") || has("amx-bf16") || has("bf16")) names.push_back("bf16");
  if (has("avx512-fp16") || has("fp16")) names.push_back("fp16");
  return names;
}

std::string memory_text(const Memory& memory) {
  std::string text = bytes_text(memory.available) + " available of " + bytes_text(memory.total);
  if (memory.limit > 0)
    text += ", limited to " + bytes_text(memory.limit) + " with " + bytes_text(memory.limit_used) +
            " in use";
  if (memory.address_space > 0)
    text += ", " + bytes_text(memory.address_space) + " of it for this process (ulimit -v)";
  return text;
}

Section machine_section(const System& system) {
  const Processor& cpu = system.processor;
  Section section{"machine", {}};
  // every fact twice: for programs and for people
  section.facts = {
      {"system", {{"os", system.os}, {"kernel", system.kernel}}, system.os + ", " + system.kernel},
      {"processor", cpu.model, cpu.model},
      {"processors",
       {{"present", cpu.present},
        {"physical", cpu.cores},
        {"affinity", cpu.affinity},
        {"quota", cpu.quota},
        {"load", cpu.load}},
       cores_text(cpu) + ", load " + printed("%.1f", cpu.load)},
      {"vector_units", cpu.vector_units, known(cpu.vector_units)},
      {"precisions", native_precisions(cpu.vector_units),
       known(native_precisions(cpu.vector_units)) + "; others without instructions of their own"},
      {"caches", caches_json(cpu.caches), caches_text(cpu.caches)},
      {"memory_nodes", cpu.memory_nodes,
       cpu.memory_nodes > 0 ? std::to_string(cpu.memory_nodes) : "unknown"},
      {"memory",
       {{"total_bytes", system.memory.total},
        {"available_bytes", system.memory.available},
        {"limit_bytes", system.memory.limit},
        {"limit_used_bytes", system.memory.limit_used},
        {"address_space_bytes", system.memory.address_space}},
       memory_text(system.memory)},
      {"disk",
       {{"path", system.disk.path},
        {"total_bytes", system.disk.total},
        {"available_bytes", system.disk.available}},
       bytes_text(system.disk.available) + " free of " + bytes_text(system.disk.total) + " at " +
           system.disk.path}};
  // those the driver knows, whether torch can use them or not
  Fact gpus{.key = "gpus", .value = nlohmann::json::array()};
  for (const Gpu& gpu : system.gpus) {
    gpus.value.push_back({{"name", gpu.name},
                          {"memory_total_bytes", gpu.memory_total},
                          {"memory_free_bytes", gpu.memory_free},
                          {"capability", gpu.capability},
                          {"precisions", precisions_of_capability(gpu.capability)},
                          {"driver", gpu.driver},
                          {"busy_percent", gpu.busy},
                          {"pcie_lanes", gpu.lanes}});
    gpus.text += (gpus.text.empty() ? "" : "; ") + gpu.name;
    if (gpu.memory_total > 0)
      gpus.text += ", " + bytes_text(gpu.memory_free) + " free of " + bytes_text(gpu.memory_total);
    if (!gpu.capability.empty())
      gpus.text += ", capability " + gpu.capability + " (" +
                   known(precisions_of_capability(gpu.capability)) + ")";
    if (gpu.lanes > 0) gpus.text += ", " + counted(gpu.lanes, "lane");
    if (gpu.busy >= 0) gpus.text += ", busy " + std::to_string(gpu.busy) + "%";
    if (!gpu.driver.empty()) gpus.text += ", driver " + gpu.driver;
  }
  if (gpus.text.empty()) gpus.text = "none that a driver of NVIDIA or AMD knows";
  section.facts.push_back(std::move(gpus));
  return section;
}

Section build_section(const Build& build) {
  return {"build",
          {{"maglev",
            {{"version", build.version},
             {"type", build.type},
             {"optimised", build.optimised},
             {"plugins", build.plugins}},
            build.version + ", " + build.type + (build.optimised ? "" : ", not optimised") +
                (build.plugins.empty() ? "" : ", plug-ins of " + build.plugins)},
           {"compiler", build.compiler, build.compiler},
           {"torch",
            {{"version", build.torch},
             {"cuda", build.torch_cuda},
             {"cpu_kernels", build.torch_kernels},
             {"cuda_devices", build.cuda_devices}},
            build.torch +
                (build.torch_cuda.empty() ? ", CPU only"
                                          : ", CUDA " + build.torch_cuda + " with " +
                                                counted(build.cuda_devices, "device")) +
                ", " + build.torch_kernels + " kernels"},
           {"device_code", build.device_code, build.device_code}}};
}

Fact chosen(const char* key, nlohmann::json value, const std::string& text,
            const std::string& why) {
  return {key, {{"value", std::move(value)}, {"why", why}}, text + ": " + why};
}

std::string label_of(const Fact& fact) {
  if (!fact.label.empty()) return fact.label;
  std::string label = fact.key;
  std::replace(label.begin(), label.end(), '_', ' ');
  return label;
}

Section run_section(const Placement& placement) {
  return {"a run uses",
          {chosen("device", placement.device.str(), placement.device.str(), placement.device_why),
           chosen("threads", placement.threads, std::to_string(placement.threads),
                  placement.threads_why),
           chosen("precision", name_of(placement.precision), name_of(placement.precision),
                  placement.precision_why)}};
}

std::vector<std::string> build_warnings(const System& system, const Build& build) {
  std::vector<std::string> warnings;
  if (!build.optimised)
    warnings.push_back("this build is not optimised: build with CMAKE_BUILD_TYPE=Release");
  // a GPU that stays idle: no CUDA of its own, torch without it, or a driver that does not suit it
  const bool usable = std::ranges::any_of(system.gpus, &Gpu::runs_cuda);
  if (!system.gpus.empty() && !usable)
    warnings.push_back(
        "a GPU is here, but none that CUDA runs on: Maglev computes on NVIDIA's, "
        "and here on the processor");
  else if (usable && build.torch_cuda.empty())
    warnings.push_back(
        "a GPU is here, but this torch has no CUDA: install a CUDA build of torch and build again");
  else if (usable && build.cuda_devices == 0)
    warnings.push_back(
        "a GPU is here, but torch sees none: compare the driver's CUDA version with torch's " +
        build.torch_cuda);
  return warnings;
}

}  // namespace

Build probe_build() {
  Build build;
  build.version = kEngineVersion;
  build.type = MAGLEV_BUILD_TYPE;
  build.device_code = MAGLEV_DEVICE_CODE_STATE;
#if defined(__clang__)
  build.compiler = "Clang " __clang_version__;
#else
  build.compiler = "GCC " __VERSION__;
#endif
#ifdef __OPTIMIZE__
  build.optimised = true;
#endif
  // torch: what it was built with, and what it makes of this machine
  build.torch = TORCH_VERSION;
  build.torch_kernels = at::get_cpu_capability();
  const auto& hooks = at::detail::getCUDAHooks();
  if (hooks.hasCUDART()) {
    // 12040 is 12.4
    const long version = hooks.versionCUDART();
    build.torch_cuda = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }
  build.cuda_devices = int(torch::cuda::device_count());
  build.plugins = plugins_text();
  return build;
}

Report make_report(const System& system, const Build& build, const Placement& placement) {
  Report report{{machine_section(system), build_section(build), run_section(placement)},
                system_warnings(system, placement.threads)};
  for (auto& warning : build_warnings(system, build)) report.warnings.push_back(std::move(warning));
  return report;
}

void add_settings(Report& report, const std::vector<EffectiveSetting>& torch,
                  const EnvironmentReport& environment) {
  Section settings{"settings", {}}, ignored{"ignored", {}};
  const auto add = [&](const EffectiveSetting& one) {
    settings.facts.push_back({one.name,
                              {{"value", one.value}, {"origin", name_of(one.origin)}},
                              one.value + " (" + name_of(one.origin) + ")",
                              one.name});
  };
  for (const auto& one : torch) add(one);
  for (const auto& one : environment.effective) add(one);
  for (const auto& one : environment.ignored)
    ignored.facts.push_back(
        {one.name, {{"value", one.value}, {"why", one.why}}, one.value + ": " + one.why, one.name});
  report.sections.push_back(std::move(settings));
  if (!ignored.facts.empty()) report.sections.push_back(std::move(ignored));
  report.warnings.insert(report.warnings.end(), environment.warnings.begin(),
                         environment.warnings.end());
}

Section traces_section(const std::string& lacks) {
  return {"traces",
          {{"counters", lacks.empty() ? "all" : lacks,
            lacks.empty() ? "all: cycles, instructions, misses, faults, switches" : lacks}}};
}

Section measured_section(const Peaks& peaks, int threads, at::Device device) {
  const std::string on = " on " + counted(threads, "thread");
  Section section{
      "measured",
      {{"multiply_add_gflops", peaks.multiply_add_gflops,
        printed("%.0f", peaks.multiply_add_gflops) + " GFLOP/s in f32" + on, "multiply-add"},
       {"tanh_gigavalues_s", peaks.tanh_gigavalues_s,
        printed("%.1f", peaks.tanh_gigavalues_s) + " billion values a second" + on, "tanh"}}};
  for (const ProductPeak& product : peaks.products)
    section.facts.push_back({"matrix_product_" + product.type + "_gflops", product.gflops,
                             printed("%.0f", product.gflops) + " GFLOP/s by torch" +
                                 (device.is_cuda() ? " on " + device.str() : on),
                             product.type + " product"});
  section.facts.push_back({"memory_gigabytes_s", peaks.gigabytes_s,
                           printed("%.1f", peaks.gigabytes_s) + " GB/s read and written" + on,
                           "memory"});
  if (peaks.shared_gigabytes_s > 0)
    section.facts.push_back({"shared_gigabytes_s", peaks.shared_gigabytes_s,
                             printed("%.1f", peaks.shared_gigabytes_s) + " and " +
                                 printed("%.1f", peaks.shared_large_gigabytes_s) +
                                 " GB/s that a thread reads of what another wrote, small and large "
                                 "blocks",
                             "shared"});
  if (threads > 1)
    section.facts.push_back(
        {"hand_off_us", peaks.hand_off_us,
         printed("%.1f", peaks.hand_off_us) + " us until every thread has begun its block",
         "hand-off"});
  if (device.is_cuda()) {
    const auto rate = [](double gigabytes_s, const char* what) {
      return printed("%.1f", gigabytes_s) + " GB/s " + what;
    };
    section.facts.insert(
        section.facts.end(),
        {{"device_gigabytes_s", peaks.device_gigabytes_s,
          rate(peaks.device_gigabytes_s, "read and written"), "device memory"},
         {"to_device_gigabytes_s", peaks.to_device_gigabytes_s,
          rate(peaks.to_device_gigabytes_s, "from pinned memory"), "to device"},
         {"to_host_gigabytes_s", peaks.to_host_gigabytes_s,
          rate(peaks.to_host_gigabytes_s, "to pinned memory"), "to host"},
         {"launch_us", peaks.launch_us, printed("%.2f us", peaks.launch_us), "launch"}});
  }
  section.facts.push_back(
      {"seconds", peaks.seconds, printed("%.2f", peaks.seconds) + " s", "measuring took"});
  return section;
}

std::string report_text(const Report& report, const Terminal& terminal) {
  std::string text;
  for (const Section& section : report.sections) {
    // names of variables are longer than facts'
    int label_width = kLabel;
    for (const Fact& fact : section.facts)
      label_width = std::max(label_width, int(label_of(fact).size()) + 4);
    // only a terminal has a width to break lines at
    const int width = terminal.live ? std::max(20, terminal.columns - label_width)
                                    : std::numeric_limits<int>::max();
    text += (text.empty() ? "" : "\n") + Line().add(section.name, Ink::bold).text(terminal.colour) +
            "\n";
    for (const Fact& fact : section.facts) {
      const auto lines = wrapped(fact.text, width);
      // the label stands at the first line, the others lie under the text
      for (size_t i = 0; i < lines.size(); ++i) {
        Line line;
        line.add("  ")
            .add(i == 0 ? label_of(fact) : "", Ink::dim)
            .pad_to(label_width)
            .add(lines[i]);
        text += line.text(terminal.colour) + "\n";
      }
    }
  }
  text += "\n";
  if (report.warnings.empty())
    text += Line().add("no warnings", Ink::green).text(terminal.colour) + "\n";
  for (const std::string& warning : report.warnings) {
    const auto lines = wrapped(warning, terminal.live ? std::max(20, terminal.columns - 9)
                                                      : std::numeric_limits<int>::max());
    for (size_t i = 0; i < lines.size(); ++i)
      text += Line()
                  .add(i == 0 ? "warning: " : "         ", Ink::yellow)
                  .add(lines[i])
                  .text(terminal.colour) +
              "\n";
  }
  return text;
}

std::string report_json(const Report& report) {
  nlohmann::ordered_json json;
  for (const Section& section : report.sections) {
    // a key has no spaces
    std::string name = section.name;
    std::replace(name.begin(), name.end(), ' ', '_');
    for (const Fact& fact : section.facts) json[name][fact.key] = fact.value;
  }
  json["warnings"] = report.warnings;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace maglev::verbs::doctor
