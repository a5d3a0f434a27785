#pragma once
// Families over generations: couples, their children, marriages between families. All of the
// twelve relations of Hinton's family trees (1986), each as its definition says, so that the rules
// which hold are known and hold without exception.

#include <cstdint>

#include "base/datalog/dataset.h"

namespace maglev::datalog {

/// With these defaults: 2,420 people and 28,164 relations between them, 19,715 of them facts; 88
/// rules.
struct FamilyOptions {
  int32_t families = 160;   ///< couples of the first generation
  int32_t generations = 5;  ///< with the first
  uint64_t seed = 1;
};

/// Facts and train are 70 % of all relations that hold, valid 10 %, test 20 %, drawn evenly.
/// aunt(X,Y) says that X is an aunt of Y; uncles, aunts, nephews and nieces are by blood. Nobody
/// marries a brother, sister or first cousin, or twice. Rules hold in every such world, each with
/// confidence 1. Throws Error for no families, or no generations.
Dataset make_family(const FamilyOptions& options);

}  // namespace maglev::datalog
