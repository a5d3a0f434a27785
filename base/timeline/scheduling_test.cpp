// What spans alone do not tell: traces whose steps look alike and whose threads had different
// things of the machine.

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "base/timeline/analysis.h"
#include "tests/errors.h"
#include "tests/folder.h"
#include "tests/trace_text.h"

namespace maglev {
namespace {

constexpr int kIterations = 40;

// of a thread, in shares of the wall of 1000 us an iteration
struct Had {
  double on_processor = 1, queued = 0, in_kernel = 0;
  int64_t faults = 0;
};

// "maglev" of a run on `processors` with `threads`, and what its threads 1, 2 .. had
std::string about(int threads, int processors, const std::vector<Had>& had,
                  const std::string& settings = "\"env.count\":\"4\",\"threads\":\"1\"") {
  const auto ns = [](double share) { return std::to_string(int64_t(share * kIterations * 1e6)); };
  std::string uses;
  for (size_t i = 0; i < had.size(); ++i)
    uses += std::string(i ? "," : "") + "{\"tid\":" + std::to_string(i + 1) +
            ",\"on_processor_ns\":" + ns(had[i].on_processor) +
            ",\"queued_ns\":" + ns(had[i].queued) + ",\"in_kernel_ns\":" + ns(had[i].in_kernel) +
            ",\"faults\":" + std::to_string(had[i].faults) + "}";
  return "\"maglev\":{\"algorithm\":\"ppo\",\"threads\":" + std::to_string(threads) +
         ",\"processors\":" + std::to_string(processors) +
         ",\"iteration_steps\":512,\"block_environments\":1,\"settings\":{" + settings +
         "},\"use\":[" + uses + "]},";
}

Analysis analysed_run(const TraceText& trace, const std::string& about) {
  const std::string path = test_folder() + "/scheduling_test.json";
  write_atomic(path, trace.text(about));
  return analyse_trace(path);
}

std::string names(const Analysis& analysis) {
  std::string all;
  for (const Finding& finding : analysis.findings) all += (all.empty() ? "" : ", ") + finding.name;
  return all;
}

// iterations of 1000 us of which the stage takes `length`
TraceText with_stage(const std::string& stage, int64_t length) {
  TraceText trace;
  for (int64_t i = 0; i < kIterations; ++i)
    trace.span("stage", "iteration", 1, 1, 1000 * i, 1000)
        .span("stage", stage, 1, 1, 1000 * i + 50, length);
  return trace;
}

TEST(Scheduling, a_step_that_computes_waits_or_asks_for_pages) {
  const TraceText trace = with_stage("env_step", 900);
  const Analysis computes = analysed_run(trace, about(1, 2, {{.on_processor = 0.98}}));
  EXPECT_EQ(names(computes), "slow environment");
  EXPECT_EQ(computes.findings[0].patch, "threads=2");
  EXPECT_NEAR(computes.findings[0].gain, 0.9, 1e-9);
  EXPECT_NEAR(computes.findings[0].patch_gain, 0.45, 1e-9);

  const Analysis waits = analysed_run(trace, about(1, 2, {{.on_processor = 0.3}}));
  EXPECT_EQ(names(waits), "waiting environment");
  EXPECT_NEAR(waits.findings[0].gain, 0.7, 1e-9);
  EXPECT_EQ(waits.findings[0].patch, "");

  // a processor that others have is not waited for by the environment
  EXPECT_EQ(names(analysed_run(trace, about(1, 2, {{.on_processor = 0.3, .queued = 0.7}}))),
            "slow environment, other programs");

  const Analysis faults = analysed_run(trace, about(1, 2, {{.in_kernel = 0.6, .faults = 100'000}}));
  EXPECT_EQ(names(faults), "page faults");
  EXPECT_NEAR(faults.findings[0].gain, 0.6, 1e-9);
  // of each thread its own faults, and no more time than there was
  const Analysis two = analysed_run(
      trace, about(2, 2, {{.in_kernel = 1.4, .faults = 4}, {.in_kernel = 0.1, .faults = 900}}));
  EXPECT_EQ(names(two).find("page faults"), std::string::npos) << names(two);
  const Analysis most = analysed_run(trace, about(1, 2, {{.in_kernel = 1.4, .faults = 900'000}}));
  EXPECT_LE(most.findings[0].gain, 1);
  // what recording took there to count is none of the run's: 80 stages that do, 250 us each
  TraceText counted;
  for (int64_t i = 0; i < kIterations; ++i)
    counted.span("stage", "iteration", 1, 1, 1000 * i, 1000, "\"page_faults\":1")
        .span("stage", "env_step", 1, 1, 1000 * i + 50, 900, "\"page_faults\":1");
  std::string by_counting = about(1, 2, {{.in_kernel = 0.6, .faults = 100'000}});
  by_counting.insert(by_counting.find("\"processors\""), "\"counting_cost_ns\":250000,");
  const Analysis less = analysed_run(counted, by_counting);
  ASSERT_EQ(names(less), "slow environment");
  // the kernel does other things too
  EXPECT_EQ(names(analysed_run(trace, about(1, 2, {{.in_kernel = 0.6, .faults = 2}}))),
            "slow environment");
}

// programs that the run started, whose threads 901, 902 .. had so much
std::string with_programs(std::string about, const std::vector<Had>& had) {
  const auto ns = [](double share) { return std::to_string(int64_t(share * kIterations * 1e6)); };
  std::string programs;
  for (size_t i = 0; i < had.size(); ++i)
    programs += std::string(i ? "," : "") + "{\"tid\":" + std::to_string(901 + i) +
                ",\"on_processor_ns\":" + ns(had[i].on_processor) +
                ",\"queued_ns\":" + ns(had[i].queued) + "}";
  return about.insert(about.find("\"use\""), "\"programs\":[" + programs + "],");
}

TEST(Scheduling, steps_that_programs_compute_are_neither_waits_nor_of_others) {
  const TraceText trace = with_stage("env_step", 900);
  const std::string settings = "\"env.count\":\"4\",\"env.workers\":\"1\",\"threads\":\"1\"";
  // a thread that sleeps until they are done, and one that looks and lets them have its processor
  for (const Had& had : {Had{.on_processor = 0.2}, Had{.on_processor = 0.2, .queued = 0.75}}) {
    const std::string one = about(1, 2, {had}, settings);
    const Analysis computes =
        analysed_run(trace, with_programs(one, {{.on_processor = 0.81}, {0}}));
    ASSERT_EQ(names(computes), "slow environment");
    EXPECT_NEAR(computes.findings[0].gain, 0.81, 1e-9);
    EXPECT_EQ(computes.findings[0].patch, "env.workers=2");
    EXPECT_NEAR(computes.findings[0].patch_gain, 0.405, 1e-9);
  }
  const std::string sleeps = about(1, 2, {{.on_processor = 0.2}}, settings);
  // that wait themselves, for a socket or a clock
  EXPECT_EQ(names(analysed_run(trace, with_programs(sleeps, {{.on_processor = 0.1}}))),
            "waiting environment");
  // that others keep from their processors
  const Analysis held = analysed_run(
      trace, with_programs(about(1, 2, {{.on_processor = 0.1, .queued = 0.8}}, settings),
                           {{.on_processor = 0.1, .queued = 0.75}}));
  EXPECT_EQ(names(held), "slow environment, other programs");
  // as many as processors: nothing to set
  EXPECT_EQ(analysed_run(trace, with_programs(about(1, 1, {{.on_processor = 0.2}}, settings),
                                              {{.on_processor = 0.8}}))
                .findings[0]
                .patch,
            "");
}

TEST(Scheduling, steps_of_an_evaluation_beside_training_are_not_its_environments) {
  TraceText trace;
  for (int64_t i = 0; i < kIterations; ++i)
    trace.span("stage", "iteration", 1, 1, 1000 * i, 1000)
        .span("wait", "evaluation", 1, 1, 1000 * i + 50, 900, "\"on\":\"pool\"")
        .span("stage", "evaluate", 1, 2, 1000 * i + 10, 940)
        .span("stage", "env_step", 1, 2, 1000 * i + 20, 920);
  EXPECT_EQ(names(analysed_run(trace, about(1, 2, {{.on_processor = 0.1}}))), "evaluation");
}

// Two threads step four environments a round: `second` is when the other thread's step ends, where
// the first's end at 400 and 800 of 1000 us.
TraceText of_two_threads(const std::array<int64_t, 2>& second) {
  TraceText trace;
  trace.event(
      "\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"pool 1\"}");
  for (int64_t i = 0; i < kIterations; ++i) {
    const int64_t t = 1000 * i;
    trace.span("stage", "iteration", 1, 1, t, 1000);
    trace.span("stage", "env_step", 1, 1, t, 400).span("stage", "env_step", 1, 1, t + 400, 400);
    trace.span("stage", "env_step", 1, 2, t, second[0])
        .span("stage", "env_step", 1, 2, t + second[0], second[1] - second[0])
        .span("wait", "idle", 1, 2, t + second[1], 1000 - second[1], "\"on\":\"pool\"");
  }
  return trace;
}

TEST(Scheduling, steps_that_end_a_step_apart_take_turns) {
  const std::string two = about(2, 2, {{}, {}});
  // 200 us behind the other's, which are as long as the shortest take
  const Analysis turns = analysed_run(of_two_threads({200, 600}), two);
  EXPECT_EQ(turns.findings.at(0).name, "lock contention") << names(turns);
  EXPECT_NEAR(turns.findings[0].gain, 0.4, 1e-9);
  // side by side, one a little longer
  EXPECT_FALSE(contains(names(analysed_run(of_two_threads({410, 805}), two)), "lock contention"));
  // one thread takes no turns
  EXPECT_FALSE(contains(names(analysed_run(with_stage("env_step", 900), about(1, 2, {{}}))),
                        "lock contention"));
}

// rounds of four environments, of which one takes `longest`, on two threads
TraceText rounds(int64_t longest) {
  TraceText trace;
  trace.event(
      "\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"pool 1\"}");
  for (int64_t i = 0; i < kIterations; ++i) {
    const int64_t t = 1000 * i;
    trace.span("stage", "iteration", 1, 1, t, 1000);
    trace.span("stage", "env_step", 1, 1, t, longest);
    for (int64_t k = 0; k < 3; ++k) trace.span("stage", "env_step", 1, 2, t + 1 + 20 * k, 20);
  }
  return trace;
}

TEST(Scheduling, one_environment_that_all_others_wait_for) {
  const std::string two = about(2, 2, {{}, {}});
  const Analysis uneven = analysed_run(rounds(900), two);
  EXPECT_EQ(names(uneven), "uneven environments");
  // 960 us of steps, which two threads could do in 480 of the 1000
  EXPECT_NEAR(uneven.findings[0].gain, 0.42, 1e-3);
  EXPECT_EQ(names(analysed_run(rounds(60), two)), "");
  // what one thread does nobody waits for
  EXPECT_FALSE(contains(names(analysed_run(rounds(900), about(1, 2, {{}}))), "uneven"));
}

TEST(Scheduling, more_threads_than_processors) {
  const TraceText trace = with_stage("update", 900);
  const Analysis crowded =
      analysed_run(trace, about(16, 2, {{.on_processor = 0.4, .queued = 0.5}}));
  EXPECT_EQ(names(crowded), "more threads than processors");
  EXPECT_NEAR(crowded.findings[0].gain, 0.5, 1e-9);
  EXPECT_EQ(crowded.findings[0].patch, "threads=2");
  // where none waits for a processor they do no harm
  EXPECT_EQ(names(analysed_run(trace, about(16, 2, {{}}))), "");
  // other programs' doing
  EXPECT_EQ(names(analysed_run(trace, about(2, 2, {{.on_processor = 0.4, .queued = 0.5}}))),
            "other programs");
}

TEST(Scheduling, what_others_held_up_is_no_finding) {
  const TraceText trace = with_stage("flush", 100);
  EXPECT_EQ(names(analysed_run(trace, about(1, 2, {{}}))), "slow logger");
  EXPECT_EQ(names(analysed_run(trace, about(1, 2, {{.on_processor = 0.8, .queued = 0.2}}))), "");
}

TEST(Findings, a_checkpoint_that_is_made_to_be_judged_is_the_evaluations) {
  const TraceText trace = with_stage("save", 600);
  const std::string often =
      "\"train.steps\":\"100000\",\"train.save_every\":\"512\",\"train.eval_every\":\"0\"";
  const Analysis saves = analysed_run(trace, about(1, 2, {{}}, often));
  EXPECT_EQ(names(saves), "checkpoints");
  EXPECT_EQ(saves.findings[0].patch, "train.save_every=39000");
  const Analysis judges = analysed_run(
      trace, about(1, 2, {{}},
                   "\"train.steps\":\"100000\",\"train.save_every\":\"50000\",\"train.eval_every\":"
                   "\"512\""));
  EXPECT_EQ(names(judges), "evaluation");
  EXPECT_EQ(judges.findings[0].patch, "train.eval_every=39000");
  // ten a run, and short ones
  EXPECT_EQ(names(analysed_run(
                trace, about(1, 2, {{}}, "\"train.steps\":\"100000\",\"train.save_every\":\"0\""))),
            "");
}

TEST(Findings, a_minibatch_of_a_few_rows_costs_what_a_full_one_does) {
  const TraceText trace = with_stage("minibatch", 800);
  const Analysis tiny = analysed_run(trace, about(1, 2, {{}}, "\"ppo.minibatch\":\"16\""));
  EXPECT_EQ(names(tiny), "tiny minibatches");
  EXPECT_NEAR(tiny.findings[0].gain, 0.8 * 0.75, 1e-9);
  EXPECT_EQ(tiny.findings[0].patch, "ppo.minibatch=256");
  EXPECT_EQ(names(analysed_run(trace, about(1, 2, {{}}, "\"ppo.minibatch\":\"64\""))), "");
  EXPECT_EQ(names(analysed_run(trace, about(1, 2, {{}}, "\"ppo.minibatch\":\"0\""))), "");
}

TEST(Origin, takes_what_is_as_it_should_be_and_leaves_the_rest) {
  const TraceOrigin origin = origin_of(
      R"({"threads": 3, "processors": "two", "settings": {"a": "1.5", "b": 2, "c": "x"},
          "use": [7, {"tid": 4, "faults": -3, "queued_ns": 1e300}]})");
  EXPECT_TRUE(origin.ours);
  EXPECT_EQ(origin.threads, 3);
  EXPECT_EQ(origin.processors, 0);
  EXPECT_EQ(origin.number("a"), 1.5);
  EXPECT_EQ(origin.number("b", 9), 9);
  EXPECT_EQ(origin.number("c", 9), 9);
  ASSERT_EQ(origin.use.size(), 1u);
  EXPECT_EQ(origin.use[0].tid, 4);
  EXPECT_EQ(origin.use[0].faults, 0);
  EXPECT_EQ(origin.use[0].queued, int64_t(1e18));
  EXPECT_FALSE(origin_of("[1]").ours);
}

}  // namespace
}  // namespace maglev
