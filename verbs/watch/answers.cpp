#include "verbs/watch/answers.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/json_quoted.h"
#include "base/web/answer.h"
#include "engine/run/run_settings.h"

namespace maglev::verbs::watch {
namespace {

using PageJson = nlohmann::ordered_json;

constexpr double kRead_s = 0.2;
constexpr int64_t kMostPoints = 4096;

size_t asked_points(const HttpRequest& request) {
  return size_t(
      std::clamp<int64_t>(asked_number<int64_t>(request, "points", 400), 10, kMostPoints));
}

void add_array(std::string& text, const char* name, const std::vector<CurvePoint>& points,
               double CurvePoint::*member, int digits) {
  text += std::string(",\"") + name + "\":[";
  for (size_t i = 0; i < points.size(); ++i) {
    if (i > 0) text += ',';
    add_number(text, points[i].*member, digits);
  }
  text += ']';
}

std::string index_json(const MetricIndex& index, size_t points, const HttpRequest& request) {
  const uint64_t each = index.point_bytes(points);
  const std::string generation = std::to_string(index.restarts()) + "-" + std::to_string(each);
  const bool goes_on = request.asked("generation") == generation;
  const uint64_t from = goes_on ? asked_number<uint64_t>(request, "from", 0) / each * each : 0;
  std::string text = "{\"generation\":\"" + generation + "\",\"from\":" + std::to_string(from) +
                     ",\"next\":" + std::to_string(index.final_until(each)) +
                     ",\"rows\":" + std::to_string(index.rows()) + ",\"read\":";
  add_number(text, index.read_share(), 4);
  text += ",\"bytes\":" + std::to_string(index.bytes()) +
          ",\"damaged\":" + std::to_string(index.damaged()) + ",\"named\":[";
  for (const DamagedLine& line : index.named())
    text += (text.back() == '[' ? "" : ",") +
            json_quoted("line " + std::to_string(line.number) + ": " + line.text);
  text += "],\"columns\":{";
  for (const std::string& column : index.columns()) {
    if (column == "step" || column == "seconds") continue;
    const std::vector<CurvePoint> curve = index.curve(column, each, from);
    if (curve.empty() && goes_on) continue;
    const auto final_points = std::count_if(curve.begin(), curve.end(),
                                            [](const CurvePoint& p) { return !p.may_change; });
    text += (text.back() == '{' ? "" : ",") + json_quoted(column) +
            ":{\"final\":" + std::to_string(final_points);
    add_array(text, "step", curve, &CurvePoint::step, 12);
    add_array(text, "seconds", curve, &CurvePoint::seconds, 8);
    add_array(text, "low", curve, &CurvePoint::low, 7);
    add_array(text, "high", curve, &CurvePoint::high, 7);
    add_array(text, "mean", curve, &CurvePoint::mean, 7);
    text += '}';
  }
  return text + "}}";
}

std::string metrics_path(const std::string& folder) { return folder + "/" + kMetricsFile; }

}  // namespace

std::string runs_json(const std::vector<RunRow>& rows) {
  PageJson runs = PageJson::array();
  for (const RunRow& row : rows)
    runs.push_back({{"name", row.name},
                    {"algo", row.status.algo},
                    {"env", row.status.env_title},
                    {"state", row.status.state},
                    {"steps", row.status.steps},
                    {"total_steps", row.status.total_steps},
                    {"return_mean", row.status.return_mean},
                    {"started", row.status.started},
                    {"updated", row.status.updated},
                    {"message", row.status.message},
                    {"bound_by", row.status.bound_by},
                    {"labels", row.status.labels}});
  return PageJson{{"runs", std::move(runs)}}.dump(-1, ' ', false,
                                                  PageJson::error_handler_t::replace);
}

std::string settings_json(const std::string& yaml) {
  PageJson settings = PageJson::object();
  for (const auto& [name, value] : named_settings(yaml)) settings[name] = value;
  return PageJson{{"settings", std::move(settings)}}.dump(-1, ' ', false,
                                                          PageJson::error_handler_t::replace);
}

MetricIndex& OpenCurves::index_of(const std::string& folder) {
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const Open& open) { return open.folder == folder; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
  } else {
    open_.push_front({folder, MetricIndex(metrics_path(folder))});
  }
  open_.front().index.read(kRead_s);
  // what was asked for longest ago makes room
  size_t bytes = 0;
  for (auto open = open_.begin(); open != open_.end();) {
    bytes += open->index.memory();
    const bool stays = open == open_.begin() || bytes <= most_bytes_;
    open = stays ? std::next(open) : open_.erase(open);
  }
  return open_.front().index;
}

std::string OpenCurves::curves_json(const std::string& folder, const HttpRequest& request) {
  const size_t points = asked_points(request);
  const std::lock_guard lock(mutex_);
  return index_json(index_of(folder), points, request);
}

std::string OpenCurves::part_json(const std::string& folder, const HttpRequest& request) {
  const std::string axis(request.asked("axis"));
  if (axis != "step" && axis != "seconds") throw Error("[watch] axis is step or seconds");
  const double low = asked_number<double>(request, "low", 0);
  const double high = asked_number<double>(request, "high", 0);
  Stretch stretch;
  {
    const std::lock_guard lock(mutex_);
    stretch = index_of(folder).where(axis, low, high);
  }
  MetricIndex part(metrics_path(folder), stretch);
  part.read(kRead_s);
  return index_json(part, asked_points(request), request);
}

}  // namespace maglev::verbs::watch
