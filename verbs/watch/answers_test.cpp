#include "verbs/watch/answers.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev::verbs::watch {
namespace {

// a run of `rows` rows
std::string run_of(const std::string& name, int rows) {
  const std::string folder = test_folder() + "/" + name;
  std::filesystem::create_directories(folder);
  std::ofstream file(folder + "/metrics.jsonl");
  for (int i = 1; i <= rows; ++i)
    file << "{\"step\": " << i << ", \"seconds\": " << i << ", \"return_mean\": " << i << "}\n";
  return folder;
}

TEST(OpenCurves, what_was_asked_for_longest_ago_makes_room) {
  const std::string a = run_of("a", 500), b = run_of("b", 500), c = run_of("c", 500);
  const HttpRequest request;
  const size_t each = [&] {
    MetricIndex index(a + "/metrics.jsonl");
    index.read(10);
    return index.memory();
  }();
  EXPECT_GT(each, 500 * 3 * sizeof(double));
  OpenCurves two(2 * each + each / 2), none(0);
  for (const std::string& folder : {a, b, c, a, b}) {
    EXPECT_TRUE(contains(two.curves_json(folder, request), "\"rows\":500"));
    EXPECT_LE(two.count(), 2u);
    EXPECT_TRUE(contains(none.curves_json(folder, request), "\"rows\":500"));
    EXPECT_EQ(none.count(), 1u) << "the one that is asked for has room";
  }
  EXPECT_EQ(two.count(), 2u);
}

}  // namespace
}  // namespace maglev::verbs::watch
