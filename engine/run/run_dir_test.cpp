#include "engine/run/run_dir.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/core/error.h"
#include "base/core/file_fault.h"
#include "engine/run/checkpoint_store.h"
#include "tests/errors.h"

namespace maglev {
namespace {

class Runs : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = (std::filesystem::temp_directory_path() / ("maglev-runs-" + std::to_string(::getpid())))
                .string();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override {
    set_file_fault({});
    std::filesystem::remove_all(root_);
  }
  RunDir create(const std::string& out = "", bool overwrite = false) const {
    return RunDir::create({.out = out.empty() ? "" : root_ + "/" + out,
                           .root = root_,
                           .algo = "ppo",
                           .env = "cartpole",
                           .overwrite = overwrite});
  }
  static RunStatus status(const std::string& state, double started) {
    return {.algo = "ppo",
            .env = "cartpole",
            .state = state,
            .steps = 5,
            .total_steps = 9,
            .return_mean = 20.5,
            .started = started};
  }

  std::string root_;
};

TEST_F(Runs, names_are_numbered_and_runs_can_live_side_by_side) {
  RunDir first = create(), second = create();
  EXPECT_TRUE(first.path().ends_with("-ppo-cartpole-1")) << first.path();
  EXPECT_TRUE(second.path().ends_with("-ppo-cartpole-2")) << second.path();
}

TEST_F(Runs, a_title_names_a_folder) {
  const RunDir run =
      RunDir::create({.root = root_, .algo = "ppo", .env = "gymnasium ALE/Breakout-v5"});
  EXPECT_TRUE(run.path().ends_with("-ppo-gymnasium-ALE_Breakout-v5-1")) << run.path();
}

TEST_F(Runs, folders_of_plug_ins_are_kept) {
  RunDir run = create("x");
  RunStatus with = status("running", 1e9);
  with.plugins = "/a:/b";
  run.write_status(with);
  EXPECT_EQ(read_status(run.path()).plugins, "/a:/b");
  run.write_status(status("running", 1e9));
  EXPECT_EQ(read_status(run.path()).plugins, "");
  run.write_reproduce({.command = {"./maglev", "train"}, .plugins = "/a (77d0a4e), /b"});
  EXPECT_TRUE(
      contains(read_file(run.path() + "/reproduce.md", 1 << 16), "- plug-ins: /a (77d0a4e), /b\n"));
}

TEST_F(Runs, an_environments_title_is_kept_and_is_its_name_where_nobody_said) {
  RunDir run = create("x");
  run.write_status(status("running", 1e9));
  EXPECT_EQ(read_status(run.path()).env_title, "cartpole");
  RunStatus titled = status("running", 1e9);
  titled.env_title = "gymnasium CartPole-v1";
  run.write_status(titled);
  EXPECT_EQ(read_status(run.path()).env_title, "gymnasium CartPole-v1");
  EXPECT_EQ(read_status(run.path()).env, "cartpole");
  // one of an earlier version
  write_atomic(run.path() + "/run.json",
               R"({"algo": "ppo", "env": "cartpole", "state": "stopped", "steps": 1,
                   "total_steps": 2, "return_mean": null, "started": 1, "ended": 2, "updated": 2,
                   "pid": 1, "host": "h", "message": ""})");
  EXPECT_EQ(read_status(run.path()).env_title, "cartpole");
}

TEST_F(Runs, what_metrics_are_of_is_kept) {
  RunDir run = create("x");
  run.write_status(status("running", 1e9));
  EXPECT_TRUE(read_status(run.path()).labels.empty());
  RunStatus labelled = status("running", 1e9);
  labelled.labels = {{"actions/0", "left"}, {"actions/1", "right"}};
  run.write_status(labelled);
  EXPECT_EQ(read_status(run.path()).labels, labelled.labels);
}

TEST_F(Runs, a_folder_that_holds_a_run_is_refused_or_moved_aside_but_never_lost) {
  { create("x").write_config("seed: 1\n"); }
  std::string error = error_of([&] { create("x"); });
  EXPECT_TRUE(contains(error, "already holds a run") &&
              contains(error, "--resume, in Python maglev.resume"))
      << error;
  RunDir fresh = create("x/", true);
  EXPECT_EQ(fresh.path(), root_ + "/x");
  EXPECT_EQ(fresh.moved_aside(), root_ + "/x.old-1");
  EXPECT_EQ(read_config(fresh.moved_aside()), "seed: 1\n");
  EXPECT_FALSE(is_run(fresh.path()));
}

