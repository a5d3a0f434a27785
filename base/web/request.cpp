#include "base/web/request.h"

#include <algorithm>
#include <optional>

namespace maglev {
namespace {

// a script of another origin neither runs in our pages nor reads them, and no page frames them
constexpr const char* kEveryResponse =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n";

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// %41 is A, and in a query + is a blank; none where it is cut short or hides a control character
std::optional<std::string> decoded(std::string_view text, bool query) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return {};
      out += char(high * 16 + low);
      i += 2;
    } else {
      out += query && text[i] == '+' ? ' ' : text[i];
    }
  }
  if (has_control(out)) return {};
  return out;
}

bool stays_inside(const std::string& path) {
  if (path.empty() || path[0] != '/') return false;
  for (size_t begin = 1; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (path.compare(begin, end - begin, "..") == 0) return false;
    begin = end + 1;
  }
  return true;
}

// fills path and query of "/a/b?c=d"
bool take_target(std::string_view target, HttpRequest& request) {
  const size_t mark = std::min(target.find('?'), target.size());
  const auto path = decoded(target.substr(0, mark), false);
  if (!path || !stays_inside(*path)) return false;
  request.path = *path;
  std::string_view rest = mark < target.size() ? target.substr(mark + 1) : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view part = rest.substr(0, end);
    const size_t equal = std::min(part.find('='), part.size());
    const auto name = decoded(part.substr(0, equal), true);
    const auto value = decoded(equal < part.size() ? part.substr(equal + 1) : "", true);
    if (!name || !value) return false;
    request.query[*name] = *value;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return true;
}

std::variant<HttpRequest, HttpResponse> refused(int status, const std::string& why) {
  return text_response(status, why);
}

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 303:
      return "See Other";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
  }
  return "Internal Server Error";
}

}  // namespace

const std::string* HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return &value;
  return nullptr;
}

std::string_view HttpRequest::asked(const std::string& name) const {
  const auto found = query.find(name);
  return found == query.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view HttpRequest::cookie(std::string_view name) const {
  const std::string* all = header("cookie");
  for (std::string_view rest = all ? *all : std::string_view(); !rest.empty();) {
    const size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view part = trimmed(rest.substr(0, end));
    if (part.size() > name.size() && part.starts_with(name) && part[name.size()] == '=')
      return part.substr(name.size() + 1);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

HttpResponse text_response(int status, const std::string& text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = text + "\n"};
}

std::variant<HttpRequest, HttpResponse> parse_request(std::string_view head) {
  HttpRequest request;
  // method target version
  size_t end = head.find("\r\n");
  if (end == head.npos) return refused(400, "the head has no end");
  const std::string_view line = head.substr(0, end);
  const size_t first = line.find(' '), second = line.rfind(' ');
  if (first == line.npos || first == second || !is_token(line.substr(0, first)))
    return refused(400, "the request line is not METHOD TARGET VERSION");
  request.method = line.substr(0, first);
  const std::string_view version = line.substr(second + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return refused(505, "HTTP/1.1 is spoken here");
  request.keep_alive = version == "HTTP/1.1";
  const std::string_view target = line.substr(first + 1, second - first - 1);
  if (target.find(' ') != target.npos || !take_target(target, request))
    return refused(400, "the target is no path");

  // headers, each on one line
  for (size_t begin = end + 2;; begin = end + 2) {
    end = head.find("\r\n", begin);
    if (end == head.npos) return refused(400, "the head has no end");
    if (end == begin) break;
    if (request.headers.size() == kMostHeaders)
      return refused(431, "more than " + std::to_string(kMostHeaders) + " headers");
    const std::string_view field = head.substr(begin, end - begin);
    const size_t colon = field.find(':');
    if (colon == field.npos || !is_token(field.substr(0, colon)))
      return refused(400, "a header has no name");
    const std::string_view value = trimmed(field.substr(colon + 1));
    if (has_control(value)) return refused(400, "a header holds control characters");
    request.headers.emplace_back(lower(field.substr(0, colon)), value);
  }
  if (request.method != "GET" && request.method != "HEAD") {
    auto response = text_response(405, "pages are read here: GET and HEAD");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return response;
  }
  const std::string* length = request.header("content-length");
  if (request.header("transfer-encoding") || (length && *length != "0"))
    return refused(413, "requests have no body here");
  if (const std::string* connection = request.header("connection"))
    request.keep_alive =
        request.keep_alive && lower(*connection).find("close") == std::string::npos;
  return request;
}

std::string response_text(const HttpResponse& response, bool head_only, bool keep_alive) {
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " " +
                     reason_of(response.status) + "\r\nContent-Type: " + response.type +
                     "\r\nContent-Length: " + std::to_string(response.body.size()) +
                     "\r\nConnection: " + (keep_alive ? "keep-alive" : "close") + "\r\n" +
                     kEveryResponse;
  for (const auto& [name, value] : response.headers) text += name + ": " + value + "\r\n";
  text += "\r\n";
  if (!head_only) text += response.body;
  return text;
}

}  // namespace maglev
