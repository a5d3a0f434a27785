// maglev kernels: the fused operations of this build.

#include <cstdio>

#include "engine/algo/kernel.h"
#include "verbs/verb.h"

namespace maglev::verbs::kernels {

VerbEntry entry() {
  return {.name = "kernels",
          .summary = "fused operations of this build",
          .usage = "kernels",
          .run = [](const std::vector<std::string>&) {
            for (const auto& k : kernel_table())
              std::printf("%-12s %s (%zu cases)\n", k.name, k.summary, k.cases(at::kCPU).size());
            return 0;
          }};
}

}  // namespace maglev::verbs::kernels
