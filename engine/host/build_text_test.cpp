#include "engine/host/build_text.h"

#include <array>

#include <gtest/gtest.h>

namespace maglev {
namespace {

constexpr std::array<PluginFolder, 2> kFolders{
    {{"/home/me/my_project", "77d0a4e+changes"}, {"/b", ""}}};

TEST(BuildText, names_plug_ins_of_other_folders_by_folder_and_commit) {
  EXPECT_EQ(build_text(kFolders),
            build_text({}) + ", plug-ins of my_project (77d0a4e+changes), plug-ins of b");
}

TEST(BuildText, has_folders_of_plug_ins_as_they_are_named) {
  EXPECT_EQ(plugins_named(kFolders), "/home/me/my_project:/b");
  EXPECT_EQ(plugins_text(kFolders), "/home/me/my_project (77d0a4e+changes), /b");
  EXPECT_EQ(plugins_named({}) + plugins_text({}), "");
}

}  // namespace
}  // namespace maglev
