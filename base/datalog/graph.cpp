#include "base/datalog/graph.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/core/hash.h"

namespace maglev::datalog {
namespace {

/// What ids stand for.
std::string hash_of_names(const Program& program) {
  Hash hash;
  for (const Names* names : {&program.predicates, &program.constants}) {
    const int32_t count = names->size();
    hash.add(&count, sizeof count);
    for (const std::string& name : names->all()) hash.add_text(name);
  }
  return hash.hex();
}

}  // namespace

Program truths_of(const Dataset& data, bool with_test) {
  Program program{.constants = data.program.constants,
                  .predicates = data.program.predicates,
                  .facts = data.program.facts};
  for (const auto* split : {&data.train, &data.valid, &data.test})
    if (split != &data.test || with_test)
      program.facts.insert(program.facts.end(), split->begin(), split->end());
  return program;
}

Graph::Graph(Dataset opened)
    : dataset(std::move(opened)),
      knowledge(dataset.program),
      truths(truths_of(dataset)),
      names(hash_of_names(dataset.program)) {}

const Graph& open_graph(const std::string& name_or_folder) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Graph>> graphs;
  const std::lock_guard lock(mutex);
  auto& graph = graphs[name_or_folder];
  if (!graph) graph = std::make_unique<Graph>(open_dataset(name_or_folder));
  return *graph;
}

const Vectors& open_vectors(const std::string& file, const Program& program) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, const Program*>, std::unique_ptr<Vectors>> opened;
  const std::lock_guard lock(mutex);
  auto& vectors = opened[{file, &program}];
  if (!vectors) vectors = std::make_unique<Vectors>(read_vectors(file, program));
  return *vectors;
}

}  // namespace maglev::datalog