TEST_F(Runs, a_name_that_means_a_checkpoint_of_another_run_is_refused) {
  { create("x").write_config("seed: 1\n"); }
  const std::string error = error_of([&] { create("x@best"); });
  EXPECT_TRUE(contains(error, "x@best means the checkpoint 'best' of") &&
              contains(error, "take another name"))
      << error;
  EXPECT_FALSE(path_exists(root_ + "/x@best"));
  // of what is no run it is a name like any other
  EXPECT_EQ(create("y@best").path(), root_ + "/y@best");
}

TEST_F(Runs, a_folder_with_other_things_is_refused_and_left_as_it_is) {
  make_dirs(root_ + "/x");
  write_atomic(root_ + "/x/notes.txt", "mine");
  const std::string error = error_of([&] { create("x", true); });
  EXPECT_TRUE(contains(error, "notes.txt") && contains(error, "choose a new folder for --out"))
      << error;
  EXPECT_EQ(list_dir(root_ + "/x"), std::vector<std::string>{"notes.txt"});
}

TEST_F(Runs, two_processes_cannot_train_into_one_folder) {
  RunDir run = create("x");
  run.write_config("seed: 1\n");
  for (bool overwrite : {false, true}) {
    pid_t child = ::fork();
    if (child == 0) {
      bool refused =
          contains(error_of([&] { create("x", overwrite); }), "held by another process") &&
          contains(error_of([&] { RunDir::open(root_ + "/x"); }), "held by another process");
      ::_exit(refused ? 0 : 1);
    }
    int result = 0;
    ::waitpid(child, &result, 0);
    EXPECT_EQ(WEXITSTATUS(result), 0);
  }
  EXPECT_TRUE(is_run(run.path())) << "it was moved from under the process that trains into it";
}

TEST_F(Runs, a_run_is_continued_only_where_there_is_one) {
  { create("x").write_config("seed: 1\n"); }
  EXPECT_EQ(RunDir::open(root_ + "/x/").path(), root_ + "/x");
  make_dirs(root_ + "/y");
  EXPECT_TRUE(contains(error_of([&] { RunDir::open(root_ + "/y"); }), "holds no run"));
}

TEST_F(Runs, a_folder_of_runs_names_one_the_least_number_first) {
  for (const char* name : {"seed-10", "seed-9", "b"}) create(name).write_config("seed: 1\n");
  make_dirs(root_ + "/nothing");
  EXPECT_EQ(runs_in(root_ + "/"),
            (std::vector<std::string>{root_ + "/b", root_ + "/seed-9", root_ + "/seed-10"}));
  EXPECT_TRUE(runs_in(root_ + "/nowhere").empty());
  EXPECT_TRUE(contains(no_run(root_).what(), "3 lie in it; name one, e.g. " + root_ + "/b"));
}

TEST_F(Runs, a_checkpoint_that_is_named_in_place_of_a_run_is_told_by_its_name) {
  { create("x").write_config("seed: 1\n"); }
  make_dirs(root_ + "/x/checkpoints/step_5");
  for (const char* name : {"/x/checkpoints/step_5", "/x/checkpoints/step_5/", "/x@step_5"}) {
    const std::string error = no_run(root_ + name).what();
    EXPECT_TRUE(contains(error, "is a checkpoint of the run " + root_ + "/x:") &&
                contains(error, "call it " + root_ + "/x@step_5,") &&
                contains(error, "train.init_from=" + root_ + "/x@step_5 ") &&
                contains(error, "--resume " + root_ + "/x "))
        << error;
  }
  EXPECT_TRUE(contains(no_run(root_ + "/y@step_5").what(), "holds no run"));
  EXPECT_TRUE(contains(no_run(root_ + "/y/checkpoints/step_5").what(), "holds no run"));
}

TEST_F(Runs, a_status_is_read_back_as_it_was_written) {
  RunDir run = create("x");
  run.write_status(status("running", 1e9));
  RunStatus found = read_status(run.path());
  EXPECT_EQ(found.state, "running");
  EXPECT_EQ(found.steps, 5);
  EXPECT_EQ(found.return_mean, 20.5);
  EXPECT_EQ(found.pid, ::getpid());
  RunStatus none = status("failed", 1e9);
  none.return_mean = std::nan("");
  none.message = "disk \"full\"";
  run.write_status(none);
  EXPECT_TRUE(std::isnan(read_status(run.path()).return_mean));
  EXPECT_EQ(read_status(run.path()).message, "disk \"full\"");
}

