#include "engine/trace/trace_file.h"

#include "base/core/file.h"

namespace maglev {
namespace {

// of what torch's profiler writes
constexpr size_t kMostTorchBytes = size_t(2) << 30;

// `write` fills a file that is at `path` once it is whole
template <class Write>
void write_whole(const std::string& path, const Write& write) {
  const std::string unfinished = temporary_beside(path);
  FileWriter file(unfinished);
  write([&](std::string_view bytes) { file.write(bytes); });
  file.finish();
  rename_path(unfinished, path);
}

}  // namespace

std::string write_chrome_file(const std::string& path, const trace::Recording& recording,
                              const trace::RecordedRun& run, const std::string& torchs) {
  std::string inner, note;
  if (!torchs.empty() && file_bytes(torchs) > kMostTorchBytes)
    note = "torch's part of " + path + " is larger than " +
           std::to_string(kMostTorchBytes >> 30) +
           " GiB and is left out: trace less of the work, or in trace.mode=lite";
  else if (!torchs.empty()) inner = read_file(torchs, kMostTorchBytes);
  if (!torchs.empty()) remove_path(torchs);
  write_whole(path, [&](const trace::Bytes& out) {
    if (!path.ends_with(".gz")) return trace::write_chrome(recording, run, inner, out);
    trace::Gzip gzip(out);
    trace::write_chrome(recording, run, inner, [&](std::string_view bytes) { gzip.write(bytes); });
    gzip.finish();
  });
  return note;
}

void write_perfetto_file(const std::string& path, const trace::Recording& recording,
                         const trace::RecordedRun& run) {
  write_whole(path, [&](const trace::Bytes& out) { trace::write_perfetto(recording, run, out); });
}

}  // namespace maglev
