#pragma once
// Connections between machines, and the lines of text that they begin with.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"

namespace maglev {

/// An open socket; -1: none.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct Address {
  std::string host, port;  ///< host: empty: every address of this machine
  std::string text() const;
};
/// Of "[::1]:29500", "node1:29500", ":29500" or "29500". Throws Error, which says what was `wanted`.
Address parsed_address(const std::string& text, const std::string& wanted);
Error no_address(const std::string& text, const std::string& wanted);

/// Throws Error where it cannot be listened at. Port 0 is any that is free.
Socket listening(const Address& address);
int port_of(const Socket& listener);
/// One attempt of at most `seconds`; none where nobody is reached there now, with the reason in
/// errno. Throws Error where it is no address.
Socket connected_to(const Address& address, double seconds);
/// The other end's address, without its port.
std::string peer_of(const Socket& socket);
/// This machine's, as one word.
std::string host_name();

/// Whether there is something to read, or the other end is gone, within `seconds`, a week at most.
bool readable(const Socket& socket, double seconds);
/// False: the other end is gone.
bool put_line(const Socket& socket, const std::string& line);
/// The next line, without its end and what no terminal should be shown; nothing behind it is taken.
/// Empty: none came in `seconds`.
std::string line_of(const Socket& socket, double seconds);

/// Who calls at a listening socket. Many may come that say nothing, or nothing of ours.
class Callers {
 public:
  struct Caller {
    Socket socket;
    std::string line;  ///< the first that it said
    double until_s = 0;
  };
  /// Each has `patience_s` seconds to say a line. `listener` outlives it.
  Callers(const Socket& listener, double patience_s)
      : listener_(listener), patience_s_(patience_s) {}

  /// The next that has said a line; none: `until_s` (steady_s) passed, or there is something at one
  /// of `others`.
  std::optional<Caller> next(double until_s, const std::vector<int>& others = {});

 private:
  void accept_one();

  const Socket& listener_;
  double patience_s_;
  std::vector<Caller> callers_;  ///< that have not said a whole line yet
};

}  // namespace maglev
