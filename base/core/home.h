#pragma once
// Where the engine's own files lie, and what people call it: in a checkout, or installed from a wheel
// (docs/installing.md).

#include <string>

namespace maglev {

/// Whose configs/ hold the proven settings: MAGLEV_HOME, else the working directory.
std::string home_folder();

/// The Python of the environment that the engine is installed in, which its command and its package
/// tell by MAGLEV_INSTALLED; empty in a checkout.
std::string installed_python();

/// What stands before a verb: "maglev", in a checkout "./maglev".
std::string command_name();

/// What brings the packages of requirements-<name>.txt, to be read behind what is missing.
std::string how_to_get(const std::string& name);

}  // namespace maglev
