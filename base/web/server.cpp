#include "base/web/server.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <system_error>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/core/clock.h"
#include "base/core/error.h"

namespace maglev {
namespace {

constexpr size_t kReadBytes = 8 << 10;

std::string system_reason(int error) { return std::strerror(error); }

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

// a name that others reach this machine by, where it listens at every address
std::string shown_name(const std::string& host) {
  if (host != "0.0.0.0" && host != "::")
    return host.find(':') == host.npos ? host : "[" + host + "]";
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

// While it lives no signal reaches this thread, nor those that it starts.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

WebServer::WebServer(const WebOptions& options, WebHandler handler)
    : handler_(std::move(handler)), limits_(options.limits) {
  listen_at(options);
  stop_ = ::eventfd(0, EFD_CLOEXEC);
  if (stop_ < 0) {
    ::close(listener_);
    throw Error("[web] no more files can be opened; raise ulimit -n");
  }
  // signals are for the program's own thread
  const NoSignals blocked;
  try {
    accepts_ = std::thread([this] { accept_all(); });
  } catch (const std::system_error& e) {
    ::close(listener_);
    ::close(stop_);
    throw Error("[web] no thread to serve with: " + std::string(e.what()));
  }
}

WebServer::~WebServer() {
  const uint64_t one = 1;
  if (::write(stop_, &one, sizeof one) < 0) std::abort();
  accepts_.join();
  for (Connection& connection : connections_) connection.thread.join();
  ::close(listener_);
  ::close(stop_);
}

void WebServer::listen_at(const WebOptions& options) {
  const std::string where = "port " + std::to_string(options.port) + " of " + options.host;
  addrinfo wanted{};
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(),
                                      &wanted, &found))
    throw Error("[web] --host " + options.host + " is no address: " + gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  listener_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener_ < 0) throw Error("[web] no socket: " + system_reason(errno));
  const int on = 1;
  // a port is free again at once when a server ended
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener_, found->ai_addr, found->ai_addrlen) != 0 || ::listen(listener_, 64) != 0) {
    const int error = errno;
    ::close(listener_);
    if (error == EADDRINUSE)
      throw Error("[web] " + where +
                  " is in use; give another with --port, or --port 0 for any that is free");
    throw Error("[web] " + where + " cannot be listened at: " + system_reason(error) +
                "; --host is an address of this machine, and ports below 1024 are the system's");
  }
  port_ = port_of(listener_);
  access_.loopback = is_loopback(*found->ai_addr);
  access_.cookie = "maglev_" + std::to_string(port_);
  if (!access_.loopback) access_.token = random_token();
  shown_host_ = shown_name(options.host);
}

std::string WebServer::url() const {
  return "http://" + shown_host_ + ":" + std::to_string(port_) + "/" +
         (access_.token.empty() ? "" : "?token=" + access_.token);
}

bool WebServer::wait_for(int fd, short events, double until_s) const {
  for (;;) {
    pollfd waits[2] = {{fd, events, 0}, {stop_, POLLIN, 0}};
    const double left = until_s - steady_s();
    if (left <= 0) return false;
    const int ready = ::poll(waits, 2, int(std::min(left, 3600.0) * 1000) + 1);
    if (ready < 0 && errno != EINTR) return false;
    if (waits[1].revents) return false;
    if (ready > 0) return true;
  }
}

void WebServer::accept_all() {
  for (;;) {
    pollfd waits[2] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0 && errno != EINTR) return;
    if (waits[1].revents) return;
    if (!waits[0].revents) continue;
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    drop_finished();
    if (fd >= 0) add_connection(fd);
    // out of descriptors or memory: not again at once
    else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void WebServer::add_connection(int fd) {
  const auto turn_away = [&] {
    send_all(fd, response_text(text_response(503, "too many connections"), false, false));
    ::close(fd);
  };
  if (connections_.size() >= limits_.connections) return turn_away();
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Connection& connection = connections_.emplace_back();
  try {
    connection.thread = std::thread([this, fd, &connection] {
      serve(fd);
      // what was not read would turn the last answer into a reset
      ::shutdown(fd, SHUT_WR);
      char rest[kReadBytes];
      const double until = steady_s() + 0.2;
      while (wait_for(fd, POLLIN, until) && ::recv(fd, rest, sizeof rest, 0) > 0) continue;
      ::close(fd);
      connection.done = true;
    });
  } catch (const std::system_error&) {
    connections_.pop_back();
    turn_away();
  }
}

void WebServer::drop_finished() {
  connections_.remove_if([](Connection& connection) {
    if (!connection.done) return false;
    connection.thread.join();
    return true;
  });
}

// Requests of one connection, one after another, until either side has enough.
void WebServer::serve(int fd) {
  std::string text;
  for (bool keep_alive = true; keep_alive;) {
    size_t end;
    double until = steady_s() + (text.empty() ? limits_.idle_s : limits_.head_s);
    while ((end = text.find("\r\n\r\n")) == text.npos) {
      if (text.size() > kMostHeadBytes) {
        send_all(fd, response_text(text_response(431, "the head is too long"), false, false));
        return;
      }
      if (!wait_for(fd, POLLIN, until)) {
        if (!text.empty())
          send_all(fd,
                   response_text(text_response(408, "the request took too long"), false, false));
        return;
      }
      char piece[kReadBytes];
      const ssize_t got = ::recv(fd, piece, sizeof piece, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) return;
      if (text.empty()) until = steady_s() + limits_.head_s;
      text.append(piece, size_t(got));
    }
    const std::string reply = answer(std::string_view(text).substr(0, end + 4), keep_alive);
    if (!send_all(fd, reply)) return;
    text.erase(0, end + 4);
  }
}

std::string WebServer::answer(std::string_view head, bool& keep_alive) {
  const auto parsed = parse_request(head);
  if (const auto* refusal = std::get_if<HttpResponse>(&parsed)) {
    // where the next request would begin is not known
    keep_alive = false;
    return response_text(*refusal, false, false);
  }
  const auto& request = std::get<HttpRequest>(parsed);
  keep_alive = request.keep_alive;
  const auto refusal = access_.answer(request);
  return response_text(refusal ? *refusal : handled(request), request.method == "HEAD", keep_alive);
}

HttpResponse WebServer::handled(const HttpRequest& request) const {
  try {
    return handler_(request);
  } catch (const Error& e) {
    return text_response(404, e.what());
  } catch (const std::exception& e) {
    return text_response(500, std::string("internal error: ") + e.what());
  }
}

bool WebServer::send_all(int fd, std::string_view text) const {
  const double until = steady_s() + limits_.write_s;
  while (!text.empty()) {
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      text.remove_prefix(size_t(sent));
    } else if (errno != EINTR && (errno != EAGAIN || !wait_for(fd, POLLOUT, until))) {
      return false;
    }
  }
  return true;
}

}  // namespace maglev
