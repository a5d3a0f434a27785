#pragma once
// Errors a person can act on. A user's mistake throws Error: "[where] what was expected, what came,
// what to do". A mistake of ours fails MAGLEV_ASSERT.

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace maglev {

/// A mistake of the user's or of their machine: settings, files, devices, disks. Shown as one line,
/// exit status 2.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The known names nearest to `name` by edit distance, best first; empty when nothing is near. Case
/// and dashes for underscores do not count.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& known,
                                    size_t most = 3);

/// Whether two dotted names end in the same part: "lr" and "ppo.lr".
bool same_leaf(std::string_view a, std::string_view b);

/// "unknown environment 'cartpol'; did you mean cartpole?" or, with nothing near, the whole list.
/// `kind` is the noun shown.
std::string unknown_name(std::string_view kind, std::string_view name,
                         const std::vector<std::string>& known);

[[noreturn]] void assert_failed(const char* condition, const char* why, const char* file, int line);

}  // namespace maglev

/// Holds in every build; `why` says what it means when it does not. No side effects in `condition`.
#define MAGLEV_ASSERT(condition, why) \
  ((condition) ? void(0) : ::maglev::assert_failed(#condition, why, __FILE__, __LINE__))
