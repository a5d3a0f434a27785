#pragma once
// Graphs that lie in the Python package pykeen (Ali et al., JMLR 2021): kinships, nations and umls,
// of Kemp et al. (AAAI 2006). They are read where they are; nothing of them is shipped.

#include <string>

namespace maglev::datalog {

/// The folder of the package: what MAGLEV_PYKEEN names, else what the build was given. Throws Error
/// with what to do where there is none.
std::string pykeen_folder();

}  // namespace maglev::datalog
