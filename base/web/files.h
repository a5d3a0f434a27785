#pragma once
// What pages are made of: files that the build puts into the program (cmake/Pages.cmake).

#include <span>
#include <string_view>

#include "base/web/request.h"

namespace maglev {

struct WebFile {
  std::string_view path;  ///< "/charts.js"
  std::string_view type;  ///< "text/javascript; charset=utf-8"
  std::string_view text;
};

/// What every page shares: the style, and uPlot.
std::span<const WebFile> shared_web_files();

/// The file the request names; 404: it is in neither list.
HttpResponse file_response(const HttpRequest& request, std::span<const WebFile> files);

}  // namespace maglev
