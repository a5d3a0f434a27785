#pragma once
// Who else uses the processors while something is measured. Reads a file of the kernel. No torch.

#include <string>
#include <string_view>

namespace maglev {

/// From the moment it is made. Children of this process count as its own once they have ended and
/// were waited for.
class Bystanders {
 public:
  /// `root` is put before /proc, so that tests can show it another machine.
  explicit Bystanders(std::string root = "");

  /// Processors that other programs kept busy on average; NaN: the kernel does not say.
  double processors() const;
  /// A line for people where that is enough to be seen in figures; else empty.
  std::string note() const;

 private:
  struct Moment {
    double at_s, busy_s, ours_s;
  };
  Moment now() const;

  std::string root_;
  Moment begin_;
};

/// Ticks in which the processors of a machine were not idle, those that its host took included, of
/// /proc/stat's whole text; NaN: it is none.
double parse_busy_ticks(std::string_view text);

}  // namespace maglev
