#include "base/timeline/merge.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/json_quoted.h"
#include "base/timeline/events.h"

namespace maglev {
namespace {

using MergeJson = nlohmann::ordered_json;

constexpr size_t kMostMarks = 1 << 20;
constexpr size_t kMostProcesses = 1 << 16;
constexpr size_t kDriftMarks = 8;              // fewer say an offset alone
constexpr double kMostDrift = 1e-3;            // of a machine's clock, far beyond any
constexpr double kSureDrift = 4;               // times what marks are apart
constexpr int64_t kFirstFreePid = 10'000'000;  // beyond those that systems give
constexpr int64_t kMostId = int64_t(1) << 40;
constexpr size_t kPieceBytes = 1 << 16;

// ---- what the first reading finds

struct Mark {
  std::string key;
  int64_t end_ns;
};

struct Look {
  nlohmann::json about;  // "maglev"
  int64_t base_ns = 0, first_ns = std::numeric_limits<int64_t>::max();
  std::vector<Mark> marks;

  int64_t number(const char* key) const {
    return about.is_object() && about.contains(key) && about[key].is_number_integer()
               ? about[key].get<int64_t>()
               : 0;
  }
  std::string text(const char* key) const {
    return about.is_object() && about.contains(key) && about[key].is_string()
               ? about[key].get<std::string>()
               : "";
  }
  bool has_clock() const { return base_ns != 0; }
  // by how much CLOCK_REALTIME went away from the line its beginning says, at `ns` since 1970
  double drift_at(int64_t ns) const {
    const int64_t begin = number("monotonic_begin_ns"), end = number("monotonic_end_ns");
    if (end <= begin || number("realtime_ahead_end_ns") == 0) return 0;
    const double rate =
        double(number("realtime_ahead_end_ns") - number("realtime_ahead_ns")) / double(end - begin);
    return rate * double(ns - begin - number("realtime_ahead_ns"));
  }
};

bool is_mark(const TraceEvent& event, const std::string& marks) {
  if (event.phase != 'X' || !event.timed || event.duration_ns < 0) return false;
  if (!marks.empty()) return event.name == marks;
  return event.name.find("barrier") != event.name.npos ||
         event.name.find("Barrier") != event.name.npos;
}

Look look_at(const std::string& path, const std::string& marks) {
  Look look;
  const TraceFile file = read_trace(path, [&](const TraceEvent& event) {
    if (event.timed && event.phase != 'M') look.first_ns = std::min(look.first_ns, event.start_ns);
    if (look.marks.size() < kMostMarks && is_mark(event, marks))
      look.marks.push_back({std::string(event.name) + "|" + std::string(event.step),
                            event.start_ns + event.duration_ns});
  });
  if (look.first_ns == std::numeric_limits<int64_t>::max())
    throw Error("[" + path + "] holds no event with a time; there is nothing to merge");
  look.about = nlohmann::json::parse(file.maglev, nullptr, /*throws=*/false);
  look.base_ns = file.base_ns;
  // of one name and step, or of none, marks are told apart by their number in time
  std::sort(look.marks.begin(), look.marks.end(),
            [](const Mark& a, const Mark& b) { return a.end_ns < b.end_ns; });
  std::map<std::string, size_t> counts;
  for (Mark& mark : look.marks) mark.key += "#" + std::to_string(counts[mark.key]++);
  return look;
}

// ---- clocks

// ns since the first file's base = time + at_zero + rate * (time - pivot), of a file's own times
struct Shift {
  int64_t constant = 0, pivot = 0;
  double rate = 0;

