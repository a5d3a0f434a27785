#pragma once
// What this process takes of the machine while it runs: memory, processors, energy. Reads files of
// the kernel. No torch.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/other_program.h"

namespace maglev {

struct Usage {
  double at_s = 0;         ///< when, steady clock
  double processor_s = 0;  ///< of all threads so far
  /// In which its threads were ready to go on and waited for a processor; NaN: the kernel does not
  /// say.
  double queued_s = std::numeric_limits<double>::quiet_NaN();
  ProgramsUse programs = {};  ///< of those it started, such as environments' Python processes
  int64_t resident = 0;       ///< bytes of this process's own, mapped files left out; 0: unknown
  /// Shares of the last ten seconds, 0 to 1, in which something on this machine waited for memory,
  /// and for a processor; NaN: the kernel does not say.
  double memory_pressure = 0, processor_pressure = 0;
  /// Counters of energy, microjoules, each a package's, and where it begins anew; none: not to be
  /// read.
  struct Energy {
    int64_t count, range;
  };
  std::vector<Energy> energy;
};

/// `root` is put before /proc and /sys, so that tests can show it another machine. Throws nothing.
Usage sample_usage(const std::string& root = "");

/// Of all processor packages, whoever they worked for, from one sample to a later one in which no
/// counter has begun anew twice; NaN: unknown.
double joules_between(const Usage& before, const Usage& after);

// The parsers, of a file's whole text.

/// Bytes of "RssAnon: 1024 kB" in /proc/self/status; of kernels without it of VmRSS. 0: neither is
/// there.
int64_t parse_resident(std::string_view text);
/// The share behind "some avg10=" of a pressure file, 0 to 1; NaN: there is none.
double parse_pressure(std::string_view text);

}  // namespace maglev
