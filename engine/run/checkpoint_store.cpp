#include "engine/run/checkpoint_store.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"

namespace maglev {
namespace {

constexpr const char* kBest = "best";
constexpr const char* kEvaluations = "evaluations.json";
constexpr size_t kMaxEvaluationsBytes = 16 << 20;

bool is_checkpoint_name(const std::string& name) { return name.starts_with("step_"); }

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// the highest of what `value` says, the newest of equals; null when it says NaN of all
template <class Value>
const CheckpointRow* highest(const std::vector<CheckpointRow>& rows, const Value& value) {
  const CheckpointRow* best = nullptr;
  for (const auto& row : rows)
    if (!std::isnan(value(row)) && (!best || value(row) >= value(*best))) best = &row;
  return best;
}

// by evaluation where there is one, else by the return of training; empty when neither is known
std::string best_of(const std::vector<CheckpointRow>& rows) {
  const auto* best = highest(rows, [](const CheckpointRow& row) { return row.evaluation; });
  if (!best)
    best = highest(rows, [](const CheckpointRow& row) { return row.identity.return_mean; });
  return best ? best->path : "";
}

}  // namespace

CheckpointStore::CheckpointStore(const std::string& run_dir, int keep_last)
    : dir_(run_dir + "/checkpoints"), keep_last_(keep_last) {}

std::vector<CheckpointRow> CheckpointStore::list() const {
  std::vector<CheckpointRow> rows;
  const auto judged = evaluations();
  for (const auto& name : list_dir(dir_)) {
    if (!is_checkpoint_name(name)) continue;
    std::string path = dir_ + "/" + name;
    try {
      Manifest manifest = read_manifest(path);
      rows.push_back({.path = path,
                      .identity = std::move(manifest.identity),
                      .sequence = manifest.sequence,
                      .state_bytes = manifest.file_bytes});
      if (auto found = judged.find(name); found != judged.end())
        rows.back().evaluation = found->second;
    } catch (const Error&) {
      // newest_valid() tells why
    }
  }
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return rows;
}

std::string CheckpointStore::newest_valid(
    const std::function<void(const std::string&)>& note) const {
  const auto newest = newest_verified(note);
  return newest ? newest->dir : "";
}

std::optional<VerifiedCheckpoint> CheckpointStore::newest_verified(
    const std::function<void(const std::string&)>& note) const {
  auto tell = [&](const std::string& text) {
    if (note) note(text);
  };
  std::vector<CheckpointRow> rows = list();
  for (const auto& name : list_dir(dir_)) {
    std::string path = dir_ + "/" + name;
    bool listed =
        std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return r.path == path; });
    if (!is_checkpoint_name(name) || listed) continue;
    try {
      read_manifest(path);
    } catch (const Error& e) {
      tell("skipped: " + std::string(e.what()));
    }
  }
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    try {
      return verify_checkpoint(row->path);
    } catch (const Error& e) {
      tell("skipped: " + std::string(e.what()));
    }
  }
  return std::nullopt;
}

std::string CheckpointStore::best() const {
  std::string target = read_link(dir_ + "/" + kBest);
  std::vector<CheckpointRow> rows = list();
  for (const auto& row : rows)
    if (name_of(row.path) == target) return row.path;
  return best_of(rows);
}

std::string CheckpointStore::save(const CheckpointIdentity& identity, const VisitState& visit,
                                  std::string* trouble, const std::string& replaced) {
  std::string path = save_checkpoint(dir_, identity, visit);
  std::string failed;
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const Error& e) {
      if (failed.empty()) failed = e.what();
    }
  };
  // a link that cannot be made does not keep old checkpoints, which would fill the disk
  std::vector<CheckpointRow> rows;
  if (!replaced.empty() && replaced != path && path_exists(replaced))
    attempt([&] { remove(replaced); });
  attempt([&] { rows = list(); });
  attempt([&] { point_best(rows); });
  // the one just written is valid, so nothing more need be read before the old ones go
  if (keep_last_ > 0 && rows.size() > size_t(keep_last_))
    attempt([&] { delete_all_but(rows, rows.size() - size_t(keep_last_)); });
  if (!failed.empty() && !trouble) throw Error(failed);
  if (trouble) *trouble = failed;
  return path;
}

