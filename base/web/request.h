#pragma once
// One request of HTTP/1.1 (RFC 9112), as much of it as pages want: GET and HEAD without a body.

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace maglev {

/// What a request may have at most.
constexpr size_t kMostHeadBytes = 16 << 10;
constexpr size_t kMostHeaders = 64;

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = {};  ///< "GET", "HEAD"
  std::string path = {};    ///< decoded; begins with '/', has no part "..", no control character
  std::map<std::string, std::string> query = {};  ///< decoded; of a repeated name the last
  HttpHeaders headers = {};                       ///< names in lower case
  bool keep_alive = true;

  /// The first of that name; null: none.
  const std::string* header(std::string_view name) const;
  /// The query's value; empty: none.
  std::string_view asked(const std::string& name) const;
  /// A cookie's value; empty: none.
  std::string_view cookie(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  HttpHeaders headers = {};
};

/// A page or message for people that is no error of the server's.
HttpResponse text_response(int status, const std::string& text);

/// Reads a head: request line, headers and the empty line behind them. What is none is answered
/// with the response that comes back instead: 400 malformed, 405 another method, 413 a body, 431
/// too many headers, 505 another version.
std::variant<HttpRequest, HttpResponse> parse_request(std::string_view head);

/// Status line, headers and, unless it answers HEAD, the body. The headers forbid caches, frames,
/// foreign scripts and guessing at types.
std::string response_text(const HttpResponse& response, bool head_only, bool keep_alive);

}  // namespace maglev
