#pragma once
// Traces written by tests: Chrome's JSON with times in whole microseconds.

#include <cstdint>
#include <string>

namespace maglev {

class TraceText {
 public:
  /// A complete event; `args` are the members of its args, empty for none.
  TraceText& span(const std::string& category, const std::string& name, int pid, int tid,
                  int64_t begin_us, int64_t length_us, const std::string& args = "") {
    return event("\"ph\":\"X\",\"cat\":\"" + category + "\",\"name\":\"" + name + "\"," +
                 at(pid, tid, begin_us) + ",\"dur\":" + std::to_string(length_us) +
                 (args.empty() ? "" : ",\"args\":{" + args + "}"));
  }
  TraceText& event(const std::string& members) {
    events_ += (events_.empty() ? "{" : ",\n{") + members + "}";
    return *this;
  }
  static std::string at(int pid, int tid, int64_t us) {
    return "\"pid\":" + std::to_string(pid) + ",\"tid\":" + std::to_string(tid) +
           ",\"ts\":" + std::to_string(us);
  }
  /// `beside`: members beside the events, each followed by a comma.
  std::string text(const std::string& beside = "") const {
    return "{" + beside + "\"traceEvents\":[" + events_ + "]}";
  }
  std::string array() const { return "[" + events_ + "]"; }

 private:
  std::string events_;
};

}  // namespace maglev
