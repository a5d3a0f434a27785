#include "engine/trace/work_trace.h"

#include <thread>

#include <ATen/ATen.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/core/file.h"
#include "base/timeline/analysis.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = size_t(1) << 30;
const trace::RecordedRun kWork{.run = "runs/x", .algorithm = "ppo", .environment = "kg"};

// spans of two threads, all of which end
void work(int stages) {
  const auto make = [stages](const char* name) {
    for (int i = 0; i < stages; ++i) {
      const auto span = trace::stage(name);
      const auto within = trace::kernel("dense", 10);
    }
  };
  const auto span = trace::stage("judge");
  std::jthread other([&] { make("act"); });
  make("env_step");
}

TEST(WorkTrace, holds_all_of_the_work_however_small_its_buffers_are) {
  const std::string path = test_folder() + "/work.json";
  std::vector<std::string> lines;
  Json file;
  // the thread that empties buffers meanwhile gets its turn late where others have the processors
  for (const int pause_ms : {50, 500, 5000}) {
    WorkTrace trace({}, /*with_device=*/false);
    work(1);
    // longer than a buffer
    for (int i = 0; i < 10; ++i) {
      work(10'000);
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    }
    lines = trace.finish(path, kWork);
    file = Json::parse(read_file(path, kMostBytes));
    if (file["maglev"]["dropped"] == 0) break;
  }
  EXPECT_EQ(lines.size(), 1u) << lines.back();
  EXPECT_EQ(file["maglev"]["dropped"], 0);
  EXPECT_EQ(file["maglev"]["spans"], 11 + 4 * 100'001);
  EXPECT_EQ(file["maglev"]["mode"], "lite");
  EXPECT_GT(file["maglev"]["peaks"]["gflops"], 0);
}

TEST(WorkTrace, is_read_by_the_analysis) {
  const std::string path = test_folder() + "/work.json.gz";
  WorkTrace trace({}, /*with_device=*/false);
  work(100);
  trace.finish(path, kWork);
  const Analysis analysis = analyse_trace(path);
  EXPECT_TRUE(analysis.reliable());
  EXPECT_EQ(analysis.main_thread, "main");
  ASSERT_EQ(analysis.stages.size(), 2u);
  for (const NamedTime& stage : analysis.stages)
    EXPECT_EQ(stage.calls, stage.name == "judge" ? 1u : 100u) << stage.name;
  EXPECT_EQ(analysis.operations.at(0).name, "dense");
}

TEST(WorkTrace, says_what_found_no_room) {
  const std::string path = test_folder() + "/full.json";
  WorkTrace trace({.size_limit = 1}, /*with_device=*/false);
  work(20'000);
  const auto lines = trace.finish(path, kWork);
  EXPECT_TRUE(contains(lines.back(), "spans found no room in trace.size_limit=1"));
  const Json about = Json::parse(read_file(path, kMostBytes))["maglev"];
  EXPECT_LE(about["spans"], (1 << 20) / 56);
  EXPECT_GT(about["dropped"], 0);
}

TEST(WorkTrace, of_torchs_profiler_tells_shapes_and_memory_where_that_is_wanted) {
  for (const bool wanted : {false, true}) {
    const std::string path = test_folder() + "/torch.json";
    WorkTrace trace({.mode = TraceMode::full, .shapes = wanted, .memory = wanted},
                    /*with_device=*/false);
    const at::Tensor a = at::ones({100, 100}), product = at::mm(a, a);
    trace.finish(path, kWork);
    const Analysis analysis = analyse_trace(path);
    EXPECT_EQ(analysis.allocations.empty(), !wanted);
    for (const AllocatedBytes& allocated : analysis.allocations)
      EXPECT_TRUE(allocated.name == "aten::ones" || allocated.name == "aten::mm") << allocated.name;
    EXPECT_EQ(contains(read_file(path, kMostBytes), "\"Input Dims\": [[100, 100], [100, 100]]"),
              wanted);
  }
}

TEST(WorkTrace, is_one_at_a_time_and_leaves_nothing_behind_unfinished) {
  {
    const WorkTrace first({}, /*with_device=*/false);
    EXPECT_TRUE(contains(error_of([] { WorkTrace({}, /*with_device=*/false); }),
                         "another run of this process is being traced"));
  }
  const WorkTrace next({}, /*with_device=*/false);
  EXPECT_NE(trace::recording.load(), nullptr);
}

}  // namespace
}  // namespace maglev
