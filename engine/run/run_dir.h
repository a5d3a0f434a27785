#pragma once
// A run's folder: its name, its lock, what it holds besides metrics and checkpoints, and the list
// of runs.
//   config.yaml    the resolved settings          reproduce.md  how to get the same run again
//   run.json       state, times, steps, process   log.txt       lines for people
//   run.lock       held while a process trains    memory.json   what the run was planned to hold
//   dataset.txt    the files it learns from, where it does
//   given.txt      the settings that were given, at first and later (given.h)
//   sinks.txt      where metrics go, if somebody chose (engine/train/session_sinks.h)
//   metrics.jsonl, events.out.tfevents.*, checkpoints/, network.safetensors by others

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/file.h"

namespace maglev {

/// run.json. Times are seconds since 1970.
struct RunStatus {
  std::string algo = {}, env = {};
  std::string state =
      {};  ///< "running", "finished", "stopped" (by a person), "failed"; listed also "killed"
  int64_t steps = 0, total_steps = 0;
  double return_mean = std::numeric_limits<double>::quiet_NaN();  ///< NaN: no episode has ended
  double started = 0, ended = 0;  ///< of the first start; ended is 0 while running
  double updated = 0;             ///< when this was written; set by write_status
  int64_t pid = 0;                ///< set by write_status
  std::string host = {};          ///< set by write_status
  std::string message = {};       ///< why it failed
  std::string bound_by = {};      ///< what bounded it last, and what to try
  /// `env` with which of many it is, for people: "gymnasium CartPole-v1" (env_title.h). As `env`
  /// where an earlier version did not say.
  std::string env_title = {};
  std::string plugins = {};  ///< MAGLEV_PLUGINS of the program that trains it
  /// What metrics are of, for people, where their names do not say: "actions/3" is of "up".
  std::map<std::string, std::string> labels = {};
};

/// What reproduce.md tells; what is empty is left out. Machine facts are added by write_reproduce.
struct Reproduce {
  std::vector<std::string> command;  ///< argv
  std::string seed = {}, engine_version = {}, git_commit = {}, torch_version = {}, device = {};
  std::string plugins = {};  ///< folders of plug-ins beside the checkout, with their commits
  int threads = 0;           ///< of each process
  int64_t processes = 1, machines = 1;
};

/// What a session that continues a run adds to reproduce.md.
struct Continued {
  Reproduce how = {};
  int64_t step = 0;
  std::string checkpoint = {};            ///< folder it goes on from
  std::vector<std::string> changes = {};  ///< "ppo.lr: 0.001 -> 0.0003"
};

struct RunDirOptions {
  std::string out = {};  ///< the folder; empty: <root>/<date>-<algo>-<env>-<n>
  std::string root = "runs";
  std::string algo = {}, env = {};  ///< for the name; env may be a title, "gymnasium CartPole-v1"
  bool overwrite =
      false;  ///< `out` may hold a run: it is moved aside to <out>.old-<n>, never deleted
};

class RunDir {
 public:
  /// Makes the folder of a new run and locks it. Throws Error when `out` holds a run (unless
  /// `overwrite`), or files of something else, when another process trains into it, or when it
  /// cannot be written.
  static RunDir create(const RunDirOptions& options);
  /// Throws Error where create() would refuse the folder for what lies there now. Makes nothing.
  static void expect_free(const RunDirOptions& options);
  /// Locks the folder of an existing run, to continue it. Throws Error when it holds none or is
  /// locked.
  static RunDir open(const std::string& path);

  const std::string& path() const { return path_; }
  /// Where the run went that stood here before; empty when there was none.
  const std::string& moved_aside() const { return moved_aside_; }

  void write_config(const std::string& yaml) { write("config.yaml", yaml); }
  /// config.yaml, if it is there, is config.before-<step>.yaml from here on, as it stands.
  void move_config_aside(int64_t step);
  void write_reproduce(const Reproduce& how);
  /// Another section at the end of reproduce.md.
  void write_continued(const Continued& session);
  /// Replaces or makes a small file; remake() writes it again.
  void write(const std::string& name, const std::string& text);
  /// Replaces run.json atomically.
  void write_status(RunStatus status) const;
  /// A line with the time in front, at the end of log.txt.
  void log(const std::string& line) const;

  /// Whether the folder is still where it was, with the lock in it: people move and delete folders.
  bool in_place() const { return lock_.in_place(); }
  /// A run of somebody else stands where the folder was.
  struct Taken : Error {
    using Error::Error;
  };
  /// Makes the folder anew at its path, locks it and writes the small files again. Returns where
  /// the old one went, empty when it was deleted. Throws Taken, or Error when it cannot be made.
  std::string remake();

 private:
  RunDir(std::string path, FileLock lock);

  std::string path_, moved_aside_;
  FileLock lock_;
  std::map<std::string, std::string> written_;  ///< small files, by name
};

/// `text` as one part of a path: a space becomes a dash, what is no letter, digit, dash, underscore
/// or dot an underscore.
std::string path_part(const std::string& text);
/// Throws Error where `out`, a new folder's name, means a checkpoint of another: RUN@NAME.
void expect_own_name(const std::string& out);
/// A folder as it is called without slashes at its end, which shells add.
std::string without_slashes(std::string path);
/// Whether the folder holds a run.
bool is_run(const std::string& path);
/// What is said of a folder that holds none; it may be a sweep or several seeds (several_runs.h), a
/// checkpoint of a run, or misspelled.
Error no_run(const std::string& path);
/// Paths of the runs that lie in the folder, those of a name by their numbers: 2 before 10. None of
/// what is no folder.
std::vector<std::string> runs_in(const std::string& folder);
/// Runs that lie where one of this path would and are called nearly so, by their paths.
std::vector<std::string> near_runs(const std::string& path);
/// The settings a run was started with. Throws Error.
std::string read_config(const std::string& run);
/// How the run stands: run.json as written, but that a "running" one whose lock nobody holds is
/// "killed", and that steps and return of one that runs or was killed are those of its last row of
/// metrics where that is further on. Throws Error when there is none or it is no status.
RunStatus read_status(const std::string& run);
/// Whether run.json says that it did; not where there is none, or a damaged one.
bool has_finished(const std::string& run);

struct RunRow {
  std::string name, path;
  /// Its state is "unknown" when run.json cannot be read; the message says why, and algorithm,
  /// environment, steps and return are those of the newest sound checkpoint.
  RunStatus status;
  double age_s = 0;  ///< since it was last updated, where status.updated says when
};

/// How the run in the folder `path` stands, called `name`.
RunRow run_row(const std::string& path, const std::string& name);
/// Counts a run into the row of the several it belongs to: steps of all, the latest start and
/// update.
void count_in(const RunRow& run, RunRow& several);

/// The runs in `root`, newest start first; none when there is no such folder.
std::vector<RunRow> list_runs(const std::string& root);

}  // namespace maglev
