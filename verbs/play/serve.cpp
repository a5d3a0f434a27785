#include "verbs/play/serve.h"

#include <chrono>
#include <cstdio>
#include <thread>

#include "base/core/error.h"
#include "base/web/answer.h"
#include "base/web/files.h"
#include "verbs/play/pages.h"
#include "verbs/play/signals.h"

namespace maglev::verbs::play {
namespace {

constexpr auto kSignalEvery = std::chrono::milliseconds(100);

/// The member of an enum that the question names; `otherwise` where it names none.
template <class E>
E asked_choice(const HttpRequest& request, const std::string& name, E otherwise) {
  const std::string_view text = request.asked(name);
  if (text.empty()) return otherwise;
  std::string known;
  for (size_t i = 0; i < names_of(E{}).size(); ++i) {
    if (text == names_of(E{})[i]) return E(i);
    known += (known.empty() ? "" : " or ") + std::string(names_of(E{})[i]);
  }
  throw Error("[play] " + name + " is " + known + ", got '" + std::string(text) + "'");
}

HttpResponse answer_of(const HttpRequest& request, PlaySessions& sessions, const GameKey& first) {
  if (!request.path.starts_with("/api/")) return file_response(request, play_files());
  if (request.path == "/api/about") return {.body = sessions.about_json(first)};
  const GameKey key{.seed = asked_number<int64_t>(request, "seed", first.seed),
                    .mode = asked_choice(request, "actions", first.mode)};
  if (key.seed < 0) throw Error("[play] a seed is at least 0");
  if (request.path == "/api/frames")
    return {.body = sessions.frames_json(key, asked_number<int64_t>(request, "from", 0),
                                         asked_number<int64_t>(request, "count", 1))};
  if (request.path == "/api/insight")
    return {.body = sessions.insight_json(key, asked_number<int64_t>(request, "n", 0),
                                          asked_choice(request, "of", Asked::action))};
  return text_response(404, "there is no " + request.path + " here");
}

}  // namespace

void serve(MakeMatch make, const GameKey& key, const WebOptions& options) {
  PlaySessions sessions(std::move(make));
  // mistakes are said before anything is served
  sessions.frames_json(key, 0, 1);
  const LeaveOnSignal leave;
  const WebServer server(
      options, [&](const HttpRequest& request) { return answer_of(request, sessions, key); });
  std::printf("playing at %s (Ctrl-C ends it)\n", server.url().c_str());
  std::fflush(stdout);
  while (leave.signal() == 0) std::this_thread::sleep_for(kSignalEvery);
}

}  // namespace maglev::verbs::play
