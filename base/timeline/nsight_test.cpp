#include "base/timeline/nsight.h"

#include <dlfcn.h>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/timeline/events.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

// a report of two kernels, a copy and what the host did meanwhile, as the tool lays it out
constexpr const char* kReport = R"(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'void gemm<"float">(int)'), (3, 'cuMemcpyAsync_v2'), (4, 'worker'), (5, 'learn');
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT, utcTime TEXT, localTime TEXT);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '');
CREATE TABLE PROCESSES (globalPid INT, pid INT, name TEXT);
INSERT INTO PROCESSES VALUES (71776119061217280, 42, 'train');
CREATE TABLE ThreadNames (nameId INT NOT NULL, priority INT, globalTid INT);
INSERT INTO ThreadNames VALUES (4, 10, 281474976710656 + 42 * 16777216 + 43);
CREATE TABLE NVTX_EVENTS (start INT NOT NULL, end INT, eventType INT NOT NULL, text TEXT, globalTid INT, textId INT);
INSERT INTO NVTX_EVENTS VALUES
  (1000, 9001, 59, 'collect', 281474976710656 + 42 * 16777216 + 43, NULL),
  (10000, 20000, 59, NULL, 281474976710656 + 42 * 16777216 + 43, 5),
  (500, NULL, 34, 'mark', 281474976710656 + 42 * 16777216 + 43, NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT NOT NULL, end INT NOT NULL, eventClass INT, globalTid INT, correlationId INT, nameId INT NOT NULL, returnValue INT);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
  (3000, 3500, 0, 281474976710656 + 42 * 16777216 + 43, 8, 3, 0),
  (2000, 2700, 0, 281474976710656 + 42 * 16777216 + 43, 7, 1, 0);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, end INT NOT NULL, deviceId INT, contextId INT, streamId INT, correlationId INT, demangledName INT, shortName INT);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (4000, 6500, 0, 1, 7, 7, 2, 2);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, graphId INT, graphExecId INT);
INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (8000, 8400, 0, 1, 7, 9, 3, 4);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, bytes INT, copyKind INT, srcKind INT, dstKind INT);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (7000, 7900, 0, 1, 7, 8, 4096, 1, 0, 2);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, value INT, bytes INT);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (9000, 9100, 0, 1, 7, 10, 0, 64);
)";

class Nsight : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library_) GTEST_SKIP() << "no libsqlite3.so.0";
    if (path_exists(path_)) remove_path(path_);
    run(kReport);
  }

  // writes with the library itself
  void run(const std::string& sql) {
    using Open = int(const char*, void**);
    using Exec = int(void*, const char*, void*, void*, char**);
    using Close = int(void*);
    void* database = nullptr;
    ASSERT_EQ(reinterpret_cast<Open*>(dlsym(library_, "sqlite3_open"))(path_.c_str(), &database),
              0);
    ASSERT_EQ(reinterpret_cast<Exec*>(dlsym(library_, "sqlite3_exec"))(database, sql.c_str(),
                                                                       nullptr, nullptr, nullptr),
              0);
    reinterpret_cast<Close*>(dlsym(library_, "sqlite3_close"))(database);
  }

  std::vector<std::string> events() {
    std::vector<std::string> lines;
    file_ = read_trace(path_, [&](const TraceEvent& e) {
      lines.push_back(std::string(e.category) + "|" + unescaped(e.name) + "|" +
                      std::string(e.process) + "|" + std::string(e.thread) + "|" +
                      std::to_string(e.start_ns) + "|" + std::to_string(e.duration_ns) + "|" +
                      std::to_string(e.correlation) + "|" + std::string(e.arg_name));
    });
    return lines;
  }

  void* library_ = nullptr;
  const std::string path_ = test_folder() + "/report.sqlite";
  TraceFile file_;
};

TEST_F(Nsight, is_read_as_pytorchs_profiler_writes_the_same) {
  const std::vector<std::string> expected{
      "|process_name|42||0|0|0|train",
      "|thread_name|42|43|0|0|0|worker",
      "user_annotation|collect|42|43|1000|8001|0|",
      "user_annotation|learn|42|43|10000|10000|0|",
      "cuda_runtime|cudaLaunchKernel|42|43|2000|700|7|",
      "cuda_runtime|cuMemcpyAsync_v2|42|43|3000|500|8|",
      "kernel|void gemm<\"float\">(int)|0|7|4000|2500|7|",
      "kernel|CUDA graph 3|0|7|8000|400|9|",
      "gpu_memcpy|Memcpy HtoD (Pageable -> Device)|0|7|7000|900|8|",
      "gpu_memset|Memset (Device)|0|7|9000|100|10|"};
  EXPECT_EQ(events(), expected);
  EXPECT_FALSE(file_.torn);
  EXPECT_EQ(file_.base_ns, 1'700'000'000'000'000'000);
}

TEST_F(Nsight, reports_of_older_versions_have_fewer_columns_and_tables) {
  run("ALTER TABLE NVTX_EVENTS DROP COLUMN textId; DROP TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE;"
      "DROP TABLE TARGET_INFO_SESSION_START_TIME; DROP TABLE ThreadNames; DROP TABLE PROCESSES;");
  EXPECT_EQ(events().size(), 7u);
  EXPECT_EQ(file_.base_ns, 0);
}

TEST_F(Nsight, what_is_no_report_is_said) {
  run("DROP TABLE StringIds");
  EXPECT_TRUE(contains(error_of([&] { events(); }), "none that Nsight Systems exported"));
}

// pages of a report with some bytes changed, or cut off: read or refused, and no more
TEST_F(Nsight, damaged_reports_are_read_or_refused) {
  const std::string whole = read_file(path_, 1 << 20);
  std::mt19937 random(1);
  int refused = 0, read = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole;
    for (int n = 1 + int(random() % 8); n > 0; --n)
      text[16 + random() % (text.size() - 16)] = char(random());
    if (random() % 4 == 0) text.resize(16 + random() % (text.size() - 16));
    // not synced, as write_atomic is
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
    size_t count = 0;
    try {
      read_trace(path_, [&](const TraceEvent&) { ++count; });
      ++read;
    } catch (const Error&) {
      ++refused;
    }
    ASSERT_LT(count, 10'000u);
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace maglev
