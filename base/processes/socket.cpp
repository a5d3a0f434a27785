#include "base/processes/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/core/clock.h"

namespace maglev {
namespace {

constexpr size_t kLongestLine = 2048;
constexpr int kWaiting = 64;          // connections that are not accepted yet
constexpr size_t kMostCallers = 256;  // that have said nothing yet

using Found = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// none: whoever knows names is not reached now
std::optional<Found> known_addresses(const Address& address, int flags) {
  addrinfo wanted{};
  wanted.ai_flags = flags | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const char* host = address.host.empty() ? nullptr : address.host.c_str();
  const int error = ::getaddrinfo(host, address.port.c_str(), &wanted, &found);
  if (error == EAI_AGAIN) return std::nullopt;
  if (error) throw Error("[machines] " + address.text() + " is no address: " + gai_strerror(error));
  return Found(found, ::freeaddrinfo);
}

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// one that is gone without a word, with its power or its network, is known to be within a minute
void watch_over(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  // no TCP_USER_TIMEOUT: it would end one that is there and late to read
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

// Takes what has come of a line and nothing behind it. False: it will not be one.
bool take_line(const Socket& socket, std::string& line, bool& whole) {
  for (char c = 0; line.size() < kLongestLine;) {
    const ssize_t n = ::recv(socket.fd(), &c, 1, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n <= 0) return false;
    if ((whole = c == '\n')) return true;
    // it is shown to people
    const auto code = static_cast<unsigned char>(c);
    line += c == '\t' || (code >= 32 && code < 127) ? c : '?';
  }
  return false;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (fd_ >= 0 && fd_ != other.fd_) ::close(fd_);
  fd_ = other.release();
  return *this;
}

std::string Address::text() const {
  return (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + port;
}

Error no_address(const std::string& text, const std::string& wanted) {
  return Error("[machines] an address is " + wanted + ", e.g. 10.0.0.4:29500, got '" + text + "'");
}

Address parsed_address(const std::string& text, const std::string& wanted) {
  const size_t colon = text.rfind(':');
  Address address{colon == text.npos ? "" : text.substr(0, colon),
                  colon == text.npos ? text : text.substr(colon + 1)};
  if (address.host.starts_with('[') && address.host.ends_with(']'))
    address.host = address.host.substr(1, address.host.size() - 2);
  else if (address.host.find(':') != address.host.npos) throw no_address(text, wanted);
  const auto digit = [](unsigned char c) { return c >= '0' && c <= '9'; };
  if (address.port.empty() || address.port.size() > 5 ||
      !std::ranges::all_of(address.port, digit) || std::stoi(address.port) > 65535)
    throw no_address(text, wanted);
  return address;
}

Socket listening(const Address& address) {
  const std::optional<Found> found = known_addresses(address, AI_PASSIVE);
  if (!found)
    throw Error("[machines] who " + address.host + " is cannot be asked now; give a number");
  std::vector<const addrinfo*> all;
  for (const addrinfo* one = found->get(); one; one = one->ai_next) all.push_back(one);
  // one socket for both kinds of addresses, where the system has both
  std::ranges::stable_partition(all,
                                [](const addrinfo* one) { return one->ai_family == AF_INET6; });
  int error = 0;
  for (const addrinfo* one : all) {
    Socket listener(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (one->ai_family == AF_INET6) set_option(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    // a port is free again at once when a run has ended
    set_option(listener.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (::bind(listener.fd(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::listen(listener.fd(), kWaiting) == 0)
      return listener;
    error = errno;
  }
  const char* advice = error == EADDRINUSE ? "; give another port"
                       : error == EADDRNOTAVAIL
                           ? "; this machine has no such address: a port alone is at all it has"
                       : error == EACCES ? "; ports below 1024 are the system's"
                                         : "";
  throw Error("[machines] " + address.text() + " cannot be listened at: " + strerror(error) +
              advice);
}

int port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Socket connected_to(const Address& address, double seconds) {
  const std::optional<Found> addresses = known_addresses(address, 0);
  // whoever knows names may be reached later
  if (!addresses) return errno = EHOSTUNREACH, Socket();
  const Found& found = *addresses;
  int error = ECONNREFUSED;
  for (const addrinfo* one = found.get(); one; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // of connect() too
    timeval limit{.tv_sec = time_t(std::max(1., seconds)), .tv_usec = 0};
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(socket.fd(), one->ai_addr, one->ai_addrlen) == 0) {
      limit = {};
      ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
      watch_over(socket.fd());
      return socket;
    }
    error = errno;
  }
  errno = error;
  return Socket();
}

std::string peer_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[NI_MAXHOST] = "?";
  if (::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0)
    ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof text, nullptr, 0,
                  NI_NUMERICHOST);
  // an old address seen by a socket for both kinds
  const std::string name = text, mapped = "::ffff:";
  return name.starts_with(mapped) ? name.substr(mapped.size()) : name;
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  std::ranges::replace(name, ' ', '-');
  return name[0] ? name : "?";
}

bool readable(const Socket& socket, double seconds) {
  constexpr double kWeek = 7 * 24 * 3600;
  pollfd wait{socket.fd(), POLLIN, 0};
  return ::poll(&wait, 1, int(std::clamp(seconds, 0., kWeek) * 1e3)) > 0;
}

bool put_line(const Socket& socket, const std::string& line) {
  const std::string text = line + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(socket.fd(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += size_t(n);
  }
  return true;
}

std::string line_of(const Socket& socket, double seconds) {
  const double until = steady_s() + seconds;
  std::string line;
  for (bool whole = false; !whole;)
    if (!readable(socket, until - steady_s()) || !take_line(socket, line, whole)) return "";
  return line;
}

std::optional<Callers::Caller> Callers::next(double until_s, const std::vector<int>& others) {
  for (;;) {
    std::vector<pollfd> waits{{listener_.fd(), POLLIN, 0}};
    for (const Caller& caller : callers_) waits.push_back({caller.socket.fd(), POLLIN, 0});
    const size_t seen = callers_.size();
    for (const int fd : others) waits.push_back({fd, POLLIN, 0});
    const double wait_s = std::clamp(until_s - steady_s(), 0., patience_s_);
    if (::poll(waits.data(), waits.size(), int(wait_s * 1e3)) == 0 && steady_s() >= until_s)
      return std::nullopt;
    for (size_t i = 0; i < others.size(); ++i)
      if (waits[1 + seen + i].revents) return std::nullopt;
    for (size_t i = seen; i > 0; --i) {
      Caller& caller = callers_[i - 1];
      bool whole = false;
      const bool speaks = !waits[i].revents || take_line(caller.socket, caller.line, whole);
      if (whole) {
        Caller found = std::move(caller);
        callers_.erase(callers_.begin() + std::ptrdiff_t(i - 1));
        return found;
      }
      if (!speaks || steady_s() > caller.until_s)
        callers_.erase(callers_.begin() + std::ptrdiff_t(i - 1));
    }
    if (waits[0].revents) accept_one();
  }
}

void Callers::accept_one() {
  Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  // no more files may be open for now
  if (!socket) return void(usleep(100'000));
  watch_over(socket.fd());
  if (callers_.size() == kMostCallers) callers_.erase(callers_.begin());
  callers_.push_back({std::move(socket), "", steady_s() + patience_s_});
}

}  // namespace maglev
