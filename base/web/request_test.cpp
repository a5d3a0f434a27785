#include "base/web/request.h"

#include <gtest/gtest.h>

#include "base/web/access.h"

namespace maglev {
namespace {

HttpRequest request_of(const std::string& head) {
  return std::get<HttpRequest>(parse_request(head));
}

int refusal_of(const std::string& head) {
  const auto parsed = parse_request(head);
  const auto* refused = std::get_if<HttpResponse>(&parsed);
  return refused ? refused->status : 0;
}

std::string get(const std::string& target, const std::string& headers = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost:1\r\n" + headers + "\r\n";
}

TEST(HttpRequest, is_read_as_it_was_meant) {
  const auto request = request_of(get("/a%20b/c?run=x%2Fy&q=1+2&q=3&empty", "X-One:  two \r\n"));
  EXPECT_EQ(request.path, "/a b/c");
  EXPECT_EQ(request.asked("run"), "x/y");
  EXPECT_EQ(request.asked("q"), "3");
  EXPECT_EQ(request.asked("empty"), "");
  EXPECT_EQ(*request.header("x-one"), "two");
  EXPECT_TRUE(request.keep_alive);
  EXPECT_FALSE(request_of(get("/", "Connection: Close\r\n")).keep_alive);
  EXPECT_FALSE(request_of("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_EQ(request_of(get("/", "Cookie: a=1; maglev=2; b=3\r\n")).cookie("maglev"), "2");
}

TEST(HttpRequest, that_is_none_is_refused) {
  EXPECT_EQ(refusal_of(get("/")), 0);
  for (const char* target : {"", "a", "/../x", "/a/..", "/%2e%2e/x", "/%", "/%4", "/%zz", "/%00",
                             "/a b", "/?a=%0a", "http://x/"})
    EXPECT_EQ(refusal_of(get(target)), 400) << target;
  EXPECT_EQ(refusal_of("GET  HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/2\r\n\r\n"), 505);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: a\r\n"), 400);
  EXPECT_EQ(refusal_of(get("/", "no colon\r\n")), 400);
  EXPECT_EQ(refusal_of(get("/", " folded: x\r\n")), 400);
  EXPECT_EQ(refusal_of(get("/", "A: x\ny\r\n")), 400);
  EXPECT_EQ(refusal_of(get("/", "Content-Length: 5\r\n")), 413);
  EXPECT_EQ(refusal_of(get("/", "Transfer-Encoding: chunked\r\n")), 413);
  EXPECT_EQ(refusal_of("POST / HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
  std::string many;
  for (size_t i = 0; i < kMostHeaders; ++i) many += "A: b\r\n";
  EXPECT_EQ(refusal_of(get("/", many)), 431);
}

int status_of(const WebAccess& access, const std::string& target, const std::string& headers) {
  const auto answer =
      access.answer(request_of("GET " + target + " HTTP/1.1\r\n" + headers + "\r\n"));
  return answer ? answer->status : 200;
}

TEST(WebAccess, is_for_pages_of_this_server_alone) {
  const WebAccess access;
  const auto status = [&](const std::string& headers) { return status_of(access, "/", headers); };
  for (const char* host : {"localhost:80", "127.0.0.1:9", "127.0.0.2:9", "[::1]:9", "localhost"})
    EXPECT_EQ(status("Host: " + std::string(host) + "\r\n"), 200) << host;
  // a name that was pointed at this machine
  for (const char* host : {"evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example",
                           "128.0.0.1", "[::2]", ""})
    EXPECT_EQ(status("Host: " + std::string(host) + "\r\n"), 403) << host;
  EXPECT_EQ(status(""), 400);
  EXPECT_EQ(status("Host: localhost\r\nHost: evil.example\r\n"), 400);
  const std::string host = "Host: localhost:9\r\n";
  EXPECT_EQ(status(host + "Origin: http://localhost:9\r\nSec-Fetch-Site: same-origin\r\n"), 200);
  for (const char* origin :
       {"http://localhost:8", "http://evil.example", "null", "https://localhost:9"})
    EXPECT_EQ(status(host + "Origin: " + origin + "\r\n"), 403) << origin;
  EXPECT_EQ(status(host + "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: script\r\n"), 403);
  EXPECT_EQ(status(host + "Sec-Fetch-Site: same-site\r\nSec-Fetch-Dest: iframe\r\n"), 403);
  EXPECT_EQ(status(host + "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: document\r\n"), 200);
}

TEST(WebAccess, elsewhere_takes_the_token) {
  const WebAccess access{.loopback = false, .token = "secret", .cookie = "maglev_9"};
  const std::string host = "Host: machine:9\r\n";
  EXPECT_EQ(status_of(access, "/", host), 401);
  EXPECT_EQ(status_of(access, "/?token=secreu", host), 401);
  EXPECT_EQ(status_of(access, "/?token=", host), 401);
  EXPECT_EQ(status_of(access, "/", host + "Cookie: maglev_9=secret\r\n"), 200);
  EXPECT_EQ(status_of(access, "/", host + "Cookie: maglev_8=secret\r\n"), 401);
  EXPECT_EQ(status_of(access, "/", host + "Authorization: Bearer secret\r\n"), 200);
  const auto answer = access.answer(request_of("GET /?token=secret HTTP/1.1\r\n" + host + "\r\n"));
  ASSERT_TRUE(answer && answer->status == 303);
  EXPECT_EQ(answer->headers[1].second, "maglev_9=secret; Path=/; HttpOnly; SameSite=Strict");
  EXPECT_EQ(status_of(access, "/?token=secret", host + "Origin: http://evil.example\r\n"), 403);
  EXPECT_EQ(random_token().size(), 32u);
  EXPECT_NE(random_token(), random_token());
}

}  // namespace
}  // namespace maglev
