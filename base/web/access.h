#pragma once
// Who may ask. Pages of other sites that run in the same browser may not: a name that was pointed
// at this machine (DNS rebinding) shows in Host, a foreign page in Origin and Sec-Fetch-Site. On
// the loopback address nobody else reaches the server; elsewhere a token is asked for besides.

#include <optional>
#include <string>

#include "base/web/request.h"

namespace maglev {

struct WebAccess {
  bool loopback = true;           ///< Host must name this machine's own address
  std::string token = {};         ///< empty: none is asked for
  std::string cookie = "maglev";  ///< what keeps it: cookies of two ports are in one jar

  /// What to answer in place of the page: 403, 401, or, to the address with the right token, the
  /// same address without it and the token as a cookie. Nothing: go on.
  std::optional<HttpResponse> answer(const HttpRequest& request) const;
};

/// 32 hexadecimal digits from the system. Throws Error.
std::string random_token();

}  // namespace maglev
