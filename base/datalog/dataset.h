#pragma once
// A knowledge graph with the queries it is learned and judged by: read from a folder, or made by
// name. Ids go by the order of names, so that they do not depend on which file was read first.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/datalog/program.h"

namespace maglev::datalog {

struct Dataset {
  std::string name, folder;  ///< folder is empty for one that was made
  Program program;           ///< facts and rules
  std::vector<Atom> train, valid, test;
  /// Steps of each query's shortest proof, where one step resolves the first atom and ground atoms
  /// that are facts go by themselves; -1: unknown, or there is none. Empty: nobody said.
  std::vector<int32_t> train_depth, valid_depth, test_depth;
  /// Constants that the second argument of predicate p may be, sorted, as element p - 1; an empty
  /// one, or no elements at all: any.
  std::vector<std::vector<int32_t>> domains;
  /// What was left out or merged on the way in, a line each, for people.
  std::vector<std::string> notes;

  /// Puts names in order, everywhere.
  void sort_names();
};

/// A folder, or a built-in name of dataset_names(). The folder has train.txt, valid.txt and
/// test.txt (triples.h); it may have rules.txt (rules.h), facts.txt (what proofs may use; else
/// train.txt), domains.txt (triples `domain(predicate, constant).`) and train_depths.txt,
/// valid_depths.txt, test_depths.txt (those queries again, or some, with depths; a query has one).
/// Valid and test may name constants that no fact has. Throws Error: an unknown name with near ones, a missing file with
/// what was looked for, a bad line with file, line and column.
Dataset open_dataset(const std::string& name_or_folder);

/// The same as it is called from everywhere: folders by their whole paths.
std::string lasting_name(const std::string& name_or_folder);
/// A line for people where a built-in name is that of a folder here, too; else "".
std::string shadowed_folder(const std::string& name_or_folder);

/// Throws Error where the folder has files of a data set, which one that is written there replaces.
void expect_no_dataset(const std::string& folder);

/// A built-in one, drawn with a seed of the caller's; nothing: as open_dataset has it. Throws Error
/// for a seed where none is drawn from.
Dataset make_dataset(const std::string& name, std::optional<uint64_t> seed);

/// "family", "countries_s1" to "countries_s3": made by generators with a fixed seed (family.h,
/// countries.h). "kinships", "nations", "umls": read from PyKEEN's wheel, rules mined (pykeen.h).
std::vector<std::string> dataset_names();

/// Writes such a folder, made where there is none. Where it has files of these names already they
/// go, if `replace`; else throws Error.
void write_dataset(const Dataset& dataset, const std::string& folder, bool replace);

}  // namespace maglev::datalog
