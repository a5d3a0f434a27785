#include "kernels/action_counts/action_counts.h"

namespace maglev {

void action_counts_cpu(const ActionCountArgs& args) {
  int64_t counts[kCountedCategories] = {}, taken = 0;
  for (int64_t row = 0; row < args.rows; ++row) {
    const int64_t took = args.reset[row] == 0;
    const int32_t* action = args.action + row * args.heads;
    for (int head = 0; head < args.heads; ++head) counts[args.begin[head] + action[head]] += took;
    taken += took;
  }
  for (int k = 0; k < args.categories; ++k) {
    args.counts[k] += float(counts[k]);
    args.taken[k] += float(taken);
  }
}

}  // namespace maglev
