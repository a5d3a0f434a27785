#pragma once
// A small HTTP server for pages about runs, on this machine. It reads and never writes. Everything
// a stranger could ask for without end is bounded: bytes and headers of a request, time to send one
// and to take the answer, connections. Live pages ask again: an answer is whole, so nothing is left
// open behind a page that went away.
//
//   WebServer server({.port = 8420}, [](const HttpRequest& request) { return HttpResponse{...}; });
//   std::printf("%s\n", server.url().c_str());   // serves until it is destroyed
//
// Threads: one accepts, one a connection; the handler is called from several at once.

#include <atomic>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "base/web/access.h"
#include "base/web/request.h"

namespace maglev {

struct WebLimits {
  size_t connections = 64;  ///< further ones are told 503
  double head_s = 10;       ///< from a request's first byte to its last
  double idle_s = 30;       ///< between requests of a connection
  double write_s = 30;      ///< until an answer is taken
};

struct WebOptions {
  std::string host = "127.0.0.1";  ///< an address or a name of this machine
  int port = 0;                    ///< 0: one that is free
  WebLimits limits = {};
};

/// Answers a request that may be answered. An Error it throws is told as 404 with its text,
/// anything else as 500. Thread-safe.
using WebHandler = std::function<HttpResponse(const HttpRequest&)>;

class WebServer {
 public:
  /// Listens and serves. Where the host is not the loopback address a token is made and asked for.
  /// Throws Error: a port in use, or one that is not allowed, a host that is not this machine's.
  WebServer(const WebOptions& options, WebHandler handler);
  /// Ends every connection and waits for its thread.
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  int port() const { return port_; }
  /// Where a browser finds it, with the token where there is one.
  std::string url() const;

 private:
  struct Connection {
    int fd = -1;
    std::atomic<bool> done{false};
    std::thread thread;
  };

  void listen_at(const WebOptions& options);
  void accept_all();
  void add_connection(int fd);
  void drop_finished();
  void serve(int fd);
  std::string answer(std::string_view head, bool& keep_alive);
  HttpResponse handled(const HttpRequest& request) const;
  bool wait_for(int fd, short events, double until_s) const;
  bool send_all(int fd, std::string_view text) const;

  WebHandler handler_;
  WebLimits limits_;
  WebAccess access_;
  std::string shown_host_;
  int port_ = 0;
  int listener_ = -1;
  int stop_ = -1;  ///< can be read once the server ends; whoever waits, waits for it too
  std::list<Connection> connections_;  ///< of the accepting thread
  std::thread accepts_;
};

}  // namespace maglev
