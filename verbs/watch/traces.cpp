#include "verbs/watch/traces.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_map>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/web/answer.h"

namespace maglev::verbs::watch {
namespace {

using TraceJson = nlohmann::ordered_json;

constexpr size_t kMostTraces = 1000;  // listed
constexpr size_t kMostNames = 60;     // of the table of self times
constexpr size_t kMostPerfettoBytes = size_t(1) << 30;
constexpr std::string_view kPerfettoEnding = ".perfetto";

std::string text_of(const TraceJson& json) {
  return json.dump(-1, ' ', false, TraceJson::error_handler_t::replace);
}

// bytes and when it was written, in ns; false: no file
bool file_state(const std::string& path, int64_t& bytes, int64_t& written) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  bytes = info.st_size;
  written = int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  return true;
}

std::string traces_folder(const std::string& run) { return run + "/traces"; }

bool is_trace(const std::string& name) {
  return name.ends_with(".json.gz") || name.ends_with(".json");
}

std::string perfetto_name(const std::string& trace) {
  return trace.substr(0, trace.rfind(".json")) + std::string(kPerfettoEnding);
}

// the file that is asked for: one of the folder's own, by its name
std::string asked_name(const std::string& run, const HttpRequest& request) {
  const std::string name(request.asked("trace"));
  const std::string folder = traces_folder(run);
  if (is_trace(name) && path_exists(folder))
    for (const std::string& file : list_dir(folder))
      if (file == name) return name;
  throw Error("[watch] there is no trace " + name + " of this run");
}

struct View {
  int64_t low, high;
};
View asked_view(const HttpRequest& request, const FlameTrace& trace) {
  return {int64_t(std::clamp(asked_number<double>(request, "low", 0), 0.0, 9e15)),
          int64_t(std::clamp(asked_number<double>(request, "high", double(trace.length())), 0.0,
                             9e15))};
}

// what a span says besides its name, for people
std::string details_of(const Timeline& timeline, const Span& span) {
  std::string text;
  const auto add = [&](const std::string& name, double value) {
    char number[40];
    std::snprintf(number, sizeof number, "%.6g", value);
    text += (text.empty() ? "" : ", ") + name + " " + number;
  };
  constexpr std::array kOn{"something", "pool", "lock", "device", "io", "replay"};
  if (span.kind == SpanKind::wait) text = std::string("waits for ") + kOn[size_t(span.on)];
  if (span.way != CopyWay::unknown)
    text += std::string(name_of(span.way)) + (span.pageable ? ", pageable" : "");
  if (span.link) add("correlation", span.link);
  if (span.numbers == 0) return text;
  const double seconds = double(span.length()) / 1e9;
  if (is_stage(span.kind)) {
    const SpanCounts& counts = timeline.counts[span.numbers];
    for (size_t i = 0; i < counts.size(); ++i)
      if (counts[i] >= 0) add(std::string(maglev::trace::kCounters[i]), counts[i]);
    if (counts[0] > 0 && counts[1] >= 0) add("IPC", counts[1] / counts[0]);
    return text;
  }
  const SpanNumbers& numbers = timeline.numbers[span.numbers];
  if (numbers.bytes > 0) add("bytes", numbers.bytes);
  if (numbers.flops > 0) add("FLOPs", numbers.flops);
  if (numbers.bytes > 0 && seconds > 0) add("GB/s", numbers.bytes / seconds / 1e9);
  if (numbers.flops > 0 && seconds > 0) add("GFLOP/s", numbers.flops / seconds / 1e9);
  return text;
}

// names as an answer has them: each once
class Names {
 public:
  explicit Names(const Timeline& timeline) : timeline_(timeline) {}
  size_t place(uint32_t name) {
    const auto [found, added] = places_.emplace(name, places_.size());
    if (added) json_.push_back(timeline_.names[name]);
    return found->second;
  }
  const TraceJson& json() const { return json_; }

 private:
  const Timeline& timeline_;
  std::unordered_map<uint32_t, size_t> places_;
  TraceJson json_ = TraceJson::array();
};

}  // namespace

std::string traces_json(const std::string& folder) {
  struct Listed {
    std::string name;
    int64_t bytes = 0, written = 0, perfetto = 0;
  };
  std::vector<Listed> listed;
  const std::string traces = traces_folder(folder);
  if (path_exists(traces))
    for (const std::string& name : list_dir(traces)) {
      Listed one{.name = name};
      if (!is_trace(name) || !file_state(traces + "/" + name, one.bytes, one.written)) continue;
      int64_t written = 0;
      file_state(traces + "/" + perfetto_name(name), one.perfetto, written);
      listed.push_back(one);
    }
  std::sort(listed.begin(), listed.end(), [](const Listed& a, const Listed& b) {
    return a.written != b.written ? a.written > b.written : a.name < b.name;
  });
  if (listed.size() > kMostTraces) listed.resize(kMostTraces);
  TraceJson json = TraceJson::array();
  for (const Listed& one : listed)
    json.push_back({{"name", one.name},
                    {"bytes", one.bytes},
                    {"written", double(one.written) / 1e9},
                    {"perfetto", one.perfetto}});
  return text_of({{"traces", json}});
}

