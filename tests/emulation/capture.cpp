// What is kept of a stream that is captured, and the rules of capture (CUDA C++ Programming Guide,
// "CUDA Graphs: Prohibited and Unhandled Operations").

#include "tests/emulation/capture.h"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include <cuda_runtime.h>

#include "tests/emulation/device.h"
#include "tests/emulation/running.h"

namespace maglev::emulation {
namespace {

struct Capture {
  bool underway = false;
  uint64_t number = 0;
  EmulatedStream* stream = nullptr;
  std::vector<EmulatedStream*> joined;
  std::thread::id thread;
  std::vector<StreamWork> kept;
};
Capture& capture() {
  static auto* one = new Capture;
  return *one;
}

// under the device's mutex
bool is_in(const Capture& c, EmulatedStream* stream) {
  return c.underway && (c.stream == stream || std::ranges::count(c.joined, stream));
}

// the nearest function of the engine on this thread's stack, as far as the program exports names
std::string caller() {
  void* frames[128];
  const int count = backtrace(frames, int(std::size(frames)));
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0 || !info.dli_sname) continue;
    int status = 0;
    char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    const std::string name = status == 0 && plain ? plain : "";
    std::free(plain);
    if (name.starts_with("maglev::") && !name.starts_with("maglev::emulation::"))
      return name.substr(0, name.find('('));
  }
  return "a function without a name";
}

}  // namespace

void refuse(const std::string& what) {
  throw Fault("[emulated device] " + what + "; called by " + caller());
}

void begin_capture(EmulatedStream* stream) {
  const std::lock_guard lock(device_mutex());
  Capture& c = capture();
  if (c.underway) refuse("a second capture while one is underway");
  if (!stream) refuse("a capture of the default stream");
  c = {.underway = true,
       .number = c.number + 1,
       .stream = stream,
       .joined = {},
       .thread = std::this_thread::get_id(),
       .kept = {}};
}

std::vector<StreamWork> end_capture() {
  const std::lock_guard lock(device_mutex());
  Capture& c = capture();
  MAGLEV_ASSERT(c.underway, "a capture has begun");
  c.underway = false;
  // also a refused capture leaves nothing behind, and no work that others would have to wait for
  std::vector<StreamWork> kept = std::exchange(c.kept, {});
  bool waited = true;
  for (EmulatedStream* joined : c.joined) {
    waited &= has_waited_for(c.stream, joined);
    cudaStreamSynchronize(joined);
  }
  if (!waited)
    refuse("a stream that joined the capture has work that the captured one does not wait for");
  return kept;
}

bool captured(EmulatedStream* stream) { return capture_of(stream) != 0; }

uint64_t capture_of(EmulatedStream* stream) {
  const std::lock_guard lock(device_mutex());
  return is_in(capture(), stream) ? capture().number : 0;
}

void join_capture(EmulatedStream* stream, uint64_t number) {
  const std::lock_guard lock(device_mutex());
  Capture& c = capture();
  if (!c.underway || c.number != number)
    refuse("cudaStreamWaitEvent for an event of a capture that has ended");
  if (!is_in(c, stream)) c.joined.push_back(stream);
}

void expect_given_here(EmulatedStream* stream, const std::string& name) {
  const std::lock_guard lock(device_mutex());
  if (capture().underway && !is_in(capture(), stream))
    refuse(name + " is given to another stream than the captured one: a replay would miss it");
}

void keep(EmulatedStream* stream, StreamWork work) {
  const std::lock_guard lock(device_mutex());
  Capture& c = capture();
  if (!c.underway) return;
  if (stream == c.stream) c.kept.push_back(std::move(work));
  else c.kept.push_back([work = std::move(work), stream](EmulatedStream*) { work(stream); });
}

void give(EmulatedStream* stream, const std::string& name, const StreamWork& work) {
  expect_given_here(stream, name);
  work(stream);
  keep(stream, work);
}

void expect_no_capture(EmulatedStream* stream, const std::string& call) {
  const std::lock_guard lock(device_mutex());
  const Capture& c = capture();
  if (c.underway && (c.thread == std::this_thread::get_id() || is_in(c, stream)))
    refuse(call + " within a capture, where nothing may wait or be for the whole device");
}

}  // namespace maglev::emulation
