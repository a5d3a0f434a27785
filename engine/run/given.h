#pragma once
// given.txt: what people gave a run, or several seeds, in the order in which they did. First the
// settings it was begun with, a line of name=value each; below a line that begins with # those that
// were given later. Nothing is ever taken out of it.

#include <cstddef>
#include <string>
#include <vector>

namespace maglev {

constexpr const char* kGivenFile = "given.txt";
constexpr size_t kMaxGivenBytes = 1 << 20;

/// The settings of the command that began it or, where one was started again with others
/// (--continue), of the last such. Those of a resume are none of a command's.
std::vector<std::string> given_by_command(const std::string& account);

/// The account behind which a command that was started again is written down, with its `settings`, a
/// line each; as it is where that gave the same as the last one. `when`: "at step 640".
std::string with_command(const std::string& account, const std::string& when,
                         const std::string& settings);

/// The same with those a resume was given; as it is where there are none.
std::string with_resume(const std::string& account, const std::string& when,
                        const std::vector<std::string>& settings);

}  // namespace maglev