  int64_t at(int64_t ns) const {
    return ns + constant + int64_t(std::llround(rate * double(ns - pivot)));
  }
};

int64_t middle(std::vector<int64_t> values) {
  const auto place = values.begin() + int64_t(values.size() / 2);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// Marks end together: the median offset, and with enough of them a line through the medians of the
// first and the last third. A mark that one process saw late moves neither.
std::optional<Shift> shift_by_marks(const Look& of, const Look& first, MergedTrace& merged) {
  std::map<std::string, int64_t> ends;
  for (const Mark& mark : first.marks) ends.emplace(mark.key, mark.end_ns);
  std::vector<std::pair<int64_t, int64_t>> offsets;  // own time, what is added
  for (const Mark& mark : of.marks)
    if (const auto found = ends.find(mark.key); found != ends.end())
      offsets.emplace_back(mark.end_ns, found->second - mark.end_ns);
  if (offsets.empty()) return {};
  merged.marks = offsets.size();

  const auto medians = [&](size_t from, size_t to) {
    std::vector<int64_t> times, added;
    for (size_t i = from; i < to; ++i)
      times.push_back(offsets[i].first), added.push_back(offsets[i].second);
    return std::pair(middle(times), middle(added));
  };
  Shift shift;
  std::tie(shift.pivot, shift.constant) = medians(0, offsets.size());
  if (offsets.size() >= kDriftMarks) {
    const size_t third = offsets.size() / 3;
    const auto [early, added_early] = medians(0, third);
    const auto [late, added_late] = medians(offsets.size() - third, offsets.size());
    // how far marks lie from the middle of their third: a drift within it is none
    std::vector<int64_t> apart;
    for (size_t i = 0; i < third; ++i) {
      apart.push_back(std::abs(offsets[i].second - added_early));
      apart.push_back(std::abs(offsets[offsets.size() - 1 - i].second - added_late));
    }
    const double drifted = double(added_late - added_early), span = double(late - early);
    if (late > early && std::abs(drifted) > kSureDrift * double(middle(apart)) &&
        std::abs(drifted) < kMostDrift * span) {
      shift.rate = drifted / span;
      shift.pivot = early, shift.constant = added_early;
    }
  }
  std::vector<int64_t> left;
  for (const auto& [time, added] : offsets) left.push_back(std::abs(shift.at(time) - time - added));
  merged.residual_ns = middle(left);
  return shift;
}

Shift shift_of(const Look& of, const Look& first, bool marks_named, MergedTrace& merged) {
  const bool one_machine = !of.text("boot").empty() && of.text("boot") == first.text("boot");
  if (marks_named || !one_machine) {
    if (const auto shift = shift_by_marks(of, first, merged))
      return merged.clock = MergeClock::marks, *shift;
    if (marks_named)
      throw Error("[" + merged.path + "] shares no mark of that name with the first file; leave " +
                  "--marks out, or name a span that ends together in all of them");
  }
  if (!of.has_clock() || !first.has_clock()) {
    merged.clock = MergeClock::none;
    return {.constant = first.first_ns - of.first_ns};
  }
  if (one_machine) {
    // times are CLOCK_MONOTONIC and what each file found CLOCK_REALTIME to be ahead of it
    merged.clock = MergeClock::machine;
    return {.constant = of.base_ns - first.base_ns + first.number("realtime_ahead_ns") -
                        of.number("realtime_ahead_ns")};
  }
  merged.clock = MergeClock::system;
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t here = of.base_ns + of.first_ns;
  const auto drift = [&](int64_t ns) { return of.drift_at(ns) - first.drift_at(ns); };
  return {.constant = of.base_ns - first.base_ns + std::llround(drift(here)),
          .pivot = of.first_ns,
          .rate = (drift(here + kSecond) - drift(here)) / double(kSecond)};
}

// ---- processes

bool is_whole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// two windows of one process: times that do not overlap, of one run
bool is_one_process(const Look& a, const Look& b) {
  for (const char* key : {"boot", "run"})
    if (a.text(key).empty() || a.text(key) != b.text(key)) return false;
  if (a.number("pid") == 0 || a.number("pid") != b.number("pid")) return false;
  const auto begins_behind = [](const Look& later, const Look& earlier) {
    const int64_t end = earlier.number("monotonic_end_ns");
    return end > 0 && end <= later.number("monotonic_begin_ns");
  };
  return begins_behind(a, b) || begins_behind(b, a);
}

// of file `i` the first one that, like all between that are, is a window of the same process
size_t process_of(const std::vector<Look>& looks, const std::vector<MergedTrace>& merged,
                  size_t i) {
  for (size_t first = 0; first < i; ++first) {
    if (merged[first].process != first) continue;
    bool one = true;
    for (size_t other = first; one && other < i; ++other)
      one = merged[other].process != first || is_one_process(looks[other], looks[i]);
    if (one) return first;
  }
  return i;
}

// a pid of a file as it is called in the merged one: its own where no file before has it
class Pids {
 public:
  // of files that are windows of one process the first one; true: its first event of this pid
  bool find(size_t file, std::string_view pid, std::string& name) {
    const auto [place, added] = names_.try_emplace({file, std::string(pid)});
    if (added) {
      if (names_.size() > kMostProcesses)
        throw Error("[trace] more than " + std::to_string(kMostProcesses) +
                    " processes are in these files; they are no traces of processes");
      place->second = free_name(pid);
      used_.insert(place->second);
    }
    name = place->second;
    return added;
  }

 private:
  std::string free_name(std::string_view pid) {
    const std::string wanted = pid.empty() ? "0" : std::string(pid);
    if (!used_.contains(wanted)) return wanted;
    for (int64_t n = 2;; ++n) {
      const bool number = is_whole(wanted);
      const std::string name =
          number ? std::to_string(next_++) : wanted + " (" + std::to_string(n) + ")";
      if (!used_.contains(name)) return name;
    }
  }

  std::map<std::pair<size_t, std::string>, std::string> names_;
  std::set<std::string> used_;
  int64_t next_ = kFirstFreePid;
};

// ---- writing

class Writer {
 public:
  Writer(const std::function<void(std::string_view)>& out, size_t files)
      : out_(out), files_(files) {}

  void begin(int64_t base_ns) {
    text_ = "{\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":" + std::to_string(base_ns) +
            ",\"traceEvents\":[";
  }

  // `process`: the first file of those that are windows of one
  void add(const TraceEvent& event, size_t file, size_t process, const std::string& label,
           const Shift& shift) {
    const bool is_new = pids_.find(process, event.process, pid_);
    // a value that stood without quotes needs them where it has become a word
    const bool in_quotes = event.process.data() && event.process.data()[-1] == '"';
    const bool bare = is_whole(pid_) || (!in_quotes && pid_ == event.process);
    const std::string pid = bare ? pid_ : "\"" + pid_ + "\"";
    if (is_new) {
      next_event();
      text_ += "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":" +
               (in_quotes ? "\"" + pid_ + "\"" : pid) + ",\"tid\":0,\"args\":{\"labels\":" + label +
               "}}";
    }
    // the event as it stands, with other values where they are
    pieces_.clear();
    const auto put = [&](std::string_view old, std::string with) {
      if (old.data())
        pieces_.emplace_back(size_t(old.data() - event.text.data()), old.size(), with);
    };
    if (event.process.data()) put(event.process, in_quotes ? pid_ : pid);
    else pieces_.emplace_back(size_t(1), size_t(0), "\"pid\":" + pid + ",");
    if (event.timed) {
      const int64_t begin = shift.at(event.start_ns);
      put(event.start, microseconds_text(begin));
      put(event.duration, microseconds_text(shift.at(event.start_ns + event.duration_ns) - begin));
    }
    if (!event.id.empty()) put(event.id, id_of(event.id, file));
    std::sort(pieces_.begin(), pieces_.end());
    next_event();
    size_t place = 0;
    for (const auto& [from, length, with] : pieces_) {
      if (from < place) continue;  // a member named twice: the last stands
      text_ += event.text.substr(place, from - place);
      text_ += with;
      place = from + length;
    }
    text_ += event.text.substr(place);
    if (text_.size() >= kPieceBytes) give();
  }

  void end(const MergeJson& about) {
    text_ +=
        "\n],\"maglev\":" + about.dump(-1, ' ', false, MergeJson::error_handler_t::replace) + "}\n";
    give();
  }

 private:
  void next_event() { text_ += std::exchange(any_, true) ? ",\n" : "\n"; }
  void give() { out_(text_), text_.clear(); }

  // flows of two files with one number are two
  std::string id_of(std::string_view id, size_t file) const {
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(id.data(), id.data() + id.size(), number);
    if (error == std::errc() && stop == id.data() + id.size() && number >= 0)
      return std::to_string(number % kMostId * int64_t(files_) + int64_t(file));
    return std::to_string(file) + "." + std::string(id);
  }

  const std::function<void(std::string_view)>& out_;
  size_t files_;
  Pids pids_;
  std::string text_, pid_;
  std::vector<std::tuple<size_t, size_t, std::string>> pieces_;
  bool any_ = false;
};

// a value, or an object of values; null for all else, which a file may nest as deep as it likes
nlohmann::json plain(const nlohmann::json& about, const char* key) {
  if (!about.is_object() || !about.contains(key)) return {};
  const auto& said = about[key];
  if (said.is_primitive()) return said;
  if (!said.is_object()) return {};
  auto values = nlohmann::json::object();
  for (const auto& [name, value] : said.items())
    if (value.is_primitive()) values[name] = value;
  return values;
}

// of a value or an object's values those that all files which say any say alike
nlohmann::json alike(const std::vector<Look>& looks, const char* key) {
  nlohmann::json common;
  for (const Look& look : looks) {
    const auto said = plain(look.about, key);
    if (said.is_null()) continue;
    if (common.is_null()) {
      common = said;
    } else if (common.is_object() && said.is_object()) {
      for (auto value = common.begin(); value != common.end();)
        if (said.contains(value.key()) && said[value.key()] == value.value()) ++value;
        else value = common.erase(value);
    } else if (common != said) {
      return {};
    }
  }
  return common;
}

// what threads had of their machines; a number that several threads go by says nothing of any
MergeJson use_of_all(const std::vector<Look>& looks, const char* whose) {
  std::map<int64_t, nlohmann::json> of;
  std::set<int64_t> twice;
  for (const Look& look : looks) {
    if (!look.about.is_object() || !look.about.contains(whose) || !look.about[whose].is_array())
      continue;
    for (const auto& use : look.about[whose]) {
      if (!use.is_object() || !use.contains("tid") || !use["tid"].is_number_integer()) continue;
      auto numbers = nlohmann::json::object();
      for (const auto& [name, value] : use.items())
        if (value.is_number()) numbers[name] = value;
      const int64_t tid = use["tid"].get<int64_t>();
      if (!of.emplace(tid, std::move(numbers)).second) twice.insert(tid);
    }
  }
  MergeJson all = MergeJson::array();
  for (const auto& [tid, use] : of)
    if (!twice.contains(tid)) all.push_back(MergeJson(use));
  return all;
}

// the object "maglev" of all: what is alike stays, what is lost adds up
MergeJson about_all(const std::vector<Look>& looks, const std::vector<MergedTrace>& merged) {
  MergeJson about = MergeJson::object();
  for (const char* key : {"version", "algorithm", "environment", "mode", "device"}) {
    std::set<std::string> said;
    for (const Look& look : looks)
      if (const std::string text = look.text(key); !text.empty()) said.insert(text);
    if (!said.empty()) about[key] = said.size() == 1 ? *said.begin() : "several";
  }
  about["run"] = std::to_string(merged.size()) + " merged traces";
  int64_t dropped = 0;
  double overhead = 0, counting = 0;
  for (const Look& look : looks) {
    dropped += look.number("dropped");
    if (!look.about.is_object()) continue;
    for (auto& [key, most] : {std::pair<const char*, double&>{"overhead_s", overhead},
                              std::pair<const char*, double&>{"counting_cost_ns", counting}})
      if (look.about.contains(key) && look.about[key].is_number())
        most = std::max(most, look.about[key].get<double>());
    for (const char* key : {"threads", "peaks"})
      if (auto said = plain(look.about, key); !said.is_null() && !about.contains(key))
        about[key] = std::move(said);
  }
  about["dropped"] = dropped, about["overhead_s"] = overhead;
  if (counting > 0) about["counting_cost_ns"] = counting;
  for (const char* key : {"processors", "iteration_steps", "block_environments", "settings"})
    if (auto common = alike(looks, key); !common.is_null()) about[key] = std::move(common);
  for (const char* whose : {"use", "programs"})
    if (MergeJson use = use_of_all(looks, whose); !use.empty()) about[whose] = std::move(use);
  about["merged"] = MergeJson::array();
  for (const MergedTrace& one : merged)
    about["merged"].push_back({{"file", one.path},
                               {"run", one.run},
                               {"process", one.process},
                               {"clock", names_of(one.clock)[size_t(one.clock)]},
                               {"shift_ns", one.shift_ns},
                               {"drift_ppm", one.drift_ppm},
                               {"marks", one.marks},
                               {"residual_ns", one.residual_ns},
                               {"torn", one.torn}});
  return about;
}

}  // namespace

std::vector<MergedTrace> merge_traces(const std::vector<std::string>& paths,
                                      const std::string& marks,
                                      const std::function<void(std::string_view)>& out) {
  // clocks
  std::vector<Look> looks;
  for (const std::string& path : paths) looks.push_back(look_at(path, marks));
  std::vector<MergedTrace> merged(paths.size());
  std::vector<Shift> shifts(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    merged[i].path = paths[i], merged[i].run = looks[i].text("run");
    merged[i].process = process_of(looks, merged, i);
    if (i == 0) continue;
    shifts[i] = shift_of(looks[i], looks[0], !marks.empty(), merged[i]);
    merged[i].shift_ns = shifts[i].at(looks[i].first_ns) - looks[i].first_ns;
    merged[i].drift_ppm = 1e6 * shifts[i].rate;
  }
  // events
  Writer writer(out, paths.size());
  writer.begin(looks[0].base_ns);
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string label = json_quoted(merged[i].run.empty() ? paths[i] : merged[i].run);
    const TraceFile file = read_trace(paths[i], [&](const TraceEvent& event) {
      if (event.phase != 0) writer.add(event, i, merged[i].process, label, shifts[i]);
    });
    merged[i].events = file.events, merged[i].torn = file.torn;
  }
  writer.end(about_all(looks, merged));
  return merged;
}

}  // namespace maglev
