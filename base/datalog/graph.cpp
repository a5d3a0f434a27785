#include "base/datalog/graph.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace maglev::datalog {
namespace {

/// The program whose facts are all that is known to be true.
Program truths_of(const Dataset& data) {
  Program program{.constants = data.program.constants,
                  .predicates = data.program.predicates,
                  .facts = data.program.facts};
  for (const auto* split : {&data.train, &data.valid, &data.test})
    program.facts.insert(program.facts.end(), split->begin(), split->end());
  return program;
}

/// When a file of a folder was last changed; the smallest time where there is none, as for a
/// built-in name.
std::filesystem::file_time_type changed(const std::string& folder) {
  auto newest = std::filesystem::file_time_type::min();
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(folder, none))
    newest = std::max(newest, std::filesystem::last_write_time(file, none));
  return newest;
}

}  // namespace

Graph::Graph(Dataset opened)
    : dataset(std::move(opened)), knowledge(dataset.program), truths(truths_of(dataset)) {}

const Graph& open_graph(const std::string& name_or_folder) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::filesystem::file_time_type>, std::unique_ptr<Graph>>
      graphs;
  const std::lock_guard lock(mutex);
  auto& graph = graphs[{name_or_folder, changed(name_or_folder)}];
  if (!graph) graph = std::make_unique<Graph>(open_dataset(name_or_folder));
  return *graph;
}

}  // namespace maglev::datalog
