// How long the processes of a run take to add up values, through the memory they share.
//
//   group_throughput [--processes 2] [COUNT ...]
//
// A line of JSON for each count of f32 values: microseconds of a sum, the median of many.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/process_group.h"

namespace maglev {
namespace {

constexpr int kSums = 200, kWarm = 20;

double sum_us(ProcessGroup& group, size_t count) {
  std::vector<float> values(count);
  std::vector<double> took;
  for (int i = 0; i < kWarm + kSums; ++i) {
    const double begin = steady_s();
    group.sum(values.data(), count);
    if (i >= kWarm) took.push_back(1e6 * (steady_s() - begin));
  }
  std::nth_element(took.begin(), took.begin() + kSums / 2, took.end());
  return took[kSums / 2];
}

int lead(const std::vector<std::string>& words) {
  int processes = 2;
  std::vector<size_t> counts;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--processes" && i + 1 < words.size())
      processes = std::atoi(words[++i].c_str());
    else counts.push_back(size_t(std::atoll(words[i].c_str())));
  }
  if (counts.empty()) counts = {1'000, 10'000, 100'000, 1'000'000, 10'000'000};
  const auto group = ProcessGroup::lead(processes, {"/proc/self/exe", "--process"});
  for (size_t count : counts) {
    group->tell(std::to_string(count));
    std::printf("{\"processes\": %d, \"count\": %zu, \"us\": %.1f}\n", processes, count,
                sum_us(*group, count));
  }
  group->tell("");
  group->wait_for_end();
  return 0;
}

int follow(const std::string& place) {
  const auto group = ProcessGroup::join(place);
  for (std::string count; !(count = group->hear()).empty();)
    sum_us(*group, size_t(std::atoll(count.c_str())));
  return 0;
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    return words.size() == 2 && words[0] == "--process" ? maglev::follow(words[1])
                                                        : maglev::lead(words);
  } catch (const maglev::Error& e) {
    std::fprintf(stderr, "group_throughput: %s\n", e.what());
    return 1;
  }
}
