// maglev algos: the algorithms of this build and their settings.

#include <unistd.h>

#include "base/config/options.h"
#include "engine/algo/algorithm.h"
#include "verbs/arguments.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::algos {

VerbEntry entry();

namespace {

void print_all() {
  Table table({"name", ">settings", "what it is"});
  for (const AlgoEntry& algo : algo_table()) {
    OptionsBox options = algo.make_options();
    OptionTable settings;
    algo.describe(settings, options.get());
    table.add({algo.name, std::to_string(settings.fields().size()), algo.summary});
  }
  print(table.text(probe_terminal(STDOUT_FILENO)));
  print("\nmaglev algos <name> shows the settings of one.\n");
}

void print_one(const AlgoEntry& algo) {
  OptionsBox options = algo.make_options();
  OptionTable table;
  table.section(algo.name, [&](OptionTable& t) { algo.describe(t, options.get()); });
  print(std::string(algo.name) + ": " + algo.summary +
        "\n\nsettings, as name=value of maglev train:\n\n" + table.help());
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, {.most = 1, .names = "<algorithm>"});
  if (arguments.help()) return arguments.print_help();
  if (arguments.positional().empty()) print_all();
  else print_one(find_algo(arguments.positional()[0]));
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "algos",
          .summary = "algorithms of this build",
          .usage = "algos [<algorithm>]",
          .run = run};
}

}  // namespace maglev::verbs::algos
