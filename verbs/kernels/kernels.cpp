// maglev kernels: the fused operations of this build, whether each equals its reference, forwards
// and backwards, and how fast both are.

#include <unistd.h>

#include "base/core/find.h"
#include "engine/device/kernel.h"
#include "engine/host/machine.h"
#include "verbs/arguments.h"
#include "verbs/kernels/bench.h"
#include "verbs/kernels/gradient.h"
#include "verbs/kernels/parity.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::kernels {

VerbEntry entry();

namespace {

constexpr const char* kWords = "[list | test [<kernel>] | grad [<kernel>] | bench [<kernel>]]";

const KernelEntry& find_kernel(const std::string& name) {
  return find_row(kernel_table(), name, "[kernels] ", "kernel");
}

const char* built_for(const KernelEntry& kernel) {
  if (kernel.device_only) return kernel.cuda ? "CUDA" : "no device here";
  return kernel.cuda ? "CPU, CUDA" : "CPU";
}

void list() {
  Table table({"name", ">cases", "built for", "what it does"});
  for (const KernelEntry& kernel : kernel_table())
    table.add({kernel.name, std::to_string(kernel.cases(at::kCPU).size()), built_for(kernel),
               kernel.summary});
  print(table.text(probe_terminal(STDOUT_FILENO)));
  print(
      "\nmaglev kernels test holds each to its reference, grad its gradients, bench times both.\n");
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(
      entry(), words,
      {.flags = {{"--device", "cpu|cuda", "on one kind of device alone (default: all there are)"}},
       .most = 2,
       .names = kWords});
  if (arguments.help()) return arguments.print_help();
  const auto& given = arguments.positional();
  const std::string what = given.empty() ? "list" : given[0];
  if (what == "list") {
    if (given.size() == 2) throw Error("[kernels] list takes no kernel, got '" + given[1] + "'");
    if (arguments.has("--device"))
      throw Error(
          "[kernels] --device is of test, grad and bench; list says what each is built for");
    list();
    return 0;
  }
  const auto chosen = [&] {
    if (given.size() == 2) return std::vector{find_kernel(given[1])};
    return std::vector(kernel_table().begin(), kernel_table().end());
  };
  claim_threads();
  const auto devices = case_devices(arguments.value("--device"));
  if (what == "test") return print_parity(chosen(), devices);
  if (what == "grad") return print_gradients(chosen(), devices);
  if (what == "bench") return print_bench(chosen(), devices);
  throw Error("[kernels] " + unknown_name("action", what, {"list", "test", "grad", "bench"}));
}

}  // namespace

VerbEntry entry() {
  return {.name = "kernels",
          .summary =
              "fused operations of this build: parity, gradients and speed beside their references",
          .usage =
              "kernels [list | test [<kernel>] | grad [<kernel>] | bench [<kernel>]] "
              "[--device cpu|cuda]",
          .run = run};
}

}  // namespace maglev::verbs::kernels
