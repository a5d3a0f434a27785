#include "engine/trace/nvtx.h"

#include "base/trace/order.h"
#include "base/trace/span.h"
#ifdef MAGLEV_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace maglev {
#ifdef MAGLEV_NVTX
namespace {

nvtxDomainHandle_t domain = nullptr;

void push_range(const trace::SpanRecord& span) {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.category = uint32_t(span.category) + 1;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = span.name;
  // an iteration's step, a copy's bytes, a kernel's operations
  if (span.first >= 0) {
    range.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    range.payload.llValue = span.first;
  }
  nvtxDomainRangePushEx(domain, &range);
}

void pop_range() { nvtxDomainRangePop(domain); }

constexpr trace::RangeListener kNvtxRanges{push_range, pop_range};

}  // namespace

bool tell_nvtx() {
  // NVTX has domains where a profiler gives it some
  static const bool asked = [] {
    domain = nvtxDomainCreateA("maglev");
    if (!domain) return false;
    // 0 is no category
    for (int i = 0; i <= int(trace::Category::graph); ++i)
      nvtxDomainNameCategoryA(domain, uint32_t(i + 1), trace::name_of(trace::Category(i)));
    trace::tell_ranges_to(&kNvtxRanges);
    return true;
  }();
  return asked;
}

#else

bool tell_nvtx() { return false; }

#endif
}  // namespace maglev
