#include "base/web/files.h"

namespace maglev {

HttpResponse file_response(const HttpRequest& request, std::span<const WebFile> files) {
  for (const auto list : {files, shared_web_files()})
    for (const WebFile& file : list)
      if (file.path == request.path)
        return {.type = std::string(file.type), .body = std::string(file.text)};
  return text_response(404, "there is no " + request.path + " here");
}

}  // namespace maglev
