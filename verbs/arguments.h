#pragma once
// The command line of one verb: flags, values, positional words and settings, read the same way by
// every verb.
//
//   const Arguments arguments(entry(), words,
//                             {.flags = {{"--out", "DIR", "run folder"}, {"--json", "", "as
//                             JSON"}},
//                              .least = 1,
//                              .most = 2,
//                              .names = "<algorithm> <environment>"});
//   if (arguments.help()) return arguments.print_help();
//   if (auto out = arguments.value("--out")) ...

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config/choice.h"
#include "verbs/verb.h"

namespace maglev {

struct Flag {
  const char* name;        ///< "--out"
  const char* value = "";  ///< what follows it, e.g. "DIR"; empty: a switch
  const char* help = "";
};

/// What a verb takes besides --help and -h.
struct Grammar {
  std::vector<Flag> flags = {};
  size_t least = 0, most = 0;  ///< positional words
  const char* names = "";  ///< the positional words, for errors, e.g. "<algorithm> <environment>"
  bool settings = false;   ///< words of the form name=value are settings, not positional
};

/// Flags may stand anywhere, as `--out DIR` or `--out=DIR`; of a repeated one the last counts.
/// After `--` nothing is a flag. Throws Error on an unknown flag (with near ones), a missing, empty
/// or needless value, too few or too many words.
class Arguments {
 public:
  Arguments(const VerbEntry& verb, const std::vector<std::string>& words, Grammar grammar);

  /// --help or -h was given: the words were not counted.
  bool help() const { return help_; }
  /// The verb's summary, usage and flags.
  std::string help_text() const;
  /// Prints help_text(); returns exit status 0.
  int print_help() const;

  /// Whether the flag was given.
  bool has(std::string_view flag) const;
  /// What was given for the flag; empty when it was not.
  std::optional<std::string> value(std::string_view flag) const;
  /// All that was given for it, where it may be given several times.
  std::vector<std::string> values(std::string_view flag) const;
  /// The same as a whole number in [min, max]. Throws Error when it is not one.
  std::optional<int64_t> integer(std::string_view flag, int64_t min, int64_t max) const;
  /// The same as any finite number in [min, max], which may be infinite.
  std::optional<double> number(std::string_view flag, double min, double max) const;
  /// The same of a number above `above` and at most `max`; an error ends with `advice`.
  std::optional<double> number_above(std::string_view flag, double above, double max,
                                     const std::string& advice = "") const;
  /// The same as a file, there or not. Throws Error when it is a folder, or would be in none.
  std::optional<std::string> file(std::string_view flag) const;
  /// The same as a file to be written. Throws Error when it is there already and --overwrite, a
  /// flag of the grammar, was not given.
  std::optional<std::string> output(std::string_view flag) const;
  /// Seconds of "120", "120s" or "2m". Throws Error when they are not within [least, most].
  std::optional<double> seconds(std::string_view flag, double least, double most) const;
  /// The same as a member of an enum with names. Throws Error with near names when it is none.
  template <Choice E>
  std::optional<E> choice(std::string_view flag) const {
    constexpr auto names = names_of(E{});
    const auto index = name_index(flag, {names.begin(), names.end()});
    return index ? std::optional(E(*index)) : std::nullopt;
  }

  const std::vector<std::string>& positional() const { return positional_; }
  /// Words of the form name=value, in order, of each name the last; empty unless the grammar has
  /// settings.
  const std::vector<std::string>& settings() const { return settings_; }
  /// A line for people for each setting that was given again with another value.
  const std::vector<std::string>& replaced() const { return replaced_; }

  /// What is said of a name=value whose name is no setting's anywhere: "env is a word of its own:
  /// maglev train ppo cartpole"; empty: there is none. For where words are missing.
  std::string answer_to_settings() const;

 private:
  const Flag* find(std::string_view name) const;
  /// Which of `names` was given for the flag.
  std::optional<size_t> name_index(std::string_view flag,
                                   const std::vector<std::string>& names) const;
  /// A number that `fits`; an error says where such a one `lies`, and ends with `advice`.
  template <class Fits>
  std::optional<double> number_that(std::string_view flag, const Fits& fits,
                                    const std::string& lies, const std::string& advice) const;
  void add_setting(const std::string& word);
  std::string where() const;

  VerbEntry verb_;
  Grammar grammar_;
  bool help_ = false;
  std::vector<std::pair<std::string, std::string>> given_;
  std::vector<std::string> positional_, settings_, replaced_;
};

}  // namespace maglev
