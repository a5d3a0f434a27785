#include "base/web/access.h"

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <sys/random.h>

#include "base/core/error.h"

namespace maglev {
namespace {

// "localhost:8420" without its port, whose number differs behind an SSH tunnel
std::string_view name_of(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

// a name could be pointed anywhere; these addresses lead to this machine alone
bool is_own_name(std::string_view name) {
  in_addr v4{};
  if (::inet_pton(AF_INET, std::string(name).c_str(), &v4) == 1)
    return ntohl(v4.s_addr) >> 24 == 127;
  return name == "localhost" || name == "[::1]";
}

// as long for a wrong one as for a right one
bool same_secret(std::string_view a, std::string_view b) {
  unsigned char differ = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    differ |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  return differ == 0;
}

size_t count_of(const HttpRequest& request, std::string_view name) {
  size_t count = 0;
  for (const auto& [key, value] : request.headers) count += key == name;
  return count;
}

}  // namespace

std::optional<HttpResponse> WebAccess::answer(const HttpRequest& request) const {
  const std::string* host = request.header("host");
  if (!host || count_of(request, "host") != 1) return text_response(400, "one Host is wanted");
  if (loopback && !is_own_name(name_of(*host)))
    return text_response(403, "this server is asked as localhost, and as nothing else");
  const std::string* origin = request.header("origin");
  if (origin && *origin != "http://" + *host)
    return text_response(403, "pages of other sites may not ask here");
  // a link on another page may lead here; nothing else of it may
  const std::string* site = request.header("sec-fetch-site");
  const std::string* goal = request.header("sec-fetch-dest");
  if (site && *site != "same-origin" && *site != "none" && !(goal && *goal == "document"))
    return text_response(403, "pages of other sites may not ask here");

  if (token.empty()) return {};
  if (same_secret(request.asked("token"), token)) {
    // the address of the page, and what it sends on, no longer has the token
    HttpResponse response = text_response(303, "");
    response.headers = {
        {"Location", "/"},
        {"Set-Cookie", cookie + "=" + token + "; Path=/; HttpOnly; SameSite=Strict"}};
    return response;
  }
  const std::string* given = request.header("authorization");
  const std::string bearer = "Bearer " + token;
  if (same_secret(request.cookie(cookie), token) || (given && same_secret(*given, bearer)))
    return {};
  return text_response(401,
                       "the address that was printed at the start, with its token, leads here");
}

std::string random_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != ssize_t(sizeof bytes))
    throw Error("[web] the system gives no random numbers: " + std::string(std::strerror(errno)));
  std::string text;
  for (unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

}  // namespace maglev
