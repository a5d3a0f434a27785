#include "base/processes/machines_meet.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <memory>
#include <netdb.h>
#include <optional>
#include <poll.h>
#include <sstream>
#include <unistd.h>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/core/clock.h"
#include "base/core/error.h"

namespace maglev {
namespace {

constexpr const char* kHello = "maglev-machine-1";
constexpr size_t kLongestLine = 2048;
constexpr double kAnswer = 10;  // seconds that who has connected has to say what it wants
constexpr double kRetry = 0.2;  // between attempts to reach a machine that does not listen yet
constexpr size_t kMostCallers = 256;  // that have said nothing yet
constexpr double kForEver = 1e12;
constexpr double kNeighbour = 60;  // seconds in which neighbours reach each other

struct Address {
  std::string host, port;  ///< host: empty: every address of this machine
  std::string text() const {
    return (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + port;
  }
};

Error no_address(const std::string& text, const std::string& wanted) {
  return Error("[machines] an address is " + wanted + ", e.g. 10.0.0.4:29500, got '" + text + "'");
}

// "[::1]:29500", "node1:29500", ":29500" or "29500"
Address parsed(const std::string& text, const std::string& wanted) {
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
        ::listen(listener.fd(), MachineLine::kMost) == 0)
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

// the other end's address, without its port
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
  // as one word
  std::ranges::replace(name, ' ', '-');
  return name[0] ? name : "?";
}

bool readable(int fd, double seconds) {
  pollfd wait{fd, POLLIN, 0};
  // longer ones are asked again
  constexpr double kMostSeconds = 1e6;
  return ::poll(&wait, 1, int(std::clamp(seconds, 0., kMostSeconds) * 1e3)) > 0;
}

// false: the other end is gone
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

// a line without its end; empty: none came in `seconds`
std::string line_of(const Socket& socket, double seconds) {
  const double until = steady_s() + seconds;
  std::string line;
  for (bool whole = false; !whole;)
    if (!readable(socket.fd(), until - steady_s()) || !take_line(socket, line, whole)) return "";
  return line;
}

// one attempt; none where nobody listens there now, with the reason in errno
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

// Who calls at a listening socket. Many may come that say nothing, or nothing of ours.
class Callers {
 public:
  struct Caller {
    Socket socket;
    std::string line;  ///< the first that it said
    double until_s = 0;
  };
  explicit Callers(const Socket& listener) : listener_(listener) {}

