// Every kernel's CUDA side on the emulated device against its reference, over the cases that the
// CPU's is held to, within the same tolerance.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/device/kernel.h"
#include "tests/emulation/counted.h"
#include "tests/emulation/device.h"
#include "tests/places.h"
#include "verbs/kernels/parity.h"

namespace maglev {
namespace {

namespace fs = std::filesystem;
using emulation::kEmulatedDevice;
using emulation::without_arguments;
using verbs::kernels::check_parity;
using verbs::kernels::Parity;
using verbs::kernels::parity_text;
using verbs::kernels::tolerance_scale;

/// The kernels that a folder's .cu files define: "gather (replay.cu)".
std::vector<std::string> kernels_of(const fs::path& folder) {
  static const std::regex definition(R"(__global__\s+void\s+(\w+)\()");
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() != ".cu") continue;
    std::ifstream in(file.path());
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    for (std::sregex_iterator found(text.begin(), text.end(), definition), end; found != end;
         ++found)
      names.push_back((*found)[1].str() + " (" + file.path().filename().string() + ")");
  }
  return names;
}

struct Twin {
  const KernelEntry* entry;
  std::vector<std::string> kernels;
  friend void PrintTo(const Twin& twin, std::ostream* out) { *out << twin.entry->name; }
};

const fs::path kKernels = in_checkout("kernels");

std::vector<Twin> twins() {
  std::vector<Twin> all;
  for (const KernelEntry& entry : kernel_table())
    if (auto kernels = kernels_of(kKernels / entry.name); !kernels.empty())
      all.push_back({&entry, std::move(kernels)});
  return all;
}

class EmulatedKernel : public testing::TestWithParam<Twin> {};

TEST_P(EmulatedKernel, gives_what_its_reference_gives) {
  emulation::clear_launches();
  int cases = 0;
  for (const KernelCase& one : GetParam().entry->cases(kEmulatedDevice)) {
    const auto launched = emulation::launches();
    const Parity parity = check_parity(one, tolerance_scale());
    EXPECT_TRUE(parity.ok) << one.name << ": "
                           << parity_text(parity, one.tolerance * tolerance_scale());
    cases += launched != emulation::launches();
  }
  std::vector<std::string> ran;
  for (const auto& [name, count] : emulation::launches()) ran.push_back(without_arguments(name));
  for (const std::string& kernel : GetParam().kernels)
    EXPECT_TRUE(std::find(ran.begin(), ran.end(), kernel) != ran.end())
        << kernel << " is launched by no case of " << GetParam().entry->name;
  std::printf("%s: %d cases, %zu kernels\n", GetParam().entry->name, cases,
              GetParam().kernels.size());
}

INSTANTIATE_TEST_SUITE_P(OfTheTable, EmulatedKernel, testing::ValuesIn(twins()),
                         [](const auto& info) { return std::string(info.param.entry->name); });

TEST(EmulatedKernels, are_all_that_the_tree_has) {
  size_t folders = 0, kernels = 0;
  for (const auto& folder : fs::directory_iterator(kKernels)) {
    if (!folder.is_directory()) continue;
    const size_t defined = kernels_of(folder.path()).size();
    folders += defined > 0, kernels += defined;
  }
  EXPECT_EQ(folders, twins().size()) << "a folder with device code has no row in the table";
  EXPECT_GT(folders, 0u);
  std::printf("%zu twins with %zu kernels\n", folders, kernels);
}

}  // namespace
}  // namespace maglev
