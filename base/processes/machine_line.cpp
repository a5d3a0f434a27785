#include "base/processes/machine_line.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include <sys/socket.h>

#include "base/core/clock.h"
#include "base/processes/machines_meet.h"

namespace maglev {
namespace {

constexpr size_t kPiece = 256 << 10;   // bytes that a sum goes on by
constexpr int kLooks = 200;            // at sockets before this thread sleeps
constexpr int kAsleepMs = 100;         // between looks at what else may have happened
constexpr double kLateNeighbour = 60;  // seconds after which the first names who it waits for
constexpr double kReason = 20;         // seconds in which one that failed says why

std::byte* bytes_of(uint64_t& number) { return reinterpret_cast<std::byte*>(&number); }

// a call's number goes before what is sent; what comes begins with the neighbour's
[[noreturn]] void out_of_step(const std::string& name) {
  throw MachineLine::Gone("[machines] " + name +
                          " is at something else than this one; a fault of this program, please "
                          "report it");
}

// news are texts behind their length; an empty one says that all has ended well
void send_news(int fd, const std::string& text) {
  const auto count = uint32_t(text.size());
  std::string message(reinterpret_cast<const char*>(&count), sizeof count);
  message += text;
  // a few hundred bytes, which a connection that carried nothing before takes at once
  if (fd >= 0) (void)!::send(fd, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

// Bytes that go to a neighbour or come from it, in order.
struct MachineLine::Stream {
  Side* side;
  bool out;
  std::vector<Bytes> parts;
  size_t ready = 0;  ///< may be sent, or are expected
  size_t done = 0;
  size_t part = 0, within = 0;  ///< where it is

  static Stream to(Side& side, std::vector<Bytes> parts) { return {&side, true, std::move(parts)}; }
  static Stream from(Side& side, std::vector<Bytes> parts) {
    Stream stream{&side, false, std::move(parts)};
    stream.ready = stream.total();
    return stream;
  }
  size_t total() const {
    size_t count = 0;
    for (const Bytes& one : parts) count += one.count;
    return count;
  }
  bool waits() const { return done < ready; }

  /// As far as it goes without waiting. -1: the other end is gone; else whether anything moved.
  int advance() {
    bool moved = false;
    while (waits()) {
      if (within == parts[part].count) {
        ++part, within = 0;
        continue;
      }
      std::byte* data = parts[part].data + within;
      const size_t count = std::min(parts[part].count - within, ready - done);
      const ssize_t n = out ? ::send(side->data, data, count, MSG_DONTWAIT | MSG_NOSIGNAL)
                            : ::recv(side->data, data, count, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return moved;
      if (n <= 0) return -1;
      within += size_t(n), done += size_t(n), moved = true;
    }
    return moved;
  }
};

std::unique_ptr<MachineLine> MachineLine::lead(const std::string& address, const Run& run,
                                               const std::function<void(const std::string&)>& say) {
  return std::unique_ptr<MachineLine>(new MachineLine(wait_for_machines(address, run, say)));
}

std::unique_ptr<MachineLine> MachineLine::join(const std::string& address, const std::string& build,
                                               double patience_s,
                                               const std::function<void(const std::string&)>& say) {
  return std::unique_ptr<MachineLine>(
      new MachineLine(come_to_machines(address, build, patience_s, say)));
}

MachineLine::MachineLine(Met met) : run_(std::move(met.run)), machine_(met.machine) {
  const auto take = [](Side& side, Neighbour& from, int machine) {
    side.data = from.data.release();
    side.news = from.news.release();
    // people count from 1
    side.name = "machine " + std::to_string(machine + 1) + " of the run, " + from.name;
  };
  if (!first()) take(before_, met.before, machine_ - 1);
  if (!last()) take(behind_, met.behind, machine_ + 1);
}

MachineLine::~MachineLine() {
  for (const Side* side : {&before_, &behind_})
    for (const int fd : {side->data, side->news})
      if (fd >= 0) ::close(fd);
}

void MachineLine::advance_all(std::vector<Stream>& streams, const std::function<bool()>& step) {
  const double begin = steady_s();
  for (int looks = 0;;) {
    bool moved = step && step(), all = true;
    for (Stream& stream : streams) {
      const int outcome = stream.advance();
      if (outcome < 0) throw_gone(*stream.side);
      moved |= outcome > 0;
      all &= stream.done == stream.total();
    }
    if (all) return;
    if (moved) looks = 0;
    else if (++looks > kLooks) wait_for(streams, begin);
  }
}

void MachineLine::wait_for(const std::vector<Stream>& streams, double since_s) {
  std::vector<pollfd> waits;
  const Side* late = nullptr;
  for (const Stream& stream : streams)
    if (stream.waits()) {
      waits.push_back({stream.side->data, short(stream.out ? POLLOUT : POLLIN), 0});
      late = stream.side;
    }
  if (::poll(waits.data(), waits.size(), kAsleepMs) > 0) return;
  if (look_) look_();
  if (std::string why = lost(); !why.empty()) throw Gone(std::move(why));
  if (!first() || named_ || !late || steady_s() - since_s < kLateNeighbour) return;
  named_ = true;
  std::fprintf(stderr, "maglev: the run has waited %.0f s for %s, or for one behind it\n",
               kLateNeighbour, late->name.c_str());
}

void MachineLine::throw_gone(Side& side) {
  // what it says comes by the other connection
  std::string why;
  for (const double until = steady_s() + kReason; why.empty() && steady_s() < until;) {
    why = lost();
    if (why.empty()) usleep(1000);
  }
  throw Gone(why.empty() ? "[machines] " + side.name + " has ended the connection" : why);
}

void MachineLine::exchange(uint64_t call, const std::vector<std::vector<Bytes>>& blocks) {
  // each machine sends on what it gets, behind its own: the nearest first
  uint64_t from_before = call, from_behind = call;
  std::vector<Bytes> before, behind;
  for (int m = machine_ - 1; m >= 0; --m)
    before.insert(before.end(), blocks[size_t(m)].begin(), blocks[size_t(m)].end());
  for (int m = machine_ + 1; m < run_.machines; ++m)
    behind.insert(behind.end(), blocks[size_t(m)].begin(), blocks[size_t(m)].end());
  const auto with_own = [&](const std::vector<Bytes>& others) {
    std::vector<Bytes> parts{{bytes_of(call), sizeof call}};
    parts.insert(parts.end(), blocks[size_t(machine_)].begin(), blocks[size_t(machine_)].end());
    parts.insert(parts.end(), others.begin(), others.end());
    return parts;
  };
  const auto with_word = [](uint64_t& word, std::vector<Bytes> parts) {
    parts.insert(parts.begin(), {bytes_of(word), sizeof word});
    return parts;
  };
  size_t own = sizeof call;
  for (const Bytes& part : blocks[size_t(machine_)]) own += part.count;

  std::vector<Stream> streams;
  streams.reserve(4);
  Stream *in_before = nullptr, *in_behind = nullptr, *to_behind = nullptr, *to_before = nullptr;
  const auto add = [&](Stream stream) { return &streams.emplace_back(std::move(stream)); };
  if (!first()) {
    in_before = add(Stream::from(before_, with_word(from_before, before)));
    to_before = add(Stream::to(before_, with_own(behind)));
    to_before->ready = own;
  }
  if (!last()) {
    in_behind = add(Stream::from(behind_, with_word(from_behind, behind)));
    to_behind = add(Stream::to(behind_, with_own(before)));
    to_behind->ready = own;
  }
  advance_all(streams, [&] {
    const auto arrived = [](const Stream* in) {
      return in && in->done > sizeof(uint64_t) ? in->done - sizeof(uint64_t) : 0;
    };
    if (to_behind) to_behind->ready = own + arrived(in_before);
    if (to_before) to_before->ready = own + arrived(in_behind);
    return false;
  });
  if (from_before != call) out_of_step(before_.name);
  if (from_behind != call) out_of_step(behind_.name);
}

void MachineLine::add_up(uint64_t call, const Sum& sum) {
  const size_t wide = sum.wide, narrow = sum.narrow, step = kPiece / wide;
  const Bytes partial{sum.partial, sum.count * wide}, total{sum.total, sum.count * narrow};
  uint64_t heard = call;
  std::vector<Stream> streams;
  streams.reserve(4);
  const auto add = [&](Stream stream) { return &streams.emplace_back(std::move(stream)); };
  Stream *up_in = nullptr, *up_out = nullptr, *down_in = nullptr, *down_out = nullptr;
  const Bytes own_word{bytes_of(call), sizeof call}, word{bytes_of(heard), sizeof heard};
  if (!first()) {
    up_in = add(Stream::from(before_, {word, partial}));
    down_out = add(Stream::to(before_, {total}));
  }
  if (!last()) {
    up_out = add(Stream::to(behind_, {own_word, partial}));
    up_out->ready = sizeof call;
    down_in = add(Stream::from(behind_, {total}));
  }
  size_t added = 0;  // values that this machine's are part of
  advance_all(streams, [&] {
    if (up_in && up_in->done >= sizeof call && heard != call) out_of_step(before_.name);
    if (down_out && down_in) down_out->ready = down_in->done;
    const size_t n = std::min(step, sum.count - added);
    // not far ahead of what is sent, so that it is still in the cache
    const bool here = up_in ? up_in->done >= sizeof call + (added + n) * wide
                            : !up_out || up_out->ready - up_out->done <= kPiece;
    if (n == 0 || !here) return false;
    sum.add(added, n);
    added += n;
    if (up_out) up_out->ready = sizeof call + added * wide;
    else down_out->ready = added * narrow;
    return true;
  });
}

void MachineLine::tell(uint64_t call, const std::string& text) {
  uint64_t count = text.size();
  std::vector<Stream> streams;
  streams.push_back(Stream::to(
      behind_, {{bytes_of(call), sizeof call},
                {bytes_of(count), sizeof count},
                {reinterpret_cast<std::byte*>(const_cast<char*>(text.data())), text.size()}}));
  streams[0].ready = streams[0].total();
  advance_all(streams, nullptr);
}

std::string MachineLine::hear(uint64_t call) {
  uint64_t heard = 0, count = 0;
  std::vector<Stream> streams;
  streams.push_back(
      Stream::from(before_, {{bytes_of(heard), sizeof heard}, {bytes_of(count), sizeof count}}));
  advance_all(streams, nullptr);
  if (heard != call) out_of_step(before_.name);
  std::string text(count, '\0');
  streams[0] = Stream::from(before_, {{reinterpret_cast<std::byte*>(text.data()), text.size()}});
  advance_all(streams, nullptr);
  if (!last()) tell(call, text);
  return text;
}

void MachineLine::fail(const std::string& what) noexcept {
  if (told_failure_.exchange(true)) return;
  constexpr size_t kMostText = 2000;
  try {
    for (const Side* side : {&before_, &behind_}) send_news(side->news, what.substr(0, kMostText));
  } catch (const std::exception&) {
    // without memory: the connection's end has to say it
  }
}

void MachineLine::hear_news(Side& side) {
  if (side.news < 0 || side.ended || !side.failed.empty()) return;
  for (;;) {
    std::array<char, 4096> bytes;
    const ssize_t n = ::recv(side.news, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) {
      side.failed = "[machines] " + side.name +
                    " is gone: it was ended there, or its network was; resume the run from its "
                    "newest checkpoint";
      return;
    }
    side.heard.append(bytes.data(), size_t(n));
    uint32_t count = 0;
    if (side.heard.size() < sizeof count) continue;
    std::memcpy(&count, side.heard.data(), sizeof count);
    if (side.heard.size() < sizeof count + count) continue;
    side.ended = count == 0;
    side.failed = side.heard.substr(sizeof count, count);
    return;
  }
}

std::string MachineLine::lost() {
  const std::lock_guard lock(news_);
  for (Side* side : {&before_, &behind_}) hear_news(*side);
  return before_.failed.empty() ? behind_.failed : before_.failed;
}

void MachineLine::end(double seconds) {
  // the one before may have seen its end and left
  const auto ended = [&] {
    const std::lock_guard lock(news_);
    if (last()) return true;
    hear_news(behind_);
    if (!behind_.failed.empty()) throw Gone(behind_.failed);
    return behind_.ended;
  };
  for (const double until = steady_s() + seconds; !ended();) {
    if (steady_s() > until) throw Gone("[machines] " + behind_.name + " did not end");
    usleep(1000);
  }
  if (!first()) send_news(before_.news, "");
}

}  // namespace maglev