  /// The next that has said a line; none: `until_s` passed, or there is something at one of
  /// `others`.
  std::optional<Caller> next(double until_s, const std::vector<int>& others = {}) {
    for (;;) {
      std::vector<pollfd> waits{{listener_.fd(), POLLIN, 0}};
      for (const Caller& caller : callers_) waits.push_back({caller.socket.fd(), POLLIN, 0});
      const size_t seen = callers_.size();
      for (const int fd : others) waits.push_back({fd, POLLIN, 0});
      const double wait_s = std::clamp(until_s - steady_s(), 0., kAnswer);
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

 private:
  void accept_one() {
    Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    // no more files may be open for now
    if (!socket) return void(usleep(100'000));
    watch_over(socket.fd());
    if (callers_.size() == kMostCallers) callers_.erase(callers_.begin());
    callers_.push_back({std::move(socket), "", steady_s() + kAnswer});
  }

  const Socket& listener_;
  std::vector<Caller> callers_;  ///< that have not said a whole line yet
};

std::string random_word() {
  uint64_t bits[2] = {};
  if (getrandom(bits, sizeof bits, 0) != sizeof bits)
    throw Error("[machines] the system gives no random numbers");
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(bits[0]),
                static_cast<unsigned long long>(bits[1]));
  return text;
}

// What a machine says of itself, and what it is answered. Fields are parted by tabs; a build may
// have blanks.
using Fields = std::vector<std::string>;
Fields fields_of(const std::string& line) {
  Fields fields;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, '\t');) fields.push_back(field);
  return fields;
}

// a small whole number; -1: it is none
int number_of(const std::string& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

struct Guest {
  Socket socket;
  std::string address, name;
  std::string port;  ///< where it listens for the machine behind it
};

// all other machines, in the order in which they came
std::vector<Guest> guests_of(const Socket& listener, const MachineLine::Run& run,
                             const std::function<void(const std::string&)>& say) {
  std::vector<Guest> guests;
  Callers callers(listener);
  while (int(guests.size()) < run.machines - 1) {
    std::vector<int> waiting;
    for (const Guest& guest : guests) waiting.push_back(guest.socket.fd());
    std::optional<Callers::Caller> caller = callers.next(kForEver, waiting);
    // who waits says nothing: it left
    for (size_t i = guests.size(); i > 0; --i)
      if (readable(guests[i - 1].socket.fd(), 0)) {
        say("machine " + guests[i - 1].name + " left again");
        guests.erase(guests.begin() + std::ptrdiff_t(i - 1));
      }
    if (!caller) continue;
    Socket& socket = caller->socket;
    const auto fields = fields_of(caller->line);
    if (fields.size() != 4 || fields[0] != kHello) {
      put_line(socket, "no\tit is no machine of a run");
      continue;
    }
    const std::string peer = peer_of(socket), name = fields[3] + " (" + peer + ")";
    if (fields[1] != run.build) {
      say("machine " + name + " was refused: its program is " + fields[1] + ", this one is " +
          run.build);
      put_line(socket, "no\tits program is " + run.build + ", this one is " + fields[1] +
                           "; all machines need the same");
      continue;
    }
    if (!put_line(socket, "wait")) continue;
    guests.push_back({std::move(socket), peer, name, fields[2]});
    say("machine " + name + " has come, " + std::to_string(guests.size() + 1) + " of " +
        std::to_string(run.machines));
  }
  return guests;
}

// the two connections of the machine behind, which knows `secret`
Neighbour neighbour_behind(const Socket& listener, const std::string& secret,
                           const std::string& name) {
  Neighbour behind{.data = Socket(), .news = Socket(), .name = name};
  const double until = steady_s() + kNeighbour;
  Callers callers(listener);
  while (!behind.data || !behind.news) {
    std::optional<Callers::Caller> caller = callers.next(until);
    if (!caller)
      throw Error("[machines] " + name +
                  ", the machine behind this one, does not reach it; is the "
                  "network between them open, for every port?");
    if (caller->line == secret + "\tdata") behind.data = std::move(caller->socket);
    else if (caller->line == secret + "\tnews") behind.news = std::move(caller->socket);
  }
  return behind;
}

Neighbour neighbour_before(const Address& address, const std::string& secret,
                           const std::string& name) {
  Neighbour before{.data = Socket(), .news = Socket(), .name = name};
  const auto connected = [&](const char* what) {
    Socket socket = connected_to(address, kNeighbour);
    if (!socket || !put_line(socket, secret + "\t" + what))
      throw Error("[machines] " + name + ", the machine before this one, is not reached at " +
                  address.text() + " (" + strerror(errno) +
                  "); is the network between them open, for every port?");
    return socket;
  };
  before.data = connected("data");
  before.news = connected("news");
  return before;
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

Met wait_for_machines(const std::string& address, const MachineLine::Run& run,
                      const std::function<void(const std::string&)>& say) {
  const Address wanted = parsed(address, "[HOST:]PORT");
  const Socket listener = listening(wanted);
  const Address shown{wanted.host.empty() ? host_name() : wanted.host,
                      std::to_string(port_of(listener))};
  say("waits for " + std::to_string(run.machines - 1) + " of " + std::to_string(run.machines) +
      " machines; on each: ./maglev join " + shown.text());
  std::vector<Guest> guests = guests_of(listener, run, say);
  const std::string secret = random_word();
  for (size_t i = 0; i < guests.size(); ++i) {
    // the second machine has reached the first one already: no address
    const Guest first{.socket = Socket(), .address = "", .name = host_name(), .port = ""};
    const Guest& before = i == 0 ? first : guests[i - 1];
    const std::string behind = i + 1 < guests.size() ? guests[i + 1].name : "";
    std::string answer = "yes";
    for (const std::string& field :
         {std::to_string(i + 1), std::to_string(run.machines), std::to_string(run.processes),
          secret, before.address, before.port, before.name, behind})
      answer += "\t" + field;
    if (!put_line(guests[i].socket, answer))
      throw Error("[machines] " + guests[i].name + " left as the run began; begin it again");
  }
  Met met;
  met.run = run;
  met.behind = neighbour_behind(listener, secret, guests[0].name);
  return met;
}

Met come_to_machines(const std::string& address, const std::string& build, double patience_s,
                     const std::function<void(const std::string&)>& say) {
  const Address first = parsed(address, "HOST:PORT");
  if (first.host.empty()) throw no_address(address, "HOST:PORT");
  const Socket listener = listening({"", "0"});
  const double until = steady_s() + patience_s;
  Socket socket;
  // the run may begin later than this
  for (bool said = false; !(socket = connected_to(first, until - steady_s()));) {
    const std::string why = strerror(errno);
    if (steady_s() > until)
      throw Error(
          "[machines] nobody listens at " + address + " (" + why +
          "): a run listens that is begun there with machines=N --listen PORT, until it has "
          "all its machines");
    if (!std::exchange(said, true))
      say("nobody listens at " + address + " yet (" + why + "): waits for the run to begin");
    usleep(useconds_t(kRetry * 1e6));
  }
  const Error stranger("[machines] what listens at " + address +
                       " is no run that waits for machines, or it has ended");
  const std::string hello = std::string(kHello) + "\t" + build + "\t" +
                            std::to_string(port_of(listener)) + "\t" + host_name();
  auto fields = put_line(socket, hello) ? fields_of(line_of(socket, kAnswer)) : Fields();
  if (fields.size() == 2 && fields[0] == "no")
    throw Error("[machines] the run at " + address + " refuses this machine: " + fields[1]);
  if (fields != Fields{"wait"}) throw stranger;
  say("has come to the run at " + address + ", which begins when all machines are there");
  fields = fields_of(line_of(socket, kForEver));
  Met met;
  if (fields.size() >= 8 && fields[0] == "yes") {
    met.machine = number_of(fields[1]);
    met.run = {.machines = number_of(fields[2]), .processes = number_of(fields[3]), .build = build};
  }
  if (met.machine < 1 || met.machine >= met.run.machines || met.run.processes < met.run.machines)
    throw stranger;
  const bool second = met.machine == 1;
  met.before = neighbour_before(second ? first : Address{fields[5], fields[6]}, fields[4],
                                second ? fields[7] + " (" + first.host + ")" : fields[7]);
  // an empty field at the end is none
  if (met.machine + 1 < met.run.machines)
    met.behind = neighbour_behind(listener, fields[4], fields.size() > 8 ? fields[8] : "?");
  return met;
}

}  // namespace maglev
