#include "engine/run/run_dir.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include "base/core/home.h"
#include "base/core/shell_word.h"
#include "base/core/thread_pool.h"
#include "base/core/words.h"
#include "base/metrics/rows.h"
#include "engine/host/proc.h"
#include "engine/host/system.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/given.h"
#include "engine/run/several_runs.h"

namespace maglev {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMaxSmallFileBytes = 1 << 20;
// each resume adds to it: room for more than a hundred thousand of them
constexpr size_t kMaxReproduceBytes = 64 << 20;
constexpr const char* kReproduce = "reproduce.md";
constexpr const char* kLock = "run.lock";
constexpr double kMostSteps = 9e15;  // beyond it doubles leave whole numbers out

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string local_time(const char* format) {
  std::time_t now = std::time(nullptr);
  std::tm parts;
  ::localtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

std::string host_name() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return host;
}

// the value after the first line of `file` that begins with `key`
std::string system_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    size_t begin = line.find_first_not_of(" \t:=\"", key.size());
    if (begin == std::string::npos) return "";
    return line.substr(begin, line.find_last_not_of('"') + 1 - begin);
  }
  return "";
}

std::string processor_model() {
  Processor processor;
  parse_cpuinfo(proc_text("/proc/cpuinfo"), processor);
  return processor.model;
}

double real_or_nan(const OrderedJson& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

// the run and the checkpoint that RUN@NAME or RUN/checkpoints/NAME mean; empty: the path is neither
struct OfRun {
  std::string run, checkpoint;
};
OfRun checkpoint_meant(const std::string& path) {
  if (const size_t at = path.rfind('@'); at != std::string::npos && is_run(path.substr(0, at)))
    return {.run = path.substr(0, at), .checkpoint = path.substr(at + 1)};
  const std::filesystem::path meant(without_slashes(path)), folder = meant.parent_path();
  const std::string run = folder.has_parent_path() ? folder.parent_path().string() : ".";
  if (folder.filename() != "checkpoints" || !is_run(run)) return {};
  return {.run = run, .checkpoint = meant.filename().string()};
}

}  // namespace

