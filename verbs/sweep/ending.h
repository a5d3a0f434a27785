#pragma once
// Why a trial's process ended before its training did.

#include <string>

namespace maglev::verbs::sweep {

enum class Cause {
  trial,    ///< what it said itself, or a crash: its settings may have to do with it
  outside,  ///< somebody stopped or killed it, as a system out of memory does
  disk,     ///< there was no room to save
};

/// By the exit status (verbs/child.h) and what the process said last. What ended one process of a
/// run that has several, or one seed, is in its words alone, and so is a full disk.
Cause cause_of(int status, const std::string& said);

}  // namespace maglev::verbs::sweep
