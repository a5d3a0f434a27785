#include "base/timeline/analysis.h"

#include <map>

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "base/timeline/changes.h"
#include "tests/errors.h"
#include "tests/folder.h"
#include "tests/trace_text.h"

namespace maglev {
namespace {

constexpr int64_t kUs = 1000;

Analysis analysed(const std::string& text, TimelineLimits limits = {}) {
  const std::string path = test_folder() + "/analysis_test.json";
  write_atomic(path, text);
  return analyse_trace(path, limits);
}

const NamedTime& row(const std::vector<NamedTime>& rows, const std::string& name) {
  static const NamedTime none;
  for (const NamedTime& r : rows)
    if (r.name == name) return r;
  return none;
}

int64_t idle(const Analysis& a, Cause cause) { return a.devices.at(0).idle[size_t(cause)]; }

std::string first_finding(const Analysis& a) {
  return a.findings.empty() ? "" : a.findings[0].name;
}

// two iterations of 1000 us: collect 600 (env_step 200 inside), update 300, 100 in none of them
TraceText stages_of_two_iterations() {
  TraceText trace;
  for (int64_t i = 0; i < 2; ++i)
    trace.span("stage", "iteration", 1, 1, 1000 * i, 1000)
        .span("stage", "collect", 1, 1, 1000 * i, 600)
        .span("stage", "env_step", 1, 1, 1000 * i + 100, 200)
        .span("stage", "update", 1, 1, 1000 * i + 600, 300);
  return trace;
}

TEST(Analysis, stages_sum_what_they_counted) {
  TraceText text;
  for (int64_t i = 0; i < 4; ++i)
    text.span("stage", "iteration", 1, 1, 1000 * i, 1000,
              "\"step\": 3, \"cycles\": 4000, \"instructions\": 8000, \"page_faults\": 2")
        .span("stage", "update", 1, 1, 1000 * i, 500,
              "\"cycles\": 1000, \"instructions\": 500, \"task_clock_ns\": 400000")
        .span("kernel_cpu", "dense", 1, 1, 1000 * i, 100, "\"flops\": 7, \"cycles\": 9");
  // counts of a window go with its spans
  for (const size_t spans : {size_t(1) << 20, size_t(8)}) {
    const Analysis a = analysed(text.text(), {.spans = spans});
    using Sums = std::array<double, trace::kCounters.size()>;
    EXPECT_EQ(row(a.stages, "iteration").counts, (Sums{16000, 32000, 0, 0, 0, 8, 0}));
    EXPECT_EQ(row(a.stages, "update").counts, (Sums{4000, 2000, 0, 0, 1.6e6, 0, 0}));
    EXPECT_EQ(row(a.operations, "dense").counts, Sums{});
    EXPECT_EQ(row(a.operations, "dense").flops, 28);
    EXPECT_EQ(a.windows > 1, spans == 8);
  }
}

TEST(Analysis, allocations_are_of_what_asked_for_them) {
  const auto memory = [](int64_t at, const std::string& bytes, const std::string& device) {
    return "\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\"," +
           TraceText::at(1, 1, at) + ",\"args\":{\"Total Allocated\":9,\"Bytes\":" + bytes +
           ",\"Device Type\":" + device + "}";
  };
  TraceText text;
  text.span("stage", "iteration", 1, 1, 0, 1000)
      .span("cpu_op", "aten::mm", 1, 1, 100, 100)
      .span("cpu_op", "aten::zeros", 1, 1, 300, 100)
      .span("cpu_op", "aten::empty", 1, 1, 310, 50);
  text.event(memory(110, "4000", "0")).event(memory(120, "6000", "0"));
  text.event(memory(130, "7000", "1")).event(memory(320, "500", "0"));
  // what is given back, and what no iteration holds
  text.event(memory(150, "-4000", "0")).event(memory(2000, "9999", "0"));
  // windows of any length
  for (const size_t spans : {size_t(1) << 20, size_t(4)}) {
    const Analysis a = analysed(text.text(), {.spans = spans});
    ASSERT_EQ(a.allocations.size(), 3u) << spans;
    EXPECT_EQ(a.allocations[0].name, "aten::mm");
    EXPECT_EQ(a.allocations[0].bytes, 10000);
    EXPECT_EQ(a.allocations[0].largest, 6000);
    EXPECT_EQ(a.allocations[0].calls, 2u);
    EXPECT_TRUE(a.allocations[1].device && a.allocations[1].bytes == 7000);
    EXPECT_EQ(a.allocations[2].name, "aten::zeros");
  }
  EXPECT_FALSE(analysed(text.text(), {.allocations = 2}).reliable());
}

TEST(Analysis, without_iterations_the_thread_that_is_called_main_leads) {
  TraceText text;
  text.event(
      "\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"main\"}");
  text.span("stage", "search", 1, 1, 0, 1000).span("stage", "data", 1, 2, 0, 100);
  EXPECT_EQ(analysed(text.text()).main_thread, "main");
}

// A device that computes through `iterations` of 1000 us, with work given in time, but for what
// `between` says of each: at 100 us the host does that for 500 us, and the device waits.
TraceText device_trace(const std::string& category = "", const std::string& name = "",
                       const std::string& args = "") {
  TraceText trace;
  int correlation = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t t = 1000 * i;
    trace.span("stage", "iteration", 1, 1, t, 1000);
    const auto launch = [&](int64_t at, int64_t begin, int64_t length) {
      const std::string link = "\"correlation\":" + std::to_string(++correlation);
      trace.span("cuda_runtime", "cudaLaunchKernel", 1, 1, at, 4, link);
      trace.span("kernel", "gemm", 0, 7, begin, length, link);
    };
    if (category.empty()) {
      launch(t + 2, t + 10, 495);
      launch(t + 20, t + 505, 495);
    } else {
      launch(t + 2, t + 10, 90);
      trace.span(category, name, 1, 1, t + 100, 500, args);
      launch(t + 600, t + 605, 395);
    }
  }
  return trace;
}

TEST(TraceAnalysis, adds_stages_up_exactly) {
  const Analysis a = analysed(stages_of_two_iterations().text());
  EXPECT_TRUE(a.reliable());
  EXPECT_EQ(a.wall, 2000 * kUs);
  EXPECT_EQ(a.iterations, 2u);
  EXPECT_EQ(row(a.stages, "iteration").self, 200 * kUs);
  EXPECT_EQ(row(a.stages, "collect").self, 800 * kUs);
  EXPECT_EQ(row(a.stages, "collect").total, 1200 * kUs);
  EXPECT_EQ(row(a.stages, "env_step").self, 400 * kUs);
  EXPECT_EQ(row(a.stages, "update").self, 600 * kUs);
  EXPECT_EQ(row(a.stages, "update").calls, 2u);
  EXPECT_EQ(a.outside + a.untraced, 0);
}

TEST(TraceAnalysis, takes_pairs_of_ends_for_spans) {
  TraceText trace;
  for (const char* event :
       {R"("ph":"B","name":"outer","pid":1,"tid":1,"ts":0)",
        R"("ph":"B","name":"inner","pid":1,"tid":1,"ts":10)", R"("ph":"E","pid":1,"tid":1,"ts":30)",
        R"("ph":"E","pid":1,"tid":1,"ts":100)"})
    trace.event(event);
  const Analysis a = analysed(trace.array());
  EXPECT_TRUE(a.reliable());
  EXPECT_EQ(row(a.stages, "outer").self, 80 * kUs);
  EXPECT_EQ(row(a.stages, "inner").self, 20 * kUs);
}

TEST(TraceAnalysis, counts_a_name_inside_itself_once) {
  const Analysis a = analysed(TraceText()
                                  .span("cpu_op", "walk", 1, 1, 0, 100)
                                  .span("cpu_op", "walk", 1, 1, 10, 50)
                                  .array());
  EXPECT_EQ(row(a.operations, "walk").calls, 2u);
  EXPECT_EQ(row(a.operations, "walk").total, 100 * kUs);
  EXPECT_EQ(row(a.operations, "walk").self, 100 * kUs);
}

TEST(TraceAnalysis, is_the_same_whatever_the_window) {
  const std::string text = device_trace("wait", "wait", "\"on\":\"pool\"").text();
  const Analysis whole = analysed(text);
  ASSERT_EQ(whole.windows, 1u);
  for (size_t spans : {6, 9, 16}) {
    const Analysis a = analysed(text, {.spans = spans});
    EXPECT_GT(a.windows, 1u);
    EXPECT_EQ(a.wall, whole.wall);
    EXPECT_EQ(row(a.stages, "iteration").self, row(whole.stages, "iteration").self) << spans;
    EXPECT_EQ(row(a.kernels, "gemm").calls, row(whole.kernels, "gemm").calls) << spans;
    EXPECT_EQ(row(a.kernels, "gemm").self, row(whole.kernels, "gemm").self) << spans;
    EXPECT_EQ(a.devices[0].busy, whole.devices[0].busy) << spans;
    EXPECT_EQ(a.devices[0].idle_total(), whole.devices[0].idle_total()) << spans;
    EXPECT_EQ(a.threads[0].busy, whole.threads[0].busy) << spans;
  }
}

TEST(TraceAnalysis, a_device_is_busy_or_idle_for_a_cause_all_the_time) {
  const Analysis a = analysed(device_trace("wait", "wait", "\"on\":\"pool\"").text());
  const UsedTime& device = a.devices.at(0);
  EXPECT_EQ(device.busy, 4 * 485 * kUs);
  EXPECT_EQ(device.busy + device.communication + device.copy + device.idle_total(), a.wall);
  EXPECT_EQ(idle(a, Cause::threads), 4 * 500 * kUs);
  // 5 us from each second launch to its kernel; of the first ones 8, all but one begin a gap's end
  EXPECT_EQ(idle(a, Cause::launch), 4 * (5 + 8) * kUs);
  EXPECT_EQ(idle(a, Cause::host), 4 * 2 * kUs);
  ASSERT_FALSE(a.gaps.empty());
  EXPECT_EQ(a.gaps[0].length, 505 * kUs);
  EXPECT_EQ(a.gaps[0].cause, Cause::threads);
  EXPECT_EQ(a.gaps[0].before, "gemm");
}

TEST(TraceAnalysis, knows_each_cause_by_what_the_host_did) {
  struct Case {
    const char *category, *name, *args;
    Cause cause;
  };
  for (const Case& c : {Case{"cpu_op", "aten::mm", "", Cause::host},
                        Case{"cuda_runtime", "cudaMemcpyAsync", "", Cause::copy},
                        Case{"cuda_runtime", "cudaStreamSynchronize", "", Cause::sync},
                        Case{"wait", "wait", "\"on\":\"device\"", Cause::sync},
                        Case{"cuda_runtime", "cudaGraphLaunch", "", Cause::launch},
                        Case{"cpu_op", "c10d::allreduce_", "", Cause::communication},
                        Case{"wait", "sum", "\"on\":\"processes\"", Cause::communication},
                        Case{"wait", "wait", "\"on\":\"pool\"", Cause::threads},
                        Case{"wait", "wait", "\"on\":\"lock\"", Cause::threads},
                        Case{"wait", "wait", "\"on\":\"replay\"", Cause::data},
                        Case{"user_annotation", "enumerate(DataLoader)#__next__", "", Cause::data},
                        Case{"cuda_runtime", "cudaMalloc", "", Cause::allocation}}) {
    const Analysis a = analysed(device_trace(c.category, c.name, c.args).text());
    const int64_t base = c.cause == Cause::launch ? 4 * 13 * kUs
                         : c.cause == Cause::host ? 4 * 2 * kUs
                                                  : 0;
    EXPECT_EQ(idle(a, c.cause), 4 * 500 * kUs + base) << c.name << c.args;
    EXPECT_TRUE(a.reliable()) << c.name;
  }
}

TEST(TraceAnalysis, finds_nothing_in_healthy_traces) {
  const Analysis device = analysed(device_trace().text());
  EXPECT_EQ(device.devices[0].busy, 4 * 990 * kUs);
  EXPECT_EQ(first_finding(device), "");
  EXPECT_EQ(first_finding(analysed(stages_of_two_iterations().text("\"maglev\":{},"))), "");
}

TEST(TraceAnalysis, names_each_bottleneck_first) {
  struct Case {
    const char *category, *name, *args, *finding;
  };
  for (const Case& c :
       {Case{"cuda_runtime", "cudaMalloc", "", "allocation in the loop"},
        Case{"user_annotation", "enumerate(DataLoader)#__next__", "", "slow input"},
        Case{"stage", "env_step", "", "slow environment"},
        Case{"stage", "flush", "", "slow logger"}, Case{"stage", "save", "", "checkpoints"},
        Case{"stage", "evaluate", "", "evaluation"},
        Case{"wait", "wait", "\"on\":\"lock\"", "lock contention"},
        Case{"wait", "wait", "\"on\":\"io\"", "disk in the loop"},
        Case{"cpu_op", "aten::mm", "", "host work"},
        Case{"user_annotation", "ReplayBuffer.get", "", "slow input"},
        Case{"cpu_op", "aten::item", "", "synchronising read-back"},
        Case{"cpu_op", "c10d::allreduce_", "", "communication"},
        Case{"wait", "sum", "\"on\":\"processes\"", "communication"},
        Case{"copy", "copy", "\"bytes\":1024,\"direction\":\"HtoD\",\"pageable\":true",
             "pageable copies"}}) {
    const Analysis a = analysed(device_trace(c.category, c.name, c.args).text("\"maglev\":{},"));
    // what came first is worth the 500 us and their launch
    ASSERT_FALSE(a.findings.empty()) << c.name;
    bool named = false;
    for (const Finding& finding : a.findings)
      if (finding.name == c.finding) {
        named = true;
        EXPECT_GE(finding.gain, 0.49) << c.name;
        EXPECT_LE(finding.gain, 0.53) << c.name;
        EXPECT_NE(finding.evidence, "");
      }
    EXPECT_TRUE(named) << c.name << ": " << first_finding(a);
  }
}

// Two steps of 10 ms of torch's profiler whose second half computes; `fill` writes what the first
// does, from a time on.
template <class Fill>
TraceText torch_steps(const Fill& fill) {
  TraceText trace;
  for (int64_t i = 0; i < 2; ++i) {
    trace.span("user_annotation", "ProfilerStep#" + std::to_string(i), 1, 1, 10'000 * i, 10'000);
    fill(trace, 10'000 * i);
    trace.span("cpu_op", "aten::mm", 1, 1, 10'000 * i + 5'000, 5'000);
  }
  return trace;
}

const Finding* finding_named(const Analysis& a, const std::string& name) {
  for (const Finding& finding : a.findings)
    if (finding.name == name) return &finding;
  return nullptr;
}

TEST(TraceAnalysis, a_shape_that_is_compiled_anew_is_a_finding_and_compiled_code_is_none) {
  // the names of torch 2.13, as it nests them; the operations inside are on tensors without data
  const Analysis again =
      analysed(torch_steps([](TraceText& trace, int64_t t) {
                 trace.span("cpu_op", "dynamo", 1, 1, t, 4'000)
                     .span("cpu_op", "_compile.compile_inner (dynamo_timed)", 1, 1, t + 10, 3'980);
                 for (int64_t k = 0; k < 390; ++k)
                   trace.span("cpu_op", "aten::addmm", 1, 1, t + 20 + 10 * k, 9);
               }).text());
  EXPECT_EQ(first_finding(again), "recompilation");
  EXPECT_NEAR(again.findings[0].gain, 0.398, 1e-9);
  EXPECT_TRUE(contains(again.findings[0].advice, "dynamic=True"));
  // not what would make it worse, nor what stands for it
  EXPECT_EQ(again.findings.size(), 1u);

  const Analysis runs =
      analysed(torch_steps([](TraceText& trace, int64_t t) {
                 trace.span("cpu_op", "TorchDynamo Cache Lookup", 1, 1, t, 20)
                     .span("cpu_op", "Torch-Compiled Region: 0/0", 1, 1, t + 20, 4'900)
                     .span("cpu_op", "CompiledFunction", 1, 1, t + 40, 4'800)
                     .span("cpu_op", "## Call CompiledFxGraph fab ##", 1, 1, t + 60, 4'700);
               }).text());
  EXPECT_EQ(first_finding(runs), "");
}

TEST(TraceAnalysis, conversions_are_a_finding_but_what_waits_for_the_device_is_none_of_them) {
  const auto converts = [](TraceText& trace, int64_t t, const char* call) {
    trace.span("cpu_op", "aten::to", 1, 1, t, 4'000)
        .span("cpu_op", "aten::_to_copy", 1, 1, t + 100, 3'800)
        .span("cpu_op", "aten::copy_", 1, 1, t + 1'500, 2'400);
    if (*call) trace.span("cuda_runtime", call, 1, 1, t + 1'500, 2'400);
  };
  const Analysis casts =
      analysed(torch_steps([&](TraceText& trace, int64_t t) { converts(trace, t, ""); }).text());
  EXPECT_EQ(first_finding(casts), "conversions");
  EXPECT_NEAR(casts.findings[0].gain, 0.4, 1e-9);
  EXPECT_TRUE(contains(casts.findings[0].advice, "from_numpy"));

  // .cpu() is a `to` as well: of its 4 ms 2.4 are a wait
  const Analysis reads = analysed(torch_steps([&](TraceText& trace, int64_t t) {
                                    converts(trace, t, "cudaStreamSynchronize");
                                  }).text());
  const Finding* found = finding_named(reads, "conversions");
  ASSERT_NE(found, nullptr);
  EXPECT_NEAR(found->gain, 0.16, 1e-9);
}

TEST(TraceAnalysis, graphs_are_advised_for_shapes_that_stay_the_same) {
  TraceText trace;
  for (int64_t i = 0; i < 4; ++i) {
    trace.span("user_annotation", "ProfilerStep#" + std::to_string(i), 1, 1, 1000 * i, 1000);
    for (int64_t k = 0; k < 40; ++k) {
      const int64_t t = 1000 * i + 25 * k;
      const std::string link = "\"correlation\":" + std::to_string(1 + 40 * i + k);
      trace.span("cpu_op", "aten::add", 1, 1, t, 24)
          .span("cuda_runtime", "cudaLaunchKernel", 1, 1, t + 18, 4, link)
          .span("kernel", "add", 0, 7, t + 22, 3, link);
    }
  }
  const Analysis a = analysed(trace.text());
  EXPECT_EQ(first_finding(a), "launch-bound");
  EXPECT_TRUE(contains(a.findings.at(0).advice, "where shapes stay the same"));
  EXPECT_EQ(finding_named(a, "host work"), nullptr);
}

TEST(TraceAnalysis, an_operation_that_launches_nothing_is_no_launch) {
  // small ones lie in it, as torch nests them
  const auto sampled = [](const char* around) {
    TraceText trace = device_trace("user_annotation", around);
    for (int64_t i = 0; i < 4; ++i)
      trace.span("cpu_op", "aten::index", 1, 1, 1000 * i + 110, 480)
          .span("cpu_op", "aten::empty", 1, 1, 1000 * i + 115, 8);
    return analysed(trace.text());
  };
  const Analysis host = sampled("collate"), replay = sampled("## train/sample ##");
  EXPECT_EQ(first_finding(host), "host work");
  EXPECT_NEAR(host.findings.at(0).gain, 0.48, 0.01);
  EXPECT_EQ(finding_named(host, "launch-bound"), nullptr);
  EXPECT_EQ(first_finding(replay), "slow input");
  EXPECT_TRUE(contains(replay.findings.at(0).advice, "on a thread ahead"));
  EXPECT_EQ(finding_named(replay, "host work"), nullptr);
  EXPECT_EQ(finding_named(replay, "launch-bound"), nullptr);
}

TEST(TraceAnalysis, counts_copies_by_direction) {
  const Analysis a = analysed(
      TraceText()
          .span("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 7, 0, 10, "\"bytes\":10000")
          .span("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 7, 20, 10, "\"bytes\":30000")
          .span("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 0, 7, 40, 5, "\"bytes\":100")
          .array());
  ASSERT_EQ(a.copies.size(), 2u);
  EXPECT_TRUE(a.copies[0].pageable);
  EXPECT_EQ(a.copies[0].bytes, 40000);
  EXPECT_EQ(a.copies[0].total, 20 * kUs);
  EXPECT_FALSE(a.copies[1].pageable);
  EXPECT_EQ(a.copies[1].way, CopyWay::device_to_host);
}

TEST(TraceAnalysis, says_when_it_cannot_be_relied_on) {
  TraceText overlapping;
  overlapping.span("stage", "a", 1, 1, 0, 100)
      .span("stage", "b", 1, 1, 50, 100)
      .span("stage", "c", 1, 1, 200, 10);
  const Analysis overlap = analysed(overlapping.array());
  ASSERT_FALSE(overlap.reliable());
  EXPECT_TRUE(contains(overlap.doubts[0], "without nesting")) << overlap.doubts[0];

  const std::string text = stages_of_two_iterations().text();
  EXPECT_TRUE(contains(analysed(text.substr(0, text.size() - 20)).doubts.at(0), "in the middle"));
  EXPECT_TRUE(contains(
      analysed(stages_of_two_iterations().text("\"maglev\":{\"dropped\":7},")).doubts.at(0),
      "dropped 7"));

  TraceText early;
  early.span("cuda_runtime", "cudaLaunchKernel", 1, 1, 50, 5, "\"correlation\":1")
      .span("kernel", "k", 0, 7, 10, 5, "\"correlation\":1");
  EXPECT_TRUE(contains(analysed(early.array()).doubts.at(0), "clocks"));
}

TEST(TraceAnalysis, operations_of_a_device_without_a_launch_or_written_twice_are_doubted) {
  const auto two = [](const std::string& second, int64_t begin, int times = 1) {
    TraceText trace;
    trace.span("cuda_runtime", "cudaLaunchKernel", 1, 1, 0, 5, "\"correlation\":1");
    for (int i = 0; i < times; ++i)
      trace.span("kernel", "k", 0, 7, 10, 5, "\"correlation\":1")
          .span("kernel", "k", 0, 7, begin, 5, second);
    return analysed(trace.array()).doubts;
  };
  EXPECT_EQ(two("\"correlation\":1", 15).size(), 0u);
  EXPECT_TRUE(contains(two("", 15).at(0), "1 of 2 operations of a device have no launch"));
  const auto twice = two("\"correlation\":1", 20, 2);
  ASSERT_EQ(twice.size(), 1u);
  EXPECT_TRUE(contains(twice[0], "2 of 4 operations of a device are there twice")) << twice[0];
}

TEST(TraceAnalysis, spans_of_threads_that_are_there_twice_are_doubted) {
  const auto doubts = [](int stages, int calls) {
    TraceText trace;
    for (int64_t i = 0; i < 6; ++i) {
      const std::string step = "ProfilerStep#" + std::to_string(i);
      for (int k = 0; k < stages; ++k)
        trace.span("user_annotation", step, 1, 1, 1000 * i, 1000)
            .span("user_annotation", "update", 1, 1, 1000 * i, 1000);
      for (int64_t j = 0; j < 50; ++j)
        for (int k = 0; k < calls; ++k)
          trace.span("cuda_runtime", "cudaLaunchKernel", 1, 1, 1000 * i + 10 * j, 5);
    }
    return analysed(trace.text()).doubts;
  };
  EXPECT_EQ(doubts(1, 1).size(), 0u);
  const auto stages = doubts(2, 1), calls = doubts(1, 2);
  ASSERT_EQ(stages.size(), 1u);
  EXPECT_TRUE(contains(stages[0], "12 of 24 iterations and stages of threads are there twice"));
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_TRUE(contains(calls[0], "300 of 600 operations and calls of threads are there twice"));
}

TEST(TraceAnalysis, a_span_without_a_sound_length_is_doubted) {
  for (const char* length : {"NaN", "-5", "\"soon\""}) {
    TraceText trace = stages_of_two_iterations();
    for (int64_t i = 0; i < 200; ++i) trace.span("cpu_op", "add", 1, 1, 2 * i, 1);
    trace.event("\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"mm\"," + TraceText::at(1, 1, 900) +
                ",\"dur\":" + length);
    const auto doubts = analysed(trace.text()).doubts;
    ASSERT_EQ(doubts.size(), 1u) << length;
    EXPECT_TRUE(contains(doubts[0], "1 span has no sound thread or length")) << doubts[0];
  }
}

TEST(TraceAnalysis, a_critical_path_is_as_long_as_its_iteration) {
  for (const TraceText& trace : {device_trace(), device_trace("wait", "wait", "\"on\":\"pool\""),
                                 stages_of_two_iterations()}) {
    const Analysis a = analysed(trace.text());
    EXPECT_EQ(a.path_length, 1000 * kUs);
    int64_t sum = 0;
    for (const PathPart& part : a.path) sum += part.length;
    EXPECT_EQ(sum, a.path_length);
  }
}

// work that takes no time begins and ends within the call that launched it and that waits for it
TEST(TraceAnalysis, a_critical_path_ends_where_a_call_waits_for_work_without_length) {
  struct Case {
    const char *call, *category, *work;
    int64_t length;
    int times;
  };
  for (const Case& c :
       {Case{"cudaMemcpyAsync", "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 1},
        Case{"cudaMemcpyAsync", "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 0, 1},
        Case{"cudaStreamSynchronize", "kernel", "k", 0, 1},
        // a stream does one thing at a time: what is there again has no room
        Case{"cudaMemcpyAsync", "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 5, 2}}) {
    TraceText trace;
    trace.span("user_annotation", "ProfilerStep#1", 1, 1, 0, 100)
        .span("cuda_runtime", c.call, 1, 1, 10, 50, "\"correlation\":1");
    for (int i = 0; i < c.times; ++i)
      trace.span(c.category, c.work, 0, 7, 12, c.length, "\"correlation\":1");
    const Analysis a = analysed(trace.text());
    std::map<std::string, int64_t> path;
    int64_t sum = 0;
    for (const PathPart& part : a.path) path[part.name] += part.length, sum += part.length;
    EXPECT_EQ(sum, 100 * kUs) << c.work;
    EXPECT_EQ(path["iteration"], 50 * kUs) << c.work;
    EXPECT_EQ(path[c.call], 50 * kUs) << c.work;
  }
}

TEST(TraceAnalysis, says_what_became_slower) {
  const Analysis before = analysed(stages_of_two_iterations().text());
  TraceText slower;
  slower.span("stage", "iteration", 1, 1, 0, 1200)
      .span("stage", "collect", 1, 1, 0, 600)
      .span("stage", "env_step", 1, 1, 100, 200)
      .span("stage", "update", 1, 1, 600, 500);
  const Changes changes = changes_between(before, analysed(slower.text()));
  EXPECT_TRUE(changes.per_iteration);
  EXPECT_NEAR(changes.wall.relative(), 0.2, 1e-9);
  ASSERT_EQ(changes.rows.size(), 1u);
  EXPECT_EQ(changes.rows[0].name, "update");
  EXPECT_NEAR(changes.rows[0].relative(), 2.0 / 3, 1e-9);
  EXPECT_TRUE(changes_between(before, before).rows.empty());
}

}  // namespace
}  // namespace maglev
