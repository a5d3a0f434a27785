#include "base/core/file_fault.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unistd.h>
#include <vector>

#include "base/core/error.h"

namespace maglev {
namespace {

struct Named {
  const char* name;
  int value;
};
constexpr Named kOps[] = {{"open", int(FileOp::open)},
                          {"read", int(FileOp::read)},
                          {"write", int(FileOp::write)},
                          {"sync", int(FileOp::sync)},
                          {"rename", int(FileOp::rename)},
                          {"unlink", int(FileOp::unlink)},
                          {"any", -1}};
constexpr Named kActions[] = {{"ENOSPC", ENOSPC},  {"EDQUOT", EDQUOT}, {"EIO", EIO},
                              {"EROFS", EROFS},    {"EACCES", EACCES}, {"EINTR", EINTR},
                              {"EMFILE", EMFILE},  {"EFBIG", EFBIG},   {"SHORT", kFaultShort},
                              {"EXIT", kFaultExit}};

template <size_t n>
int value_of(const Named (&known)[n], std::string_view name, std::string_view kind) {
  std::vector<std::string> names;
  for (const Named& k : known) {
    if (name == k.name) return k.value;
    names.emplace_back(k.name);
  }
  throw Error("[MAGLEV_FAULT] " + unknown_name(kind, name, names));
}

struct FaultRule {
  int op;
  int action;
  int64_t at;
  bool and_later;
  int64_t seen = 0;
};

FaultRule parse_rule(std::string_view text) {
  auto reject = [&] {
    throw Error("[MAGLEV_FAULT] expected operation:error:number, e.g. write:ENOSPC:7, got '" +
                std::string(text) + "'");
  };
  // operation:error:number, and a + behind it for all later ones too
  size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) reject();
  FaultRule rule{};
  rule.op = value_of(kOps, text.substr(0, first), "operation");
  rule.action = value_of(kActions, text.substr(first + 1, second - first - 1), "error");
  std::string_view number = text.substr(second + 1);
  rule.and_later = number.ends_with('+');
  if (rule.and_later) number.remove_suffix(1);
  // a whole number from 1 on, with nothing behind it
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rule.at);
  if (error != std::errc() || end != number.data() + number.size() || rule.at < 1) reject();
  return rule;
}

struct Installed {
  std::mutex mutex;
  FileFault fault;
  std::atomic<bool> armed{false};

  Installed() {
    // from the environment, at the first operation
    if (const char* text = std::getenv("MAGLEV_FAULT"); text && *text) {
      fault = parse_file_fault(text);
      armed = true;
    }
  }
};

Installed& installed() {
  static Installed instance;
  return instance;
}

}  // namespace

void set_file_fault(FileFault fault) {
  Installed& now = installed();
  std::lock_guard lock(now.mutex);
  now.armed = bool(fault);
  now.fault = std::move(fault);
}

FileFault parse_file_fault(std::string_view text) {
  auto rules = std::make_shared<std::vector<FaultRule>>();
  // rules stand between commas
  while (!text.empty()) {
    size_t comma = text.find(',');
    rules->push_back(parse_rule(text.substr(0, comma)));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return [rules](FileOp op, const std::string&) {
    // every rule counts for itself; the first that is due answers
    int answer = kFaultNone;
    for (FaultRule& rule : *rules) {
      if (rule.op != -1 && rule.op != int(op)) continue;
      ++rule.seen;
      bool due = rule.seen == rule.at || (rule.and_later && rule.seen > rule.at);
      if (due && answer == kFaultNone) answer = rule.action;
    }
    return answer;
  };
}

int file_fault(FileOp op, const std::string& path) {
  Installed& now = installed();
  // without a fault an operation costs one load
  if (!now.armed.load(std::memory_order_relaxed)) return kFaultNone;
  std::lock_guard lock(now.mutex);
  int answer = now.fault ? now.fault(op, path) : kFaultNone;
  // a write carries its fault out itself, for half of its bytes come first
  if (op == FileOp::write) return answer;
  if (answer == kFaultExit) ::_exit(137);
  return answer == kFaultShort ? kFaultNone : answer;
}

}  // namespace maglev
