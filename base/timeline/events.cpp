#include "base/timeline/events.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>
#include <zlib.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/timeline/nsight.h"

namespace maglev {
namespace {

constexpr size_t kFirstWindow = 1 << 18, kMostWindow = 16 << 20;
constexpr size_t kMostKept = 1 << 16;       // bytes of an object that is kept beside the events
constexpr double kMostMicroseconds = 2e15;  // 63 years, in ns far enough from the ends of i64

// What scanning a value comes to. Windows end in a NUL, which is no JSON outside of a string: where
// a scan stops at the end of the window, more bytes are needed; anywhere else the file is broken.
enum class Scan { done, more, broken };

// the bytes of a file that are looked at, a moving piece
class TraceBytes {
 public:
  explicit TraceBytes(const std::string& path) : path_(path), window_(kFirstWindow + 1) {
    if (file_bytes(path) == 0)
      throw Error("[" + path + "] the file is empty; a trace was expected, in Chrome's JSON");
    if (is_sqlite(path)) {
      nsight_ = std::make_unique<NsightText>(path);
      fill();
      return;
    }
    file_ = gzopen(path.c_str(), "rb");
    if (!file_) throw Error("[" + path + "] cannot be opened: " + std::strerror(errno));
    gzbuffer(file_, 1 << 18);
    fill();
  }
  ~TraceBytes() {
    if (file_) gzclose(file_);
  }
  TraceBytes(const TraceBytes&) = delete;
  TraceBytes& operator=(const TraceBytes&) = delete;

  const char* at() const { return window_.data() + begin_; }
  const char* end() const { return window_.data() + end_; }
  void move_to(const char* place) { begin_ = size_t(place - window_.data()); }
  uint64_t bytes() const { return bytes_; }

  // more bytes behind what is not used up; false: there are none, or the window would grow too far
  bool fill() {
    std::memmove(window_.data(), window_.data() + begin_, end_ - begin_);
    end_ -= begin_, begin_ = 0;
    if (end_ + 1 >= window_.size()) {
      if (window_.size() > kMostWindow) return false;
      window_.resize(2 * window_.size() - 1);
    }
    const size_t room = window_.size() - 1 - end_;
    const int got = nsight_ ? int(nsight_->read(window_.data() + end_, room))
                            : gzread(file_, window_.data() + end_, unsigned(room));
    // a compressed file that was cut off gives what it has, then this
    if (got > 0) end_ += size_t(got), bytes_ += uint64_t(got);
    window_[end_] = '\0';
    return got > 0;
  }

