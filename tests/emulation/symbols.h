#pragma once
// Names and bounds of functions and variables of this library, from its own symbol table.

#include <cstddef>
#include <cstdint>
#include <string>

namespace maglev::emulation {

struct Symbol {
  uintptr_t begin;
  size_t bytes;
  bool function;
  std::string mangled;
  std::string file;  ///< of what only its source sees, else empty
};

/// The symbol that `address` lies in; null where there is none.
const Symbol* symbol_at(uintptr_t address);

/// "reduce_chunks (adam.cu)", "step_slots<CartPole>".
std::string kernel_name(const Symbol& symbol);
/// "values" of a variable in a function.
std::string variable_name(const Symbol& symbol);

enum class Section { foreign, constant, variable };
/// Whether this library has `address` among its constants or its variables.
Section section_of(uintptr_t address);

}  // namespace maglev::emulation
