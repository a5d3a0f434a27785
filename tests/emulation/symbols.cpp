#include "tests/emulation/symbols.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <link.h>
#include <vector>

namespace maglev::emulation {
namespace {

struct Range {
  uintptr_t begin, end;
  bool has(uintptr_t a) const { return a >= begin && a < end; }
};

struct Module {
  std::string path;
  uintptr_t base = 0;
  std::vector<Range> constants, variables;
};

// the module that this function is in
int take_module(dl_phdr_info* info, size_t, void* to) {
  const auto here = reinterpret_cast<uintptr_t>(&take_module);
  Module found{.path = info->dlpi_name, .base = info->dlpi_addr};
  std::vector<Range> relocated;
  bool is_here = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    const Range range{begin, begin + part.p_memsz};
    if (part.p_type == PT_GNU_RELRO) relocated.push_back(range);
    if (part.p_type != PT_LOAD) continue;
    is_here |= range.has(here);
    (part.p_flags & PF_W ? found.variables : found.constants).push_back(range);
  }
  // what is written once, by the loader, is constant; looked for first
  found.constants.insert(found.constants.end(), relocated.begin(), relocated.end());
  if (!is_here) return 0;
  *static_cast<Module*>(to) = found;
  return 1;
}

const Module& module() {
  static const Module found = [] {
    Module m;
    dl_iterate_phdr(take_module, &m);
    return m;
  }();
  return found;
}

std::vector<Symbol> read_symbols() {
  std::ifstream file(module().path.empty() ? "/proc/self/exe" : module().path.c_str(),
                     std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<Symbol> symbols;
  if (bytes.size() < sizeof(ElfW(Ehdr))) return symbols;
  const auto& header = *reinterpret_cast<const ElfW(Ehdr)*>(bytes.data());
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(bytes.data() + header.e_shoff);
  for (int s = 0; s < header.e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const char* names = bytes.data() + sections[sections[s].sh_link].sh_offset;
    const auto* first = reinterpret_cast<const ElfW(Sym)*>(bytes.data() + sections[s].sh_offset);
    std::string source;
    for (size_t i = 0; i < sections[s].sh_size / sizeof(ElfW(Sym)); ++i) {
      const ElfW(Sym)& symbol = first[i];
      const int type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_FILE) source = names + symbol.st_name;
      if ((type != STT_FUNC && type != STT_OBJECT) || symbol.st_size == 0) continue;
      const bool local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
      symbols.push_back({.begin = module().base + symbol.st_value,
                         .bytes = symbol.st_size,
                         .function = type == STT_FUNC,
                         .mangled = names + symbol.st_name,
                         .file = local ? source : ""});
    }
  }
  std::sort(symbols.begin(), symbols.end(),
            [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; });
  return symbols;
}

// without namespaces that say nothing, and without parameters
std::string demangled(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = text ? text : mangled;
  std::free(text);
  for (const char* word : {"(anonymous namespace)::", "maglev::"})
    for (size_t i; (i = name.find(word)) != std::string::npos;) name.erase(i, std::strlen(word));
  return name;
}

}  // namespace

const Symbol* symbol_at(uintptr_t address) {
  static const std::vector<Symbol> symbols = read_symbols();
  auto after = std::upper_bound(symbols.begin(), symbols.end(), address,
                                [](uintptr_t a, const Symbol& s) { return a < s.begin; });
  if (after == symbols.begin()) return nullptr;
  const Symbol& symbol = *--after;
  return address - symbol.begin < symbol.bytes ? &symbol : nullptr;
}

std::string kernel_name(const Symbol& symbol) {
  std::string name = demangled(symbol.mangled);
  name.erase(std::min(name.find('('), name.size()));
  // what a template returns, and namespaces, stand before it
  const size_t before = name.substr(0, name.find('<')).find_last_of(" :");
  if (before != std::string::npos) name.erase(0, before + 1);
  return symbol.file.empty() ? name : name + " (" + symbol.file + ")";
}

std::string variable_name(const Symbol& symbol) {
  const std::string name = demangled(symbol.mangled);
  const size_t last = name.rfind("::");
  return last == std::string::npos ? name : name.substr(last + 2);
}

Section section_of(uintptr_t address) {
  for (const Range& range : module().constants)
    if (range.has(address)) return Section::constant;
  for (const Range& range : module().variables)
    if (range.has(address)) return Section::variable;
  return Section::foreign;
}

}  // namespace maglev::emulation
