#include <cmath>
#include <filesystem>
#include <limits>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "base/metrics/sink.h"

namespace maglev {
namespace sinks::prometheus {
SinkEntry entry();
}
namespace {

TEST(PrometheusSink, the_file_holds_the_newest_value_of_every_column) {
  const std::string dir = (std::filesystem::temp_directory_path() /
                           ("maglev-prom-" + std::to_string(::getpid()) + "/a \"run\""))
                              .string();
  make_dirs(dir);
  auto sink = sinks::prometheus::entry().open({.dir = dir, .algo = "ppo", .env = "cartpole"});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  sink->write(
      {.step = 1, .return_mean = NAN, .values = {{"loss/policy", 0.5}, {"odd", kInfinity}}});
  sink->write({.step = 2, .return_mean = 3, .values = {{"loss/policy", 0.25}}});
  sink->write({.step = 9, .values = {{"eval/return_mean", -7}}, .event = true});
  sink->close("finished");
  const std::string text = read_file(dir + "/metrics.prom", 1 << 20);
  const std::string labels = "{run=\"a \\\"run\\\"\",algorithm=\"ppo\",environment=\"cartpole\"} ";
  for (const char* line : {"maglev_step%2\n", "maglev_return_mean%3\n", "maglev_loss_policy%0.25\n",
                           "maglev_odd%+Inf\n", "maglev_eval_return_mean%-7\n"}) {
    std::string wanted = line;
    wanted.replace(wanted.find('%'), 1, labels);
    EXPECT_NE(text.find("\n" + wanted), std::string::npos) << wanted << "in\n" << text;
  }
  EXPECT_EQ(text.find("0.5"), std::string::npos);
  std::filesystem::remove_all(std::filesystem::path(dir).parent_path());
}

}  // namespace
}  // namespace maglev
