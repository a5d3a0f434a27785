#pragma once
// A stretch of a trace as a graph of what waits for what, replayed with some of it made free: what
// the run would take then. The virtual speed-up of "Coz: Finding Code that Counts with Causal
// Profiling" (Curtsinger and Berger, 2015), computed from the trace in place of slowing down
// everything else.
//
// What depends on what: a thread does one thing after another; work of a device begins after its
// launch and after what its stream did before; a call that waits for the device ends with the
// device's last work; a thread that waits ends with the last of the threads it waits for; a thread
// without work begins where the main thread has come to. What no such rule explains stays as long
// as it was.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/timeline/meaning.h"
#include "base/timeline/timeline.h"

namespace maglev {

/// Of a critical path: all its time under one name.
struct PathPart {
  std::string name;
  bool device = false;
  int64_t length = 0;
  uint64_t pieces = 0;
};

class SpanGraph {
 public:
  /// Of [from, to) of a timeline; `main` is the track of the thread that leads.
  SpanGraph(const Timeline& timeline, Meanings& meanings, size_t main, int64_t from, int64_t to);

  /// Decides of a node's bits (base/timeline/meaning.h) whether it takes no time.
  using Free = std::function<bool(uint32_t bits)>;
  /// ns until all is done. With nothing free: as long as it was, to the ns.
  int64_t length(const Free& free) const;
  int64_t length() const { return to_ - from_; }
  size_t nodes() const { return nodes_.size(); }
  const Timeline& timeline() const { return timeline_; }
  size_t main() const { return main_; }
  int64_t from() const { return from_; }
  int64_t to() const { return to_; }
  /// ns of one track's work, waits left out, with these bits.
  int64_t time_on(size_t track, const Free& of) const;
  /// ns in which any thread works on something of these bits.
  int64_t time_of_any(const Free& of) const;
  /// ns of the main thread's nodes, and of the devices', with these bits.
  int64_t time_on_main(const Free& of) const;
  int64_t time_on_devices(const Free& of) const;
  /// Spans of such bits that began in the stretch, as far as they have time of their own.
  uint64_t count(const Free& of) const;
  /// The name under which most time of such bits lies, and that time.
  PathPart largest(const Free& of) const;

  /// What the end of the main thread's work at `until` waited for, back to `since`. The parts add
  /// up to until - since.
  std::vector<PathPart> critical_path(int64_t since, int64_t until) const;

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  enum class Kind : uint8_t { work, wait, device };
  struct Node {
    int64_t begin, end;
    int64_t lag = 0;     // what of it no dependency explains
    int64_t offset = 0;  // into `cause`: what came so far made this begin
    uint32_t before = kNone, cause = kNone, other = kNone;
    uint32_t edges = 0, edge_count = 0;  // in edges_: of a wait, all whose ends it waits for
    uint32_t name = kNone;               // of its span; none: no span
    uint32_t bits = 0;
    uint32_t span = kNone;
    uint16_t track = 0;
    Kind kind = Kind::work;
  };

  void add_thread(size_t track);
  void add_stream(size_t track);
  void connect(size_t main);
  void connect_thread(uint32_t i, size_t main);
  void connect_device(uint32_t i);
  void wait_for(Node& node, uint32_t last);
  uint32_t last_of(const Node& node) const;
  uint32_t last_end(const std::vector<uint32_t>& ended, int64_t after, int64_t until) const;
  uint32_t node_at(size_t track, int64_t time) const;
  int64_t busy(size_t track, int64_t begin, int64_t end) const;

  const Timeline& timeline_;
  Meanings& meanings_;
  int64_t from_, to_;
  std::vector<Node> nodes_;                      // by end: what a node waits for stands before it
  std::vector<std::vector<uint32_t>> by_track_;  // nodes of a track, in order
  std::vector<uint32_t> edges_;
  std::vector<uint32_t> device_ends_;                    // of nodes that were connected, by end
  std::vector<std::vector<uint32_t>> ends_;              // work of each track that was connected
  std::vector<std::pair<uint32_t, uint32_t>> launches_;  // by correlation
  size_t main_ = 0;
};

}  // namespace maglev
