#include "base/web/server.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <random>
#include <unistd.h>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/core/clock.h"
#include "base/web/files.h"
#include "tests/errors.h"

namespace maglev {
namespace {

class Client {
 public:
  explicit Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(uint16_t(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(const std::string& text) {
    EXPECT_TRUE(connected_);
    ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  void end() { ::shutdown(fd_, SHUT_WR); }
  // what came up to the connection's end or `enough` bytes; what takes longer hangs
  std::string receive(double within_s = 60, size_t enough = SIZE_MAX) {
    std::string text;
    char piece[4096];
    for (const double until = steady_s() + within_s; steady_s() < until && text.size() < enough;) {
      pollfd wait{fd_, POLLIN, 0};
      if (::poll(&wait, 1, 20) <= 0) continue;
      const ssize_t got = ::recv(fd_, piece, sizeof piece, 0);
      if (got <= 0) return text;
      text.append(piece, size_t(got));
    }
    timed_out_ = text.size() < enough;
    return text;
  }
  bool timed_out() const { return timed_out_; }

 private:
  int fd_;
  bool connected_, timed_out_ = false;
};

HttpResponse echo(const HttpRequest& request) {
  if (request.path == "/user") throw Error("[x] is not there");
  if (request.path == "/ours") throw std::runtime_error("oops");
  return {.type = "text/plain", .body = request.path};
}

const std::string kGet = "GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

std::string asked(int port, const std::string& text) {
  Client client(port);
  client.send(text);
  return client.receive();
}

TEST(WebServer, answers_one_request_after_another_on_a_connection) {
  const WebServer server({}, echo);
  Client client(server.port());
  client.send(
      "GET /one HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /two HTTP/1.1\r\nHost: localhost\r\n\r\n" +
      kGet);
  const std::string text = client.receive();
  EXPECT_FALSE(client.timed_out());
  EXPECT_TRUE(contains(text, "\r\n\r\n/one")) << text;
  EXPECT_FALSE(contains(text, "/two")) << text;
  EXPECT_TRUE(text.ends_with("\r\n\r\n/page")) << text;
  EXPECT_TRUE(contains(text, "Content-Security-Policy: default-src 'none'")) << text;
}

TEST(WebServer, tells_whose_mistake_it_was) {
  const WebServer server({}, echo);
  const auto status = [&](const std::string& path) {
    return asked(server.port(), "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .substr(9, 3);
  };
  EXPECT_EQ(status("/page"), "200");
  EXPECT_EQ(status("/user"), "404");
  EXPECT_EQ(status("/ours"), "500");
  EXPECT_TRUE(
      asked(server.port(), "POST / HTTP/1.1\r\nHost: a\r\n\r\nbody").starts_with("HTTP/1.1 405"));
  EXPECT_TRUE(asked(server.port(), "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n" + kGet)
                  .starts_with("HTTP/1.1 403"));
  EXPECT_TRUE(
      asked(server.port(), std::string(kMostHeadBytes + 8192, 'x')).starts_with("HTTP/1.1 431"));
}

TEST(WebServer, a_port_in_use_is_said) {
  const WebServer server({}, echo);
  const std::string port = std::to_string(server.port());
  EXPECT_EQ(error_of([&] { WebServer second({.port = server.port()}, echo); }),
            "[web] port " + port +
                " of 127.0.0.1 is in use; give another with --port, or --port 0 for "
                "any that is free");
  EXPECT_TRUE(contains(error_of([] { WebServer none({.host = "no.such.host.invalid"}, echo); }),
                       "is no address"));
  EXPECT_EQ(server.url(), "http://127.0.0.1:" + port + "/");
}

TEST(WebServer, asks_for_a_token_where_others_reach_it) {
  const WebServer server({.host = "0.0.0.0"}, echo);
  EXPECT_TRUE(asked(server.port(), kGet).starts_with("HTTP/1.1 401"));
  const std::string url = server.url(), token = url.substr(url.find("token=") + 6);
  ASSERT_EQ(token.size(), 32u);
  EXPECT_TRUE(asked(server.port(), "GET /?token=" + token + " HTTP/1.0\r\nHost: x\r\n\r\n")
                  .starts_with("HTTP/1.1 303"));
}

TEST(WebServer, slow_idle_and_many_clients_end) {
  // a server each, on which none ends for another reason
  const WebServer patient({.limits = {.head_s = 0.2}}, echo),
      busy({.limits = {.idle_s = 0.2}}, echo), small({.limits = {.connections = 3}}, echo);
  Client slow(patient.port()), idle(busy.port());
  slow.send("GET / HT");
  EXPECT_TRUE(slow.receive().starts_with("HTTP/1.1 408"));
  EXPECT_EQ(idle.receive(), "");
  EXPECT_FALSE(slow.timed_out() || idle.timed_out());
  std::vector<std::unique_ptr<Client>> many;
  for (int i = 0; i < 4; ++i) many.push_back(std::make_unique<Client>(small.port()));
  EXPECT_TRUE(many.back()->receive().starts_with("HTTP/1.1 503"));
}

TEST(WebServer, ends_while_clients_wait) {
  // it would be waited for them for longer than a test may take
  auto server =
      std::make_unique<WebServer>(WebOptions{.limits = {.head_s = 1e4, .idle_s = 1e4}}, echo);
  Client idle(server->port()), slow(server->port());
  slow.send("GET /");
  server.reset();
  EXPECT_EQ(idle.receive(), "");
}

int64_t open_files() {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += !entry.path().empty();
  return count;
}

int64_t status_number(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1));
  return -1;
}

// a request with some bytes changed, left out, doubled or cut
std::string mutated(std::mt19937& random) {
  static const std::string requests[] = {
      kGet, "HEAD /a%20b?run=1&points=9 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nCookie: a=b; c=d\r\n\r\n",
      "GET / HTTP/1.0\r\nHost: [::1]\r\nOrigin: http://[::1]\r\nSec-Fetch-Site: "
      "same-origin\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"};
  std::string text = requests[random() % 4];
  for (size_t k = 1 + random() % 6; k-- > 0 && !text.empty();) {
    const size_t place = random() % text.size(), count = 1 + random() % 8;
    const std::string some = text.substr(place, count);
    switch (random() % 6) {
      case 0:
        text[place] = char(random());
        break;
      case 1:
        text.erase(place, count);
        break;
      case 2:
        text.insert(place, some);
        break;
      case 3:
        text.insert(place, std::string(random() % 2000, some[0]));
        break;
      case 4:
        text.resize(place);
        break;
      case 5:
        text.insert(place, "\r\n");
        break;
    }
  }
  return text;
}

TEST(WebServer, outlives_ten_thousand_mutated_requests) {
  const WebServer server({}, echo);
  std::mt19937 random(1);
  int64_t files = 0, threads = 0, kilobytes = 0;
  int answered = 0;
  for (int i = 0; i < 10000; ++i) {
    if (i == 2000) {
      asked(server.port(), kGet);
      files = open_files(), threads = status_number("Threads"), kilobytes = status_number("VmRSS");
    }
    Client client(server.port());
    client.send(mutated(random));
    client.end();
    const std::string text = client.receive();
    ASSERT_FALSE(client.timed_out()) << "request " << i << " hangs";
    ASSERT_TRUE(text.empty() || text.starts_with("HTTP/1.1 ")) << text;
    answered += !text.empty();
  }
  EXPECT_GT(answered, 5000);
  // connections that ended are put away when another comes, and some have yet to end
  for (int i = 0; i < 1000 && (open_files() > files + 4 || status_number("Threads") > threads + 4);
       ++i)
    EXPECT_TRUE(asked(server.port(), kGet).ends_with("/page"));
  EXPECT_TRUE(asked(server.port(), kGet).ends_with("/page"));
  EXPECT_LE(open_files(), files + 4);
  EXPECT_LE(status_number("Threads"), threads + 4);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LE(status_number("VmRSS"), kilobytes + 8192);
#endif
}

TEST(WebServer, has_what_pages_share) {
  EXPECT_EQ(file_response({.path = "/uPlot.iife.min.js"}, {}).type,
            "text/javascript; charset=utf-8");
  EXPECT_GT(file_response({.path = "/uPlot.iife.min.js"}, {}).body.size(), 50000u);
  EXPECT_EQ(file_response({.path = "/none"}, {}).status, 404);
}

}  // namespace
}  // namespace maglev
