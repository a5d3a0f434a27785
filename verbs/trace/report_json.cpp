// A trace's analysis as JSON.

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/config/choice.h"
#include "base/core/clock.h"
#include "verbs/trace/report.h"

namespace maglev::verbs::trace {
namespace {

using Json = nlohmann::ordered_json;

Json seconds(int64_t ns) { return double(ns) / 1e9; }

Json named_json(const std::vector<NamedTime>& rows, const TraceOrigin& origin) {
  Json list = Json::array();
  for (const NamedTime& row : rows) {
    Json entry{{"name", row.name},
               {"calls", row.calls},
               {"total_s", seconds(row.total)},
               {"self_s", seconds(row.self)},
               {"mean_s", row.mean() / 1e9},
               {"longest_s", seconds(row.longest)}};
    if (row.bytes > 0) entry["bytes"] = row.bytes;
    if (row.flops > 0) entry["flops"] = row.flops;
    if (const double share = roofline(row, origin); share >= 0) entry["roofline"] = share;
    for (size_t i = 0; i < row.counts.size(); ++i)
      if (row.counts[i] > 0) entry[std::string(maglev::trace::kCounters[i])] = row.counts[i];
    list.push_back(entry);
  }
  return list;
}

Json idle_json(const UsedTime& used) {
  Json idle = Json::object();
  for (size_t cause = 0; cause < kCauses; ++cause)
    if (used.idle[cause]) idle[name_of(Cause(cause))] = seconds(used.idle[cause]);
  return idle;
}

Json device_json(const UsedTime& device) {
  return {{"name", device.name},
          {"wall_s", seconds(device.wall)},
          {"compute_s", seconds(device.busy)},
          {"communication_s", seconds(device.communication)},
          {"copy_s", seconds(device.copy)},
          {"idle_s", idle_json(device)},
          {"active",
           {{"length_s", seconds(device.active)},
            {"compute_s", seconds(device.active_compute)},
            {"other_s", seconds(device.active_other)}}}};
}

Json thread_json(const UsedTime& thread) {
  return {{"name", thread.name},
          {"busy_s", seconds(thread.busy)},
          {"waits_s", idle_json(thread)},
          {"untraced_s", seconds(thread.untraced)}};
}

Json process_json(const ProcessTime& process, int64_t begin) {
  return {{"name", process.name},
          {"pid", process.pid},
          {"threads", process.threads},
          {"spans", process.spans},
          {"iterations", process.iterations},
          {"begin_s", seconds(process.begin - begin)},
          {"wall_s", seconds(process.wall)},
          {"busy_s", seconds(process.busy)},
          {"waits_s", seconds(process.waits)}};
}

Json finding_json(const Finding& finding) {
  return {{"name", finding.name},
          {"gain", finding.gain},
          {"evidence", finding.evidence},
          {"patch", finding.patch},
          {"patch_gain", finding.patch_gain},
          {"advice", finding.advice}};
}

Json copy_json(const CopiedBytes& copied) {
  return {{"direction", name_of(copied.way)},
          {"pageable", copied.pageable},
          {"calls", copied.calls},
          {"time_s", seconds(copied.total)},
          {"bytes", copied.bytes}};
}

Json allocation_json(const AllocatedBytes& allocated) {
  return {{"name", allocated.name},
          {"device", allocated.device},
          {"calls", allocated.calls},
          {"bytes", allocated.bytes},
          {"largest", allocated.largest}};
}

Json gap_json(const Gap& gap, int64_t begin) {
  return {{"where", gap.where},
          {"at_s", seconds(gap.begin - begin)},
          {"length_s", seconds(gap.length)},
          {"cause", name_of(gap.cause)},
          {"after", gap.before},
          {"before", gap.after}};
}

Json part_json(const PathPart& part) {
  return {{"name", part.name},
          {"device", part.device},
          {"pieces", part.pieces},
          {"time_s", seconds(part.length)}};
}

Json change_json(const Change& change) {
  return {{"kind", change.kind},
          {"name", change.name},
          {"before_s", change.before / 1e9},
          {"now_s", change.now / 1e9}};
}

template <class Row, class ToJson>
Json list_of(const std::vector<Row>& rows, const ToJson& to_json) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(to_json(row));
  return list;
}

}  // namespace

