#include "engine/run/checkpoint_store.h"

#include <algorithm>
#include <cmath>

#include "base/core/error.h"
#include "base/core/file.h"

namespace maglev {
namespace {

constexpr const char* kBest = "best";

bool is_checkpoint_name(const std::string& name) { return name.starts_with("step_"); }

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// the highest return, the newest of equals; empty when no episode had ended in any
std::string best_of(const std::vector<CheckpointRow>& rows) {
  const CheckpointRow* best = nullptr;
  for (const auto& row : rows) {
    double value = row.identity.return_mean;
    if (!std::isnan(value) && (!best || value >= best->identity.return_mean)) best = &row;
  }
  return best ? best->path : "";
}

}  // namespace

CheckpointStore::CheckpointStore(const std::string& run_dir, int keep_last)
    : dir_(run_dir + "/checkpoints"), keep_last_(keep_last) {}

std::vector<CheckpointRow> CheckpointStore::list() const {
  std::vector<CheckpointRow> rows;
  for (const auto& name : list_dir(dir_)) {
    if (!is_checkpoint_name(name)) continue;
    std::string path = dir_ + "/" + name;
    try {
      Manifest manifest = read_manifest(path);
      rows.push_back({.path = path,
                      .identity = std::move(manifest.identity),
                      .sequence = manifest.sequence,
                      .state_bytes = manifest.file_bytes});
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
      verify_checkpoint(row->path);
      return row->path;
    } catch (const Error& e) {
      tell("skipped: " + std::string(e.what()));
    }
  }
  return "";
}

std::string CheckpointStore::best() const {
  std::string target = read_link(dir_ + "/" + kBest);
  std::vector<CheckpointRow> rows = list();
  for (const auto& row : rows)
    if (name_of(row.path) == target) return row.path;
  return best_of(rows);
}

std::string CheckpointStore::save(const CheckpointIdentity& identity, const VisitState& visit) {
  std::string path = save_checkpoint(dir_, identity, visit);
  std::vector<CheckpointRow> rows = list();
  std::string best = best_of(rows), link = dir_ + "/" + kBest;
  if (!best.empty() && read_link(link) != name_of(best)) replace_link(link, name_of(best));
  // the one just written is valid, so nothing more need be read before the old ones go
  if (keep_last_ > 0 && rows.size() > size_t(keep_last_))
    delete_all_but(rows, rows.size() - size_t(keep_last_));
  return path;
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
  std::string kept_best = best();
  for (size_t i = 0; i < first_kept; ++i) {
    if (rows[i].path == kept_best) continue;
    // under a temporary name first: a kill while files are removed leaves no torn checkpoint
    std::string temporary = temporary_beside(rows[i].path);
    rename_path(rows[i].path, temporary);
    remove_tree(temporary);
  }
}

}  // namespace maglev
