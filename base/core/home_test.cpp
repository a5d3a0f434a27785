#include "base/core/home.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(Home, is_a_checkout_where_nothing_else_is_told) {
  unsetenv("MAGLEV_INSTALLED");
  EXPECT_EQ(installed_python(), "");
  EXPECT_EQ(command_name() + " eval", "./maglev eval");
  EXPECT_EQ(how_to_get("mujoco"), "run ./maglev setup");
}

TEST(Home, an_installed_engine_is_a_command_and_names_extras_of_its_python) {
  setenv("MAGLEV_INSTALLED", "/venv/bin/python", 1);
  EXPECT_EQ(installed_python(), "/venv/bin/python");
  EXPECT_EQ(command_name() + " eval", "maglev eval");
  EXPECT_EQ(how_to_get("mujoco"), "/venv/bin/python -m pip install 'maglev-engine[mujoco]'");
  unsetenv("MAGLEV_INSTALLED");
}

}  // namespace
}  // namespace maglev
