// How long the processes of a run take to add up values, through the memory they share or between
// machines.
//
//   group_throughput [--processes 2] [COUNT ...]
//   group_throughput --machines 2 --listen HOST:PORT [--processes 2] [COUNT ...]
//   group_throughput --join HOST:PORT
//
// A line of JSON for each count of f32 values: microseconds of a sum, the median of many.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/processes/process_group.h"

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

const std::vector<std::string> kProcess = {"/proc/self/exe", "--process"};

int lead(const std::vector<std::string>& words) {
  int processes = 2, machines = 1;
  std::string listen;
  std::vector<size_t> counts;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool more = i + 1 < words.size();
    if (words[i] == "--processes" && more) processes = std::atoi(words[++i].c_str());
    else if (words[i] == "--machines" && more) machines = std::atoi(words[++i].c_str());
    else if (words[i] == "--listen" && more) listen = words[++i];
    else counts.push_back(size_t(std::atoll(words[i].c_str())));
  }
  if (counts.empty()) counts = {1'000, 10'000, 100'000, 1'000'000, 10'000'000};
  std::unique_ptr<MachineLine> line;
  if (machines > 1)
    line =
        MachineLine::lead(listen, {.machines = machines, .processes = processes, .build = "bench"},
                          [](const std::string&) {});
  const auto group = ProcessGroup::lead(processes, kProcess, std::move(line));
  for (size_t count : counts) {
    group->tell(std::to_string(count));
    std::printf("{\"processes\": %d, \"count\": %zu, \"us\": %.1f}\n", processes, count,
                sum_us(*group, count));
  }
  group->tell("");
  group->wait_for_end();
  return 0;
}

int follow(ProcessGroup& group) {
  for (std::string count; !(count = group.hear()).empty();)
    sum_us(group, size_t(std::atoll(count.c_str())));
  return 0;
}

int join(const std::string& address) {
  auto line = MachineLine::join(address, "bench", /*patience_s=*/60, [](const std::string&) {});
  const int processes = line->run().processes;
  const auto group = ProcessGroup::lead(processes, kProcess, std::move(line));
  follow(*group);
  group->wait_for_end();
  return 0;
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 2 && words[0] == "--process")
      return maglev::follow(*maglev::ProcessGroup::join(words[1]));
    if (words.size() == 2 && words[0] == "--join") return maglev::join(words[1]);
    return maglev::lead(words);
  } catch (const maglev::Error& e) {
    std::fprintf(stderr, "group_throughput: %s\n", e.what());
    return 1;
  }
}
