#pragma once
// What every algorithm computes, in a few digits: a change that is not meant to change results
// keeps them, as Stockfish's bench does.

#include <cstdint>
#include <string>
#include <vector>

namespace maglev::verbs::bench {

struct Signature {
  std::string algo;
  std::string hash;  ///< of the whole training state
};

/// Each algorithm of this build after at least `updates` updates on one processor in fp32, with the
/// settings that `train` finds proven. The same on every machine as far as its arithmetic is ours.
std::vector<Signature> signatures(int64_t updates);

}  // namespace maglev::verbs::bench
