// The program: finds the verb and turns errors into one line and an exit status.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/core/find.h"
#include "base/simd/targets.h"
#include "verbs/verb.h"

namespace {

using maglev::VerbEntry;

void print_help() {
  std::printf("usage: maglev <command> [arguments]\n\n");
  for (const VerbEntry& verb : maglev::verb_table())
    std::printf("  %-10s %s\n", verb.name, verb.summary);
  std::printf("\nmaglev <command> --help explains a command.\n");
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
      arguments[0] == "help") {
    print_help();
    return 0;
  }
  const VerbEntry& verb = maglev::find_row(maglev::verb_table(), arguments[0], "", "command");
  return verb.run({arguments.begin() + 1, arguments.end()});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    maglev::limit_simd();
    return run({argv + 1, argv + argc});
  } catch (const maglev::Error& e) {
    std::fprintf(stderr, "maglev: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "maglev: internal error: %s\n", e.what());
    return 70;
  }
}