TEST_F(Runs, a_run_whose_process_was_killed_is_listed_as_killed) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = ::fork();
  if (child == 0) {
    RunDir run = create("x");
    run.write_status(status("running", 1e9));
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(read_status(root_ + "/x").state, "running");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(read_status(root_ + "/x").state, "killed");
  EXPECT_EQ(RunDir::open(root_ + "/x").path(), root_ + "/x") << "and it can be continued";
}

TEST_F(Runs, a_run_that_did_not_finish_came_as_far_as_its_last_row) {
  RunDir run = create("x");
  run.write_status(status("running", 1e9));
  const auto found = [&](const std::string& rows) {
    write_atomic(run.path() + "/metrics.jsonl", rows);
    const RunStatus now = read_status(run.path());
    return std::pair(now.steps, now.return_mean);
  };
  const std::string row = "{\"step\": 8, \"return_mean\": 31.5}\n";
  EXPECT_EQ(found(row), std::pair(int64_t(8), 31.5));
  EXPECT_EQ(found(row + "{\"step\": 9, \"return_mean\": 3"), std::pair(int64_t(8), 31.5));
  // the status is the newer one, or there are no rows to read
  EXPECT_EQ(found("{\"step\": 4, \"return_mean\": 31.5}\n"), std::pair(int64_t(5), 20.5));
  EXPECT_EQ(found("\xff\n"), std::pair(int64_t(5), 20.5));
  run.write_status(status("finished", 1e9));
  EXPECT_EQ(found(row), std::pair(int64_t(5), 20.5));
}

TEST_F(Runs, the_list_is_newest_first_and_shows_what_cannot_be_read) {
  { create("old").write_status(status("finished", 1e9)); }
  { create("new").write_status(status("stopped", 2e9)); }
  { create("odd").write_config("seed: 1\n"); }
  make_dirs(root_ + "/no_run");
  write_atomic(root_ + "/odd/run.json", "{\"algo\": 1}");
  auto rows = list_runs(root_);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name + rows[0].status.state, "newstopped");
  EXPECT_EQ(rows[1].name + rows[1].status.state, "oldfinished");
  EXPECT_EQ(rows[2].name + rows[2].status.state, "oddunknown");
  EXPECT_TRUE(contains(rows[2].status.message, "odd/run.json")) << rows[2].status.message;
  EXPECT_LT(rows[0].age_s, 3600);
  EXPECT_TRUE(list_runs(root_ + "/none").empty());
}

TEST_F(Runs, where_the_status_is_lost_the_newest_checkpoint_says_how_far_it_was) {
  const RunDir run = create("x");
  int64_t updates = 3;
  const auto visit = [&](StateVisitor& v) { v.integer("updates", updates); };
  for (int64_t step : {100, 250})
    CheckpointStore(run.path(), 3)
        .save({.algo = "ppo", .env = "cartpole", .step = step, .return_mean = 7.5}, visit);
  const RunRow row = run_row(run.path(), "x");
  EXPECT_EQ(row.status.state + " " + row.status.algo + " " + row.status.env,
            "unknown ppo cartpole");
  EXPECT_EQ(row.status.steps, 250);
  EXPECT_EQ(row.status.return_mean, 7.5);
}

TEST_F(Runs, reproduce_tells_the_command_as_a_shell_reads_it) {
  RunDir run = create("x");
  run.write_reproduce({.command = {"./maglev", "train", "ppo", "a b", "it's"},
                       .seed = "7",
                       .engine_version = "0.1.0",
                       .torch_version = "2",
                       .threads = 2});
  std::string text = read_file(run.path() + "/reproduce.md", 1 << 16);
  EXPECT_TRUE(contains(text, "./maglev train ppo 'a b' 'it'\\''s'\n")) << text;
  EXPECT_TRUE(contains(text, "- seed: 7\n") && contains(text, "- processor: ") &&
              contains(text, "- kernel: Linux"))
      << text;
  EXPECT_FALSE(contains(text, "git commit")) << "what is not known is left out";
}

TEST_F(Runs, the_log_grows_by_lines) {
  RunDir run = create("x");
  run.log("one");
  run.log("two");
  std::string text = read_file(run.path() + "/log.txt", 1000);
  EXPECT_TRUE(contains(text, " one\n") && text.ends_with(" two\n")) << text;
}

