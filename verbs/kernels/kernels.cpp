// maglev kernels: the fused operations of this build, and whether each equals its reference.

#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "engine/algo/kernel.h"
#include "engine/core/error.h"
#include "verbs/arguments.h"
#include "verbs/kernels/parity.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::kernels {

VerbEntry entry();

namespace {

#ifdef MAGLEV_DEVICE_CODE
constexpr bool kDeviceCode = true;
#else
constexpr bool kDeviceCode = false;
#endif

const KernelEntry& find_kernel(const std::string& name) {
  std::vector<std::string> known;
  for (const KernelEntry& kernel : kernel_table()) {
    if (name == kernel.name) return kernel;
    known.emplace_back(kernel.name);
  }
  throw Error("[kernels] " + unknown_name("kernel", name, known));
}

std::string share_text(const Parity& parity, double tolerance) {
  if (!parity.problem.empty()) return parity.problem;
  if (parity.different == 0) return "equal bit for bit";
  const std::string different = std::to_string(parity.different) + " of " + std::to_string(parity.elements) + " differ in bits";
  if (tolerance == 0) return different + ", none may";
  char text[64];
  std::snprintf(text, sizeof text, "%.3g%% of tolerance %.3g", 100 * parity.share, tolerance);
  return std::string(text) + ", " + different;
}

void list() {
  Table table({"name", ">cases", "built for", "what it does"});
  for (const KernelEntry& kernel : kernel_table())
    table.add({kernel.name, std::to_string(kernel.cases(at::kCPU).size()), kDeviceCode ? "CPU, CUDA" : "CPU", kernel.summary});
  print(table.text(probe_terminal(STDOUT_FILENO)));
  print("\nmaglev kernels test holds each to its reference.\n");
}

int test(const std::vector<KernelEntry>& chosen) {
  const double scale = tolerance_scale();
  std::vector<at::Device> devices{at::kCPU};
  if (kDeviceCode && torch::cuda::is_available()) devices.emplace_back(at::kCUDA, 0);
  Table table({"kernel", "device", "case", "", "difference"});
  int cases = 0, failed = 0;
  for (const KernelEntry& kernel : chosen)
    for (const at::Device& device : devices)
      for (const KernelCase& one : kernel.cases(device)) {
        const Parity parity = check_parity(one, scale);
        table.add({kernel.name, device.str(), one.name, parity.ok ? "ok" : "FAILED", share_text(parity, one.tolerance * scale)});
        ++cases;
        failed += !parity.ok;
      }
  print(table.text(probe_terminal(STDOUT_FILENO)));
  print("\n" + std::to_string(cases) + " cases, " + std::to_string(failed) + " failed\n");
  return failed > 0 ? 1 : 0;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, {.most = 2, .names = "[list | test [<kernel>]]"});
  if (arguments.help()) return arguments.print_help();
  const auto& given = arguments.positional();
  const std::string what = given.empty() ? "list" : given[0];
  if (what == "test") {
    if (given.size() == 2) return test({find_kernel(given[1])});
    return test({kernel_table().begin(), kernel_table().end()});
  }
  if (what != "list") throw Error("[kernels] " + unknown_name("action", what, {"list", "test"}));
  if (given.size() == 2) throw Error("[kernels] list takes no kernel, got '" + given[1] + "'");
  list();
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "kernels",
          .summary = "fused operations of this build; test: hold each to its reference",
          .usage = "kernels [list | test [<kernel>]]",
          .run = run};
}

}  // namespace maglev::verbs::kernels
