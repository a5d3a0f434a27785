#pragma once
// The main function of programs that compare this engine with recorded cases:
//   <program> FOLDER [CASE ...]     all cases of the folder when none is named

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "engine/host/machine.h"

namespace maglev {

/// Calls `run` for each case's file, in order of names. Exit status: 0; 1 when one said false; 2 on
/// errors, which are told.
inline int run_cases(int argc, char** argv,
                     const std::function<bool(const std::filesystem::path&)>& run) {
  try {
    if (argc < 2) throw Error("usage: " + std::string(argv[0]) + " FOLDER [CASE ...]");
    claim_threads();
    const std::filesystem::path folder = argv[1];
    std::vector<std::filesystem::path> paths;
    for (int i = 2; i < argc; ++i) paths.push_back(folder / (std::string(argv[i]) + ".case"));
    if (paths.empty())
      for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".case") paths.push_back(entry.path());
    if (paths.empty())
      throw Error("[parity] no .case files in " + folder.string() + ": run the fixture first");
    std::sort(paths.begin(), paths.end());
    bool ok = true;
    for (const auto& path : paths) ok = run(path) && ok;
    return ok ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}

}  // namespace maglev
