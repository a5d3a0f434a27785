// maglev watch: runs on a page in a browser, while they train and afterwards.

#include <chrono>
#include <cstdio>
#include <thread>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/web/files.h"
#include "base/web/server.h"
#include "verbs/arguments.h"
#include "verbs/play/signals.h"
#include "verbs/verb.h"
#include "verbs/watch/answers.h"
#include "verbs/watch/library.h"
#include "verbs/watch/pages.h"
#include "verbs/watch/traces.h"

namespace maglev::verbs::watch {

VerbEntry entry();

namespace {

constexpr int kPort = 8420;
constexpr auto kLookForSignal = std::chrono::milliseconds(100);

HttpResponse answer_of(const HttpRequest& request, RunLibrary& library, OpenCurves& curves,
                       OpenTraces& traces) {
  if (request.path == "/api/runs") return {.body = runs_json(library.runs())};
  const bool of_a_run = request.path.starts_with("/api/") || request.path == "/perfetto";
  if (!of_a_run) return file_response(request, watch_files());
  const std::string folder = library.path_of(std::string(request.asked("run")));
  if (request.path == "/api/settings") return {.body = settings_json(read_config(folder))};
  if (request.path == "/api/curves") return {.body = curves.curves_json(folder, request)};
  if (request.path == "/api/part") return {.body = curves.part_json(folder, request)};
  if (request.path == "/api/traces") return {.body = traces_json(folder)};
  if (request.path == "/api/trace") return {.body = traces.trace_json(folder, request)};
  if (request.path == "/api/boxes") return {.body = traces.boxes_json(folder, request)};
  if (request.path == "/api/self") return {.body = traces.self_json(folder, request)};
  if (request.path == "/api/find") return {.body = traces.find_json(folder, request)};
  if (request.path == "/perfetto") return perfetto_response(folder, request);
  return text_response(404, "there is no " + request.path + " here");
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(
      entry(), words,
      {.flags = {{"--port", "N", "where it is served (default 8420); 0: any that is free"},
                 {"--host", "ADDRESS",
                  "who can reach it (default 127.0.0.1, this machine alone); elsewhere the address "
                  "that is printed holds a token"}},
       .least = 0,
       .most = 64,
       .names = "[<runs or folders of runs> ...]"});
  if (arguments.help()) return arguments.print_help();
  auto roots = arguments.positional();
  if (roots.empty()) roots = {"runs"};
  RunLibrary library(roots);
  OpenCurves curves;
  OpenTraces traces;
  const LeaveOnSignal leave;
  const WebServer server(
      {.host = arguments.value("--host").value_or("127.0.0.1"),
       .port = int(arguments.integer("--port", 0, 65535).value_or(kPort))},
      [&](const HttpRequest& request) { return answer_of(request, library, curves, traces); });
  std::printf("%s at %s (Ctrl-C ends it)\n", counted(int64_t(library.runs().size()), "run").c_str(),
              server.url().c_str());
  std::fflush(stdout);
  while (leave.signal() == 0) std::this_thread::sleep_for(kLookForSignal);
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "watch",
          .summary = "runs as a live page in a browser",
          .usage = "watch [<run or folder of runs> ...] [--port N] [--host ADDRESS]",
          .run = run};
}

}  // namespace maglev::verbs::watch