HttpResponse perfetto_response(const std::string& folder, const HttpRequest& request) {
  const std::string name = perfetto_name(asked_name(folder, request));
  const std::string path = traces_folder(folder) + "/" + name;
  if (!path_exists(path))
    throw Error("[watch] there is no " + name +
                " beside this trace; ui.perfetto.dev opens the "
                "trace itself, too");
  // a name in quotes has none itself, and no control characters
  std::string saved = name;
  std::erase_if(saved, [](char c) { return c == '"' || c == '\\' || uint8_t(c) < 0x20; });
  return {.type = "application/octet-stream",
          .body = read_file(path, kMostPerfettoBytes),
          .headers = {{"Content-Disposition", "attachment; filename=\"" + saved + "\""}}};
}

std::shared_ptr<const FlameTrace> OpenTraces::trace_of(const std::string& folder,
                                                       const HttpRequest& request) {
  const std::string path = traces_folder(folder) + "/" + asked_name(folder, request);
  int64_t bytes = 0, written = 0;
  file_state(path, bytes, written);
  // one is read at a time: another question of it waits and has it then
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const Open& open) {
    return open.path == path && open.written == written && open.bytes == bytes;
  });
  if (found != open_.end()) open_.splice(open_.begin(), open_, found);
  else open_.push_front({path, written, bytes, std::make_shared<const FlameTrace>(path)});
  size_t held = 0;
  for (auto open = open_.begin(); open != open_.end();) {
    held += open->trace->memory();
    const bool stays = open == open_.begin() || held <= most_bytes_;
    open = stays ? std::next(open) : open_.erase(open);
  }
  return open_.front().trace;
}

std::string OpenTraces::trace_json(const std::string& folder, const HttpRequest& request) {
  const auto trace = trace_of(folder, request);
  const Timeline& timeline = trace->timeline();
  TraceJson tracks = TraceJson::array();
  for (size_t i = 0; i < timeline.tracks.size(); ++i) {
    const Track& track = timeline.tracks[i];
    tracks.push_back({{"name", track.name()},
                      {"process", track.process_name.empty() ? track.process : track.process_name},
                      {"pid", track.process},
                      {"device", track.stream},
                      {"spans", track.spans},
                      {"rows", trace->rows(i)}});
  }
  const auto about = TraceJson::parse(timeline.file.maglev, nullptr, /*throws=*/false);
  return text_of({{"length", trace->length()},
                  {"spans", timeline.spans.size()},
                  {"whole", trace->whole()},
                  {"torn", timeline.file.torn},
                  {"tracks", tracks},
                  {"about", about.is_object() ? about : TraceJson::object()}});
}

std::string OpenTraces::boxes_json(const std::string& folder, const HttpRequest& request) {
  const auto trace = trace_of(folder, request);
  const View view = asked_view(request, *trace);
  const auto boxes = trace->boxes(
      view.low, view.high, asked_number<int64_t>(request, "width", 1000), request.asked("find"));
  Names names(trace->timeline());
  // [track, depth, begin, length, name, spans, found, covered] and what one span says besides
  std::string text = "{\"boxes\":[";
  for (const FlameBox& box : boxes) {
    if (text.back() == ']') text += ',';
    text += '[';
    for (const int64_t value :
         {int64_t(box.track), int64_t(box.depth), box.begin, box.end - box.begin,
          int64_t(names.place(box.name)), int64_t(box.spans), int64_t(box.found)})
      text += std::to_string(value) + ",";
    text += std::to_string(box.covered);
    if (box.spans == 1) {
      const std::string details = details_of(trace->timeline(), trace->timeline().spans[box.first]);
      if (!details.empty()) text += ",\"" + details + "\"";
    }
    text += ']';
  }
  return text + "],\"names\":" + text_of(names.json()) + "}";
}

std::string OpenTraces::self_json(const std::string& folder, const HttpRequest& request) {
  const auto trace = trace_of(folder, request);
  const View view = asked_view(request, *trace);
  TraceJson rows = TraceJson::array();
  for (const FlameSelf& time : trace->self_times(view.low, view.high, kMostNames))
    rows.push_back(
        {{"name", trace->timeline().names[time.name]}, {"calls", time.calls}, {"self", time.self}});
  return text_of({{"rows", rows}});
}

std::string OpenTraces::find_json(const std::string& folder, const HttpRequest& request) {
  const auto trace = trace_of(folder, request);
  const FlameFound found =
      trace->find(request.asked("find"),
                  int64_t(std::clamp(asked_number<double>(request, "after", -1), -1.0, 9e15)));
  TraceJson json{{"spans", found.spans}, {"total", found.total}};
  if (found.has_next)
    json["next"] = {{"track", found.track},
                    {"depth", found.depth},
                    {"begin", found.begin},
                    {"length", found.end - found.begin}};
  return text_of(json);
}

}  // namespace maglev::verbs::watch
