#include "base/timeline/meaning.h"

#include <array>

#include "base/core/words.h"

namespace maglev {
namespace {

struct NamePart {
  const char* part;  // in lower case; '^' first: the name begins so, '=' first: is so
  uint32_t bits;
};

// names of ours (docs/tracing.md) and of PyTorch's profiler
constexpr std::array kNameParts{
    NamePart{"dataloader", meaning::data},
    NamePart{"replaybuffer", meaning::data},
    NamePart{"replay_buffer", meaning::data},
    NamePart{"/sample", meaning::data},
    NamePart{"=sample", meaning::data},
    NamePart{"^c10d::", meaning::communication},
    NamePart{"^nccl", meaning::communication},
    NamePart{"^gloo", meaning::communication},
    NamePart{"=record_param_comms", meaning::communication},
    NamePart{"=aten::item", meaning::read_back},
    NamePart{"=aten::_local_scalar_dense", meaning::read_back},
    NamePart{"=aten::nonzero", meaning::read_back},
    NamePart{"=aten::is_nonzero", meaning::read_back},
    NamePart{"=env_step", meaning::env_step},
    NamePart{"=env.step", meaning::env_step},
    NamePart{"=flush", meaning::logging},
    NamePart{"=log", meaning::logging},
    NamePart{"^log_", meaning::logging},
    NamePart{"logger", meaning::logging},
    NamePart{"logging", meaning::logging},
    NamePart{"=save", meaning::saving},
    NamePart{"checkpoint", meaning::saving},
    NamePart{"=evaluate", meaning::evaluating},
    NamePart{"=evaluation", meaning::evaluating},
    NamePart{"^hook ", meaning::hook},
    NamePart{"=optimiser", meaning::optimiser},
    NamePart{"^optimizer.", meaning::optimiser},
    // how Dynamo and Inductor name all they do to compile; what was compiled runs under other names
    NamePart{"(dynamo_timed)", meaning::compiling},
    NamePart{"=aten::to", meaning::converting},
    NamePart{"=aten::_to_copy", meaning::converting},
};

uint32_t bits_of_name(const std::string& name) {
  const std::string lower = lower_case(name);
  uint32_t bits = 0;
  for (const auto& [part, meant] : kNameParts) {
    const bool held = part[0] == '^'   ? lower.starts_with(part + 1)
                      : part[0] == '=' ? lower == part + 1
                                       : lower.find(part) != lower.npos;
    if (held) bits |= meant;
  }
  return bits;
}

uint32_t bits_of_kind(const Span& span) {
  using namespace meaning;
  switch (span.kind) {
    case SpanKind::iteration:
    case SpanKind::stage:
    case SpanKind::runtime:
      return 0;
    case SpanKind::operation:
      return operation | (span.length() < 10'000 ? tiny : 0);
    case SpanKind::launch:
    case SpanKind::graph:
      return launch;
    case SpanKind::sync:
      return sync;
    case SpanKind::host_copy:
      return host_copy;
    case SpanKind::allocate:
      return allocate;
    case SpanKind::copy:
      return host_copy | (span.pageable ? pageable : 0);
    case SpanKind::wait:
      switch (span.on) {
        case WaitOn::pool:
          return pool;
        case WaitOn::device:
          return sync;
        case WaitOn::io:
          return io;
        case WaitOn::replay:
          return data;
        case WaitOn::processes:
          return communication;
        case WaitOn::lock:
        case WaitOn::other:
          return lock;
      }
      return lock;
    case SpanKind::kernel:
    case SpanKind::device_set:
      return device;
    case SpanKind::communication:
      return device | communication;
    case SpanKind::device_copy:
      return device | device_copy | (span.pageable ? pageable : 0);
  }
  return 0;
}

}  // namespace

uint32_t Meanings::of(const Timeline& timeline, const Span& span) {
  while (names_.size() < timeline.names.size())
    names_.push_back(bits_of_name(timeline.names[names_.size()]));
  return bits_of_kind(span) | names_[span.name] | meaning::traced;
}

uint32_t Meanings::of(const Timeline& timeline, std::span<const Span> spans,
                      std::span<const uint32_t> stack) {
  uint32_t bits = 0;
  for (const uint32_t i : stack) bits |= of(timeline, spans[i]);
  // an operation around others is as small as the innermost is
  if (!stack.empty() && !(of(timeline, spans[stack.back()]) & meaning::tiny))
    bits &= ~meaning::tiny;
  return bits;
}

Cause cause_of(const Timeline& timeline, Meanings& meanings, std::span<const Span> spans,
               std::span<const uint32_t> stack) {
  for (auto i = stack.rbegin(); i != stack.rend(); ++i) {
    const uint32_t bits = meanings.of(timeline, spans[*i]);
    if (bits & (meaning::data | meaning::io)) return Cause::data;
    if (bits & (meaning::pool | meaning::lock)) return Cause::threads;
    if (bits & meaning::communication) return Cause::communication;
    if (bits & meaning::sync) return Cause::sync;
    if (bits & meaning::host_copy) return Cause::copy;
    if (bits & meaning::allocate) return Cause::allocation;
    if (bits & meaning::launch) return Cause::launch;
  }
  return Cause::host;
}

}  // namespace maglev