std::string report_json(const std::string& path, const Analysis& analysis, const Changes* changes) {
  const auto gap = [&](const Gap& g) { return gap_json(g, analysis.begin); };
  Json json{{"file", path},
            {"bytes", analysis.file.bytes},
            {"events", analysis.file.events},
            {"spans", analysis.spans},
            {"windows", analysis.windows},
            {"wall_s", seconds(analysis.wall)},
            {"iterations", analysis.iterations},
            {"reliable", analysis.reliable()},
            {"doubts", analysis.doubts},
            {"main_thread", analysis.main_thread},
            {"findings", list_of(analysis.findings, finding_json)},
            {"stages", named_json(analysis.stages, analysis.origin)},
            {"outside_s", seconds(analysis.outside)},
            {"untraced_s", seconds(analysis.untraced)},
            {"devices", list_of(analysis.devices, device_json)},
            {"threads", list_of(analysis.threads, thread_json)},
            {"kernels", named_json(analysis.kernels, analysis.origin)},
            {"operations", named_json(analysis.operations, analysis.origin)},
            {"calls", named_json(analysis.calls, analysis.origin)},
            {"copies", list_of(analysis.copies, copy_json)},
            {"allocations", list_of(analysis.allocations, allocation_json)},
            {"gaps", list_of(analysis.gaps, gap)},
            {"critical_path",
             {{"length_s", seconds(analysis.path_length)},
              {"parts", list_of(analysis.path, part_json)}}}};
  if (!analysis.processes.empty())
    json["processes"] = list_of(analysis.processes, [&](const ProcessTime& process) {
      return process_json(process, analysis.processes[0].begin);
    });
  if (changes)
    json["against"] = {{"per_iteration", changes->per_iteration},
                       {"wall_before_s", changes->wall.before / 1e9},
                       {"wall_now_s", changes->wall.now / 1e9},
                       {"changes", list_of(changes->rows, change_json)}};
  // a name may hold any bytes of the file
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string log_line(const std::string& path, const std::string& note, const Analysis& analysis) {
  const double iterations = double(std::max<uint64_t>(1, analysis.iterations));
  const auto each = [&](int64_t ns) { return double(ns) / 1e9 / iterations; };
  Json line{{"date", now_in_utc()}, {"file", path}};
  if (analysis.origin.ours)
    line["what"] = analysis.origin.algorithm + " " + analysis.origin.environment;
  if (!note.empty()) line["note"] = note;
  if (!analysis.reliable()) line["doubts"] = analysis.doubts;
  line["iterations"] = analysis.iterations;
  line["seconds_per_iteration"] = each(analysis.wall);

  Json stages = Json::object();
  for (const NamedTime& stage : analysis.stages) stages[stage.name] = each(stage.self);
  if (analysis.outside) stages["(outside of stages)"] = each(analysis.outside);
  if (analysis.untraced) stages["(untraced)"] = each(analysis.untraced);
  line["stages"] = stages;

  Json copies = Json::object();
  for (const CopiedBytes& copied : analysis.copies)
    copies[std::string(name_of(copied.way)) + (copied.pageable ? ", pageable" : "")] = {
        {"calls", double(copied.calls) / iterations},
        {"bytes", copied.bytes / iterations},
        {"seconds", each(copied.total)}};
  line["copies"] = copies;

  Json devices = Json::object();
  for (const UsedTime& device : analysis.devices) {
    const double wall = double(std::max<int64_t>(1, device.wall));
    Json shares{{"computes", double(device.busy) / wall},
                {"communicates", double(device.communication) / wall},
                {"copies", double(device.copy) / wall},
                {"idle", double(device.idle_total()) / wall}};
    for (size_t cause = 0; cause < kCauses; ++cause)
      if (device.idle[cause])
        shares[std::string("idle: ") + name_of(Cause(cause))] = double(device.idle[cause]) / wall;
    devices[device.name] = shares;
  }
  line["devices"] = devices;
  uint64_t launches = 0;
  for (const NamedTime& kernel : analysis.kernels) launches += kernel.calls;
  line["launches_per_iteration"] = double(launches) / iterations;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace maglev::verbs::trace