void CheckpointStore::point_best(const std::vector<CheckpointRow>& rows) {
  const std::string best = best_of(rows), link = dir_ + "/" + kBest;
  if (best.empty() || read_link(link) == name_of(best)) return;
  // something of that name which is no link is somebody's, and not ours to delete
  if (path_exists(link) && read_link(link).empty()) rename_path(link, first_free(link + ".old-"));
  replace_link(link, name_of(best));
}

std::map<std::string, double> CheckpointStore::evaluations() const {
  std::map<std::string, double> judged;
  const std::string path = dir_ + "/" + kEvaluations;
  if (!path_exists(path)) return judged;
  // a damaged one is as none: checkpoints are then compared by the return of training
  const auto json =
      nlohmann::json::parse(read_file(path, kMaxEvaluationsBytes), nullptr, /*throws=*/false);
  if (!json.is_object()) return judged;
  for (const auto& [name, value] : json.items())
    judged[name] =
        value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  return judged;
}

void CheckpointStore::write_evaluations(const std::map<std::string, double>& judged) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : judged) {
    json[name] = nullptr;
    if (std::isfinite(value)) json[name] = value;
  }
  write_atomic(dir_ + "/" + kEvaluations, json.dump(1) + "\n");
}

void CheckpointStore::judge(const std::string& path, double return_mean) {
  auto judged = evaluations();
  judged[name_of(path)] = return_mean;
  write_evaluations(judged);
  point_best(list());
}

void CheckpointStore::forget_evaluations() {
  if (!evaluations().empty()) write_evaluations({});
}

std::vector<std::string> CheckpointStore::unjudged() const {
  const auto judged = evaluations();
  std::vector<std::string> paths;
  for (const auto& row : list())
    if (row.identity.evaluate && !judged.contains(name_of(row.path))) paths.push_back(row.path);
  return paths;
}

void CheckpointStore::collect_garbage() {
  std::vector<CheckpointRow> rows = list();
  if (keep_last_ <= 0 || rows.size() <= size_t(keep_last_)) return;
  size_t first_kept = rows.size() - size_t(keep_last_);
  bool any_valid =
      std::any_of(rows.begin() + ptrdiff_t(first_kept), rows.end(), [](const auto& row) {
        try {
          verify_checkpoint(row.path);
          return true;
        } catch (const Error&) {
          return false;
        }
      });
  if (any_valid) delete_all_but(rows, first_kept);
}

void CheckpointStore::delete_all_but(const std::vector<CheckpointRow>& rows, size_t first_kept) {
  const std::string kept_best = best();
  const auto kept = unjudged();
  for (size_t i = 0; i < first_kept; ++i) {
    if (rows[i].path == kept_best ||
        std::find(kept.begin(), kept.end(), rows[i].path) != kept.end())
      continue;
    remove(rows[i].path);
  }
}

void CheckpointStore::remove(const std::string& path) {
  // its name may be taken again, and its verdict is not its successor's; metrics.jsonl keeps the
  // row
  auto judged = evaluations();
  if (judged.erase(name_of(path)) > 0) write_evaluations(judged);
  // under a temporary name first: a kill while files are removed leaves no torn checkpoint
  std::string temporary = temporary_beside(path);
  rename_path(path, temporary);
  remove_tree(temporary);
}

bool has_checkpoint(const std::string& run_dir) {
  return std::ranges::any_of(list_dir(run_dir + "/checkpoints"), is_checkpoint_name);
}

Error no_valid_checkpoint(const std::string& run_dir) {
  const std::string checkpoints = run_dir + "/checkpoints";
  return Error("[" + run_dir + "] holds no valid checkpoint: " +
               (has_checkpoint(run_dir)
                    ? "all in " + checkpoints + " are damaged; bring back a copy of one"
                    : checkpoints + " has none; wait for the first where the run has just begun, "
                                    "bring them back where they were deleted") +
               ", or start the run again with the command in reproduce.md and --overwrite, which "
               "moves this folder aside");
}

}  // namespace maglev
