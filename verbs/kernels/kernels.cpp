// maglev kernels: the fused operations of this build, and whether each equals its reference.

#include <unistd.h>

#include "engine/algo/kernel.h"
#include "engine/core/find.h"
#include "engine/data/device.h"
#include "verbs/arguments.h"
#include "verbs/kernels/parity.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::kernels {

VerbEntry entry();

namespace {

const KernelEntry& find_kernel(const std::string& name) {
  return find_row(kernel_table(), name, "[kernels] ", "kernel");
}

void list() {
  Table table({"name", ">cases", "built for", "what it does"});
  for (const KernelEntry& kernel : kernel_table())
    table.add({kernel.name, std::to_string(kernel.cases(at::kCPU).size()),
               kDeviceCode ? "CPU, CUDA" : "CPU", kernel.summary});
  print(table.text(probe_terminal(STDOUT_FILENO)));
  print("\nmaglev kernels test holds each to its reference.\n");
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, {.most = 2, .names = "[list | test [<kernel>]]"});
  if (arguments.help()) return arguments.print_help();
  const auto& given = arguments.positional();
  const std::string what = given.empty() ? "list" : given[0];
  if (what == "test") {
    if (given.size() == 2) return print_parity({find_kernel(given[1])});
    return print_parity({kernel_table().begin(), kernel_table().end()});
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
