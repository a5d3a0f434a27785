// TensorBoard scalars in the run folder: events.out.tfevents.<time>.<host>.<pid>. A continued run
// writes a new file that tells readers to drop what lies behind its checkpoint.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <unistd.h>

#include "base/core/file.h"
#include "base/metrics/sink.h"
#include "sinks/tensorboard/event.h"

namespace maglev::sinks::tensorboard {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr const char* kReturn = "return_mean";
constexpr const char* kEpisodes = "episodes";
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMaxFileBytes = size_t(1) << 32;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// readers take files by name: later than any that is there
std::string new_path(const std::string& dir) {
  auto seconds = static_cast<long long>(wall_time());
  for (const auto& name : list_dir(dir))
    if (name.starts_with(kPrefix))
      seconds = std::max(seconds, std::atoll(name.c_str() + kPrefix.size()) + 1);
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  for (char* c = host; *c; ++c)
    if (*c == '/') *c = '_';
  return dir + "/" + std::string(kPrefix) + std::to_string(seconds) + "." + host + "." +
         std::to_string(::getpid());
}

// as TensorBoard's own reader: file by file, and a session that starts drops what lies behind it
void read_back(const std::string& dir, const std::function<void(const PastRow&)>& row) {
  std::vector<PastRow> rows;
  for (const auto& name : list_dir(dir)) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string file = read_file(dir + "/" + name, kMaxFileBytes);
    for (const std::string_view record : whole_records(file)) {
      const Event event = parse_event(record);
      if (event.session_start)
        std::erase_if(rows, [&](const PastRow& r) { return r.step >= event.step; });
      PastRow past{.step = event.step, .return_mean = kNaN};
      for (const auto& [tag, value] : event.scalars) {
        if (tag == kReturn) past.return_mean = value;
        if (tag == kEpisodes) past.episodes = int64_t(value);
      }
      if (!std::isnan(past.return_mean)) rows.push_back(past);
    }
  }
  for (const PastRow& past : rows) row(past);
}

class Tensorboard : public MetricSink {
 public:
  explicit Tensorboard(const RunInfo& info) : path_(new_path(info.dir)), file_(path_) {
    whole_or_gone([&] {
      file_.append(record(version_event(wall_time())));
      // a reader drops this step and later ones, and the checkpoint's own row stays
      if (info.resumed_at >= 0)
        file_.append(record(session_start_event(wall_time(), info.resumed_at + 1)));
      file_.flush();
    });
  }

  void write(const MetricRow& row) override {
    std::vector<std::pair<std::string, double>> scalars;
    if (!row.event)
      scalars = {{kReturn, row.return_mean},
                 {"steps_per_second", row.steps_per_second},
                 {kEpisodes, double(row.episodes)}};
    scalars.insert(scalars.end(), row.values.begin(), row.values.end());
    std::erase_if(scalars, [](const auto& s) { return !std::isfinite(s.second); });
    const auto append = [&] {
      file_.append(record(scalars_event(wall_time(), row.step, scalars)));
      file_.flush();
    };
    if (holds_rows_) return append();
    whole_or_gone(append);
    holds_rows_ = true;
  }
  void sync() override { file_.sync(); }
  void close(const std::string&) override { file_.sync(); }

 private:
  // on a full disk each try is another file: one that takes no row does not stay
  void whole_or_gone(const std::function<void()>& append) {
    try {
      append();
    } catch (...) {
      ::unlink(path_.c_str());
      throw;
    }
  }

  std::string path_;
  AppendFile file_;
  bool holds_rows_ = false;
};

}  // namespace

SinkEntry entry() {
  return {.name = "tensorboard",
          .summary = "TensorBoard events in the run folder: tensorboard --logdir runs",
          .on_by_default = true,
          .open = [](const RunInfo& info) -> std::unique_ptr<MetricSink> {
            return std::make_unique<Tensorboard>(info);
          },
          .read_back = read_back};
}

}  // namespace maglev::sinks::tensorboard