RunDir::RunDir(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {
  sweep_temporaries(path_);
}

std::string path_part(const std::string& text) {
  std::string part;
  for (unsigned char c : text) {
    const bool kept = std::isalnum(c) || c == '-' || c == '_' || c == '.';
    part += kept ? char(c) : c == ' ' ? '-' : '_';
  }
  return part;
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

bool is_run(const std::string& path) {
  for (const char* name : {"config.yaml", "run.json", "metrics.jsonl", "checkpoints"})
    if (path_exists(path + "/" + name)) return true;
  return false;
}

Error no_run(const std::string& path) {
  if (const OfRun of = checkpoint_meant(path); !of.run.empty()) {
    const std::string name = of.run + "@" + of.checkpoint;
    return Error("[" + path + "] is a checkpoint of the run " + of.run +
                 ": eval and play call it " + name + ", train.init_from=" + name +
                 " begins a new run with it, and --resume " + of.run + " goes on from the newest");
  }
  if (auto several = several_runs(path)) return *several;
  const auto below = runs_in(path);
  if (below.empty())
    return Error("[" + path + "] holds no run; " + command_name() + " runs lists them" +
                 did_you_mean(near_runs(path)));
  return Error("[" + path + "] is no run, but " + std::to_string(below.size()) +
               " lie in it; name one, e.g. " + below[0]);
}

std::vector<std::string> runs_in(const std::string& folder) {
  if (!is_folder(folder)) return {};
  std::vector<std::string> names, paths;
  for (const std::string& name : list_dir(folder))
    if (is_run(folder + "/" + name)) names.push_back(name);
  // names that are alike but for their numbers stand together, the shorter number first
  const auto key = [](const std::string& name) {
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    return std::tuple(name.substr(0, digits), name.size(), name);
  };
  std::ranges::sort(names, {}, key);
  for (const std::string& name : names) paths.push_back(without_slashes(folder) + "/" + name);
  return paths;
}

std::vector<std::string> near_runs(const std::string& path) {
  const std::filesystem::path meant(without_slashes(path)), folder = meant.parent_path();
  std::vector<std::string> names, paths;
  for (const RunRow& row : list_runs(folder.empty() ? "." : folder.string()))
    names.push_back(row.name);
  for (const std::string& name : near_names(meant.filename().string(), names))
    paths.push_back((folder / name).string());
  return paths;
}

namespace {

// neither does a run belong among other files, nor are they ours to move aside
void expect_no_other_files(const std::string& path) {
  if (is_run(path)) return;
  for (const std::string& name : list_dir(path))
    if (!name.starts_with('.') && name != kLock)
      throw Error("[" + path + "] holds files of no run, such as '" + name +
                  "'; choose a new folder for --out");
}

void expect_no_run(const std::string& path, bool overwrite) {
  if (overwrite || !is_run(path)) return;
  throw Error("[" + path +
              "] already holds a run; go on with it (--resume, in Python maglev.resume), choose " +
              "another folder for --out, or move it aside (--overwrite, overwrite=True)");
}

}  // namespace

void expect_own_name(const std::string& out) {
  const std::string path = without_slashes(out);
  const size_t at = path.rfind('@');
  if (at == std::string::npos || path.find('/', at) != std::string::npos || is_run(path)) return;
  if (const std::string before = path.substr(0, at); is_run(before) || is_seeds(before))
    throw Error("[--out] " + path + " means the checkpoint '" + path.substr(at + 1) + "' of " +
                before + "; take another name");
}

void RunDir::expect_free(const RunDirOptions& options) {
  const std::string path = without_slashes(options.out);
  expect_own_name(path);
  if (path.empty() || !path_exists(path)) return;
  expect_no_other_files(path);
  expect_no_run(path, options.overwrite);
}

RunDir RunDir::create(const RunDirOptions& options) {
  if (options.out.empty()) {
    make_dirs(options.root);
    std::string prefix = options.root + "/" + local_time("%Y-%m-%d") + "-" +
                         path_part(options.algo) + "-" + path_part(options.env) + "-";
    // two that start at once get two numbers
    std::string path = first_free(prefix);
    while (!make_dir(path)) path = first_free(prefix);
    return RunDir(path, FileLock(path + "/" + kLock));
  }
  const std::string path = without_slashes(options.out);
  expect_own_name(path);
  make_dirs(path);
  expect_no_other_files(path);
  RunDir run(path, FileLock(path + "/" + kLock));
  if (!is_run(path)) return run;
  expect_no_run(path, options.overwrite);
  // the lock goes along with the old folder, which nobody else can be training into
  std::string aside = first_free(path + ".old-");
  rename_path(path, aside);
  make_dirs(path);
  RunDir fresh(path, FileLock(path + "/" + kLock));
  fresh.moved_aside_ = aside;
  return fresh;
}

RunDir RunDir::open(const std::string& path) {
  const std::string trimmed = without_slashes(path);
  if (!is_run(trimmed)) throw no_run(trimmed);
  RunDir run(trimmed, FileLock(trimmed + "/" + kLock));
  const auto keep = [&](const char* name, size_t limit) {
    if (const std::string file = trimmed + "/" + name; path_exists(file))
      run.written_[name] = read_file(file, limit);
  };
  for (const char* name : {"config.yaml", "memory.json", "dataset.txt", kGivenFile})
    keep(name, kMaxSmallFileBytes);
  keep(kReproduce, kMaxReproduceBytes);
  return run;
}

void RunDir::write(const std::string& name, const std::string& text) {
  written_[name] = text;
  write_atomic(path_ + "/" + name, text);
}

namespace {

FileLock lock_of_own(const std::string& path) {
  try {
    return FileLock(path);
  } catch (const Error& e) {
    if (FileLock::held(path)) throw RunDir::Taken(e.what());
    throw;
  }
}

}  // namespace

std::string RunDir::remake() {
  const std::string whereabouts = lock_.whereabouts();
  make_dirs(path_);
  FileLock lock = lock_of_own(path_ + "/" + kLock);
  // the same folder, where the lock alone was removed, holds the status of this process
  bool ours = true;
  if (path_exists(path_ + "/run.json")) {
    try {
      const RunStatus status = read_status(path_);
      ours = status.pid == ::getpid() && status.host == host_name();
    } catch (const Error&) {
      ours = false;
    }
  }
  if (!ours)
    throw Taken("[" + path_ +
                "] is the folder of another run now, this one has nowhere to save; leave a run's "
                "folder where it is while it trains");
  for (const auto& [name, text] : written_) write_atomic(path_ + "/" + name, text);
  // where one could not be written all of it is done again
  lock_ = std::move(lock);
  return whereabouts.empty() ? "" : parent_of(whereabouts);
}

void RunDir::write_status(RunStatus s) const {
  s.updated = now_s();
  s.pid = ::getpid();
  s.host = host_name();
  OrderedJson json{{"algo", s.algo},
                   {"env", s.env},
                   {"env_title", s.env_title.empty() ? s.env : s.env_title},
                   {"state", s.state},
                   {"steps", s.steps},
                   {"total_steps", s.total_steps},
                   {"return_mean", nullptr},
                   {"started", s.started},
                   {"ended", s.ended},
                   {"updated", s.updated},
                   {"pid", s.pid},
                   {"host", s.host},
                   {"message", s.message},
                   {"bound_by", s.bound_by}};
  if (std::isfinite(s.return_mean)) json["return_mean"] = s.return_mean;
  if (!s.plugins.empty()) json["plugins"] = s.plugins;
  if (!s.labels.empty()) json["labels"] = s.labels;
  write_atomic(path_ + "/run.json",
               json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

void RunDir::log(const std::string& line) const {
  AppendFile file(path_ + "/log.txt");
  file.append(local_time("%Y-%m-%d %H:%M:%S ") + line + "\n");
  file.flush();
}

namespace {

std::string command_text(const std::vector<std::string>& words) {
  std::string command;
  for (const auto& word : words) command += (command.empty() ? "" : " ") + shell_word(word);
  return command;
}

void add_row(std::string& text, const char* what, const std::string& value) {
  if (!value.empty()) text += std::string("- ") + what + ": " + value + "\n";
}

void add_versions(std::string& text, const Reproduce& how) {
  add_row(text, "maglev", how.engine_version);
  add_row(text, "git commit", how.git_commit);
  add_row(text, "plug-ins", how.plugins);
  add_row(text, "torch", how.torch_version);
  add_row(text, "device", how.device);
  add_row(text, "threads", how.threads > 0 ? std::to_string(how.threads) : "");
  add_row(text, "processes", how.processes > 1 ? std::to_string(how.processes) : "");
  add_row(text, "machines", how.machines > 1 ? std::to_string(how.machines) : "");
  add_row(text, "processor", processor_model());
}

}  // namespace

void RunDir::write_reproduce(const Reproduce& how) {
  utsname system{};
  ::uname(&system);
  std::string text = "# How to get this run again\n\n    " + command_text(how.command) +
                     "\n\nThe settings are in config.yaml beside this file.\n\n";
  add_row(text, "seed", how.seed);
  add_versions(text, how);
  add_row(text, "processors this process may use", std::to_string(usable_cpus()));
  add_row(text, "system", system_value("/etc/os-release", "PRETTY_NAME"));
  add_row(text, "kernel",
          std::string(system.sysname) + " " + system.release + " " + system.machine);
  text +=
      "\nOn a CPU the same seed, version, torch and number of processes give the same run to the "
      "bit, "
      "for any number of threads.\n";
  write(kReproduce, text);
}

void RunDir::write_continued(const Continued& session) {
  const std::string path = path_ + "/" + kReproduce;
  std::string text = path_exists(path) ? read_file(path, kMaxReproduceBytes) : "";
  text += "\n## Continued at step " + std::to_string(session.step) + ", " +
          local_time("%Y-%m-%d %H:%M:%S") + "\n\n    " + command_text(session.how.command) + "\n\n";
  add_row(text, "from", session.checkpoint);
  for (const auto& change : session.changes) add_row(text, "changed", change);
  if (session.changes.empty()) add_row(text, "changed", "nothing");
  add_versions(text, session.how);
  write(kReproduce, text);
}

void RunDir::move_config_aside(int64_t step) {
  const std::string path = path_ + "/config.yaml";
  if (path_exists(path))
    rename_path(path, path_ + "/config.before-" + std::to_string(step) + ".yaml");
}

std::string read_config(const std::string& run) {
  return read_file(run + "/config.yaml", kMaxSmallFileBytes);
}

namespace {

// a run writes its status every ten seconds, and rows as they come: what a kill leaves is behind them
void look_at_rows(const std::string& run, RunStatus& status) {
  try {
    const LastRow last = last_metric_row(run);
    if (last.step <= double(status.steps) || last.step > kMostSteps) return;
    status.steps = int64_t(last.step), status.return_mean = last.return_mean;
  } catch (const Error&) {
    // rows that cannot be read tell nothing besides
  }
}

}  // namespace

RunStatus read_status(const std::string& run) {
  std::string path = run + "/run.json";
  RunStatus s;
  try {
    OrderedJson json = OrderedJson::parse(read_file(path, kMaxSmallFileBytes));
    s = {.algo = json.at("algo"),
         .env = json.at("env"),
         .state = json.at("state"),
         .steps = json.at("steps"),
         .total_steps = json.at("total_steps"),
         .return_mean = real_or_nan(json.at("return_mean")),
         .started = json.at("started"),
         .ended = json.at("ended"),
         .updated = json.at("updated"),
         .pid = json.at("pid"),
         .host = json.at("host"),
         .message = json.at("message"),
         .bound_by = json.value("bound_by", ""),
         .env_title = json.value("env_title", json.at("env").get<std::string>()),
         .plugins = json.value("plugins", ""),
         .labels = json.value("labels", std::map<std::string, std::string>())};
  } catch (const OrderedJson::exception&) {
    throw Error("[" + path +
                "] is not the status of a run; it is written anew when the run is continued");
  }
  // the system frees the lock however a process ends; another machine's locks cannot be seen from
  // here
  if (s.state == "running" && s.host == host_name() && !FileLock::held(run + "/" + kLock))
    s.state = "killed";
  // one that was stopped has said where
  if (s.state == "running" || s.state == "killed") look_at_rows(run, s);
  return s;
}

bool has_finished(const std::string& run) {
  try {
    return read_status(run).state == "finished";
  } catch (const Error&) {
    return false;
  }
}

RunRow run_row(const std::string& path, const std::string& name) {
  RunRow row{.name = name, .path = path, .status = {}};
  try {
    row.status = read_status(path);
    row.age_s = std::max(0.0, now_s() - row.status.updated);
  } catch (const Error& e) {
    row.status.state = "unknown";
    row.status.message = e.what();
    const auto saved = CheckpointStore(path, 0).list();
    if (saved.empty()) return row;
    const CheckpointIdentity& newest = saved.back().identity;
    row.status.algo = newest.algo;
    row.status.env = row.status.env_title = newest.env;
    row.status.steps = newest.step, row.status.return_mean = newest.return_mean;
  }
  return row;
}

void count_in(const RunRow& run, RunRow& several) {
  several.status.steps += run.status.steps;
  several.status.started = std::max(several.status.started, run.status.started);
  several.status.env_title = run.status.env_title;
  if (run.status.updated <= several.status.updated) return;
  several.status.updated = run.status.updated;
  several.age_s = run.age_s;
}

std::vector<RunRow> list_runs(const std::string& root) {
  std::vector<RunRow> rows;
  for (const auto& name : list_dir(root))
    if (const std::string path = root + "/" + name; is_run(path))
      rows.push_back(run_row(path, name));
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.status.started > b.status.started;
  });
  return rows;
}

}  // namespace maglev