TEST_F(Runs, a_full_disk_leaves_the_status_that_was_there) {
  RunDir run = create("x");
  run.write_status(status("running", 1e9));
  set_file_fault(parse_file_fault("write:ENOSPC:1"));
  EXPECT_TRUE(contains(error_of([&] { run.write_status(status("finished", 1e9)); }), "free space"));
  set_file_fault({});
  EXPECT_EQ(read_status(run.path()).state, "running");
}

TEST_F(Runs, a_folder_that_was_moved_is_made_anew_with_what_was_written_and_says_where_it_went) {
  RunDir run = create("x");
  run.write_config("seed: 1\n");
  run.write_status(status("running", 1e9));
  ASSERT_TRUE(run.in_place());
  std::filesystem::rename(root_ + "/x", root_ + "/y");
  EXPECT_FALSE(run.in_place());
  EXPECT_TRUE(run.remake().ends_with("/y"));
  EXPECT_TRUE(run.in_place());
  EXPECT_EQ(read_config(root_ + "/x"), "seed: 1\n");
  std::filesystem::remove_all(root_ + "/x");
  EXPECT_EQ(run.remake(), "") << "one that was deleted is nowhere";
  EXPECT_EQ(read_config(root_ + "/x"), "seed: 1\n");
}

TEST_F(Runs, a_folder_that_could_not_be_made_anew_as_a_whole_is_still_missing) {
  RunDir run = create("x");
  run.write_config("seed: 1\n");
  std::filesystem::rename(root_ + "/x", root_ + "/y");
  set_file_fault(parse_file_fault("write:ENOSPC:1"));
  EXPECT_TRUE(contains(error_of([&] { run.remake(); }), "free space"));
  set_file_fault({});
  EXPECT_FALSE(run.in_place());
  EXPECT_TRUE(run.remake().ends_with("/y"));
  EXPECT_EQ(read_config(root_ + "/x"), "seed: 1\n");
}

TEST_F(Runs, a_lock_that_was_deleted_is_taken_again_and_another_run_is_not_written_into) {
  RunDir run = create("x");
  run.write_status(status("running", 1e9));
  std::filesystem::remove(root_ + "/x/run.lock");
  run.remake();
  EXPECT_TRUE(run.in_place());
  std::filesystem::rename(root_ + "/x", root_ + "/y");
  RunDir other = create("x");
  EXPECT_TRUE(contains(error_of([&] { run.remake(); }), "held by another process"));
  EXPECT_THROW(run.remake(), RunDir::Taken);
}

TEST_F(Runs, what_killed_processes_left_unfinished_is_swept_and_no_more) {
  { create("x").write_config("seed: 1\n"); }
  // no process ever has this number
  const std::string none = std::to_string(std::numeric_limits<pid_t>::max());
  const std::string dead = root_ + "/x/.run.json.tmp-" + none + "-3",
                    alive = root_ + "/x/.run.json.tmp-1-3";
  for (const auto& path : {dead, alive}) std::ofstream(path) << "half";
  RunDir::open(root_ + "/x");
  EXPECT_FALSE(path_exists(dead));
  EXPECT_TRUE(path_exists(alive)) << "process 1 may be at it";
}

TEST_F(Runs, a_pipe_in_the_place_of_the_log_is_refused_without_waiting) {
  RunDir run = create("x");
  ASSERT_EQ(::mkfifo((run.path() + "/log.txt").c_str(), 0644), 0);
  EXPECT_TRUE(contains(error_of([&] { run.log("one"); }), "not a regular file"));
}

TEST_F(Runs, a_session_that_continues_a_run_is_added_to_how_it_came_about) {
  RunDir run = create("x");
  run.write_reproduce({.command = {"./maglev", "train"}, .seed = "7"});
  run.write_continued({.how = {.command = {"./maglev", "train", "--resume", "x"}},
                       .step = 640,
                       .checkpoint = "x/checkpoints/step_000000000640",
                       .changes = {"ppo.lr: 0.001 -> 0.0003"}});
  const std::string text = read_file(run.path() + "/reproduce.md", 1 << 16);
  EXPECT_TRUE(contains(text, "- seed: 7\n") && contains(text, "## Continued at step 640") &&
              contains(text, "    ./maglev train --resume x\n") &&
              contains(text, "- changed: ppo.lr: 0.001 -> 0.0003\n"))
      << text;
}

}  // namespace
}  // namespace maglev