 private:
  std::string path_;
  std::vector<char> window_;
  gzFile file_ = nullptr;
  std::unique_ptr<NsightText> nsight_;  ///< in place of the file
  size_t begin_ = 0, end_ = 0;
  uint64_t bytes_ = 0;
};

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

void skip_blanks(const char*& c) {
  while (is_blank(*c)) ++c;
}

// behind the closing quote of a string whose first character is at c; null: it does not end here
const char* string_end(const char* c, const char* end) {
  const char* const first = c;
  for (;;) {
    const char* quote = static_cast<const char*>(std::memchr(c, '"', size_t(end - c)));
    if (!quote) return nullptr;
    const char* slash = quote;
    while (slash > first && slash[-1] == '\\') --slash;
    if ((quote - slash) % 2 == 0) return quote + 1;
    c = quote + 1;
  }
}

// One value of any kind, brackets counted. What lies inside need not be right in every comma: it is
// only passed by.
Scan skip_value(const char*& c, const char* end) {
  skip_blanks(c);
  size_t depth = 0;
  for (;; ++c) {
    switch (*c) {
      case '"': {
        const char* stop = string_end(c + 1, end);
        if (!stop) return Scan::more;
        c = stop - 1;
        if (depth == 0) return ++c, Scan::done;
        break;
      }
      case '{':
      case '[':
        ++depth;
        break;
      case '}':
      case ']':
        if (depth == 0) return Scan::broken;
        if (--depth == 0) return ++c, Scan::done;
        break;
      case '\0':
        return c == end ? Scan::more : Scan::broken;
      case ',':
      case ':':
        if (depth == 0) return Scan::broken;
        break;
      default:
        if (depth > 0) break;
        // a number or a word stands alone
        while (*c && !is_blank(*c) && *c != ',' && *c != '}' && *c != ']' && *c != ':') ++c;
        return c == end ? Scan::more : Scan::done;
    }
  }
}

// a string or a bare value as text, without quotes
Scan read_text(const char*& c, const char* end, std::string_view& text) {
  skip_blanks(c);
  const char* first = c;
  const Scan scan = skip_value(c, end);
  if (scan != Scan::done) return scan;
  text = *first == '"' ? std::string_view(first + 1, size_t(c - first - 2))
                       : std::string_view(first, size_t(c - first));
  return Scan::done;
}

bool number_of(std::string_view text, double& value) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && std::isfinite(value) && stop == text.data() + text.size();
}

// microseconds to nanoseconds: digits and up to three decimals by whole numbers, others as a double
bool time_of(std::string_view text, int64_t& ns) {
  const char *c = text.data(), *end = c + text.size();
  const bool minus = c < end && *c == '-';
  if (minus) ++c;
  const char* digits = c;
  int64_t value = 0;
  while (c < end && *c >= '0' && *c <= '9' && c - digits < 16) value = 10 * value + (*c++ - '0');
  if (c > digits && value <= int64_t(kMostMicroseconds)) {
    int64_t unit = 1000;
    value *= 1000;
    if (c < end && *c == '.')
      for (++c; c < end && *c >= '0' && *c <= '9'; ++c) value += (*c - '0') * (unit /= 10);
    if (c == end) return ns = minus ? -value : value, true;
  }
  double us = 0;
  if (!number_of(text, us) || std::abs(us) > kMostMicroseconds) return false;
  return ns = int64_t(std::llround(us * 1000)), true;
}

// the members of an object at c, one after another: `take(key, c)` scans the value
template <class Take>
Scan read_object(const char*& c, const char* end, const Take& take) {
  ++c;
  skip_blanks(c);
  if (*c == '}') return ++c, Scan::done;
  for (;;) {
    skip_blanks(c);
    if (*c != '"') return c == end ? Scan::more : Scan::broken;
    const char *key = ++c, *close = string_end(c, end);
    if (!close) return Scan::more;
    c = close;
    skip_blanks(c);
    if (*c != ':') return c == end ? Scan::more : Scan::broken;
    ++c;
    if (const Scan scan = take(std::string_view(key, size_t(close - 1 - key)), c);
        scan != Scan::done)
      return scan;
    skip_blanks(c);
    if (*c == '}') return ++c, Scan::done;
    // PyTorch's profiler leaves out a comma between what users add and what follows
    if (*c == ',') ++c;
    else if (*c != '"') return c == end ? Scan::more : Scan::broken;
  }
}

// one of the counters, or anything else
Scan read_count(std::string_view key, const char*& c, const char* end, TraceEvent& event) {
  const auto counter = std::find(trace::kCounters.begin(), trace::kCounters.end(), key);
  if (counter == trace::kCounters.end()) return skip_value(c, end);
  std::string_view text;
  double value = 0;
  const Scan scan = read_text(c, end, text);
  if (scan != Scan::done || !number_of(text, value) || value < 0 || value > 1e18) return scan;
  if (!event.counted) event.counts.fill(-1);
  event.counted = true;
  event.counts[size_t(counter - trace::kCounters.begin())] = float(value);
  return scan;
}

Scan read_args(const char*& c, const char* end, TraceEvent& event) {
  skip_blanks(c);
  if (*c != '{') return skip_value(c, end);
  return read_object(c, end, [&](std::string_view key, const char*& v) {
    std::string_view text;
    const auto number = [&](double& to) {
      const Scan scan = read_text(v, end, text);
      double value = 0;
      if (scan == Scan::done && number_of(text, value) && value >= 0) to = value;
      return scan;
    };
    switch (key.size()) {
      case 2:
        if (key == "on") return read_text(v, end, event.on);
        break;
      case 4:
        if (key == "name") return read_text(v, end, event.arg_name);
        if (key == "step") return read_text(v, end, event.step);
        break;
      case 6:
      case 12:
      case 13:
      case 16:
        return read_count(key, v, end, event);
      case 5:
        if (key == "bytes") return number(event.bytes);
        if (key == "flops") return number(event.flops);
        if (key == "Bytes") {
          const Scan scan = read_text(v, end, text);
          double value = 0;
          if (scan == Scan::done && number_of(text, value)) event.taken = value;
          return scan;
        }
        break;
      case 8:
        if (key == "pageable") {
          const Scan scan = read_text(v, end, text);
          event.pageable = text == "true" || text == "1";
          return scan;
        }
        break;
      case 9:
        if (key == "direction") return read_text(v, end, event.direction);
        break;
      case 11:
        if (key == "page_faults") return read_count(key, v, end, event);
        if (key == "Device Type") {
          // c10::DeviceType: the processor is 0
          const Scan scan = read_text(v, end, text);
          event.of_device = text != "0";
          return scan;
        }
        if (key == "correlation") {
          const Scan scan = read_text(v, end, text);
          if (scan == Scan::done)
            std::from_chars(text.data(), text.data() + text.size(), event.correlation);
          return scan;
        }
        break;
    }
    return skip_value(v, end);
  });
}

// An event at c, which is its brace. `broken` where it is JSON but a time is none: the event is
// then passed by whole.
Scan read_event(const char*& c, const char* end, TraceEvent& event, bool& sound) {
  event = {};
  sound = true;
  std::string_view text;
  return read_object(c, end, [&](std::string_view key, const char*& v) {
    switch (key.size()) {
      case 2:
        if (key == "ph") {
          const Scan scan = read_text(v, end, text);
          if (scan == Scan::done && text.size() == 1) event.phase = text[0];
          return scan;
        }
        if (key == "ts") {
          const Scan scan = read_text(v, end, text);
          if (scan == Scan::done)
            sound &= event.timed = time_of(text, event.start_ns), event.start = text;
          return scan;
        }
        if (key == "id") return read_text(v, end, event.id);
        break;
      case 3:
        if (key == "dur") {
          const Scan scan = read_text(v, end, text);
          if (scan == Scan::done) sound &= time_of(text, event.duration_ns), event.duration = text;
          return scan;
        }
        if (key == "cat") return read_text(v, end, event.category);
        if (key == "pid") return read_text(v, end, event.process);
        if (key == "tid") return read_text(v, end, event.thread);
        break;
      case 4:
        if (key == "name") return read_text(v, end, event.name);
        if (key == "args") return read_args(v, end, event);
        break;
    }
    return skip_value(v, end);
  });
}

class TraceParser {
 public:
  TraceParser(const std::string& path, const std::function<void(const TraceEvent&)>& take)
      : path_(path), take_(take), bytes_(path) {}

