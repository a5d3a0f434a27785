#pragma once
// What other libraries call our settings, in one table: who brings a name from there is told ours.

#include <string>
#include <string_view>
#include <vector>

namespace maglev {

/// "learning_rate is ppo.lr here", where ppo.lr is among the `known` settings. Dashes count as
/// underscores, case does not count, and of a dotted name the last part does, or the last parts of
/// names that are known with sections. Empty when it is no name of a library we know, or nothing
/// among `known` is its like. `beside`: other names of the file it is from, by which some mean
/// something else.
std::string answer_to_setting(std::string_view name, const std::vector<std::string>& known,
                              const std::vector<std::string>& beside = {});

/// Of a setting that is none of `known`: that answer, or near ones, or how to list them; no list.
std::string unknown_setting(std::string_view name, const std::vector<std::string>& known,
                            const std::vector<std::string>& beside = {});

/// The same as answer_to_setting for a flag such as "--learning-rate", where the settings are not
/// known yet: "--learning-rate is the setting <algorithm>.lr=<value> here". One with a dot is a
/// setting's name behind dashes. Of one that is another among the `known` flags that one is told.
std::string answer_to_flag(std::string_view flag, const std::vector<std::string>& known = {});

}  // namespace maglev