  TraceFile read() {
    const char first = next();
    bool is_trace = true;
    if (first == '[') elements();
    else if (first == '{') is_trace = members();
    else is_trace = false;
    if (!is_trace || (first == '[' && file_.events == 0))
      throw Error("[" + path_ + "] is no trace: Chrome's JSON was expected, an object with " +
                  "\"traceEvents\" or an array of events; " + where_one_is());
    file_.bytes = bytes_.bytes();
    return file_;
  }

 private:
  // what to do with a path that is none: a run writes its windows in two formats
  std::string where_one_is() const {
    constexpr std::string_view kOther = ".perfetto";
    if (path_.ends_with(kOther))
      if (const std::string beside = path_.substr(0, path_.size() - kOther.size()) + ".json.gz";
          path_exists(beside))
        return "give " + beside + ", which holds the same spans";
    return "record one with `trace.window=50-55` or torch.profiler's export_chrome_trace";
  }

  // the next character that is no blank; NUL: the end
  char next() {
    for (;;) {
      const char* c = bytes_.at();
      skip_blanks(c);
      bytes_.move_to(c);
      if (c != bytes_.end() || !bytes_.fill()) return *bytes_.at();
    }
  }
  void step() { bytes_.move_to(bytes_.at() + 1); }

  // scans with as large a window as it takes; false: the file ends first, or is broken there
  template <class Scanner>
  bool scan(const Scanner& scanner) {
    for (;;) {
      const char* c = bytes_.at();
      const Scan result = scanner(c);
      if (result == Scan::done) return bytes_.move_to(c), true;
      if (result == Scan::broken) return false;
      if (!bytes_.fill()) return false;
    }
  }

  // the array of events, whose bracket is next
  void elements() {
    step();
    TraceEvent event;
    for (;;) {
      const char c = next();
      if (c == ']') return step();
      if (c == ',') {
        step();
        continue;
      }
      if (c == '\0') return tear();
      bool sound = false;
      const bool read = c == '{' && scan([&](const char*& v) {
                          const char* const brace = v;
                          const Scan result = read_event(v, bytes_.end(), event, sound);
                          event.text = {brace, size_t(v - brace)};
                          return result;
                        });
      if (read && sound) {
        ++file_.events;
        take_(event);
        continue;
      }
      ++file_.broken;
      file_.unsound += read && (event.phase == 'X' || event.phase == 'B' || event.phase == 'E');
      // what is no event is passed by where its end is found
      if (!read && !scan([&](const char*& v) { return skip_value(v, bytes_.end()); }))
        return tear();
    }
  }
  void tear() { file_.torn = true; }

  // the object around the events, whose brace is next; false where it has none
  bool members() {
    step();
    bool found = false;
    for (;;) {
      const char c = next();
      if (c == ',') {
        step();
        continue;
      }
      if (c == '}') return found;
      std::string key;
      if (c != '"' || !scan([&](const char*& v) {
            std::string_view text;
            const Scan result = read_text(v, bytes_.end(), text);
            if (result == Scan::done) key = std::string(text.substr(0, 64));
            return result;
          }))
        return file_.torn = true, found;
      if (next() != ':') return file_.torn = true, found;
      step();
      if (key == "traceEvents" && next() == '[') {
        found = true;
        elements();
        if (file_.torn) return true;
      } else if (!member(key)) {
        return file_.torn = true, found;
      }
    }
  }

  // a value beside the events: kept where it is wanted and small
  bool member(const std::string& key) {
    next();
    return scan([&](const char*& v) {
      const char* first = v;
      const Scan result = skip_value(v, bytes_.end());
      if (result != Scan::done || size_t(v - first) > kMostKept) return result;
      if (key == "maglev") file_.maglev.assign(first, v);
      if (key == "baseTimeNanoseconds") std::from_chars(first, v, file_.base_ns);
      return result;
    });
  }

  std::string path_;
  const std::function<void(const TraceEvent&)>& take_;
  TraceBytes bytes_;
  TraceFile file_;
};

}  // namespace

TraceFile read_trace(const std::string& path, const std::function<void(const TraceEvent&)>& take) {
  return TraceParser(path, take).read();
}

std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const char c = text[++i];
    unsigned code = 0;
    if (c == 'n' || c == 't' || c == 'r' || c == 'b' || c == 'f') {
      plain += ' ';
    } else if (c == 'u' && i + 4 < text.size() &&
               std::from_chars(text.data() + i + 1, text.data() + i + 5, code, 16).ptr ==
                   text.data() + i + 5) {
      // one of the first plane as UTF-8; halves of a pair as they are shown elsewhere, as '?'
      i += 4;
      if (code < 0x80) plain += char(code);
      else if (code < 0x800) plain += {char(0xc0 | code >> 6), char(0x80 | (code & 0x3f))};
      else if (code >= 0xd800 && code < 0xe000) plain += '?';
      else
        plain +=
            {char(0xe0 | code >> 12), char(0x80 | (code >> 6 & 0x3f)), char(0x80 | (code & 0x3f))};
    } else {
      plain += c;
    }
  }
  return without_controls(plain);
}

std::string without_controls(std::string text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size(); ++i) {
    if (byte(i) < 0x20 || byte(i) == 0x7f) text[i] = ' ';
    if (byte(i) == 0xc2 && i + 1 < text.size() && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0)
      text.replace(i, 2, " ");
  }
  return text;
}

std::string microseconds_text(int64_t ns) {
  const int64_t size = std::abs(ns);
  return printed("%s%lld.%03lld", ns < 0 ? "-" : "", (long long)(size / 1000),
                 (long long)(size % 1000));
}

}  // namespace maglev
