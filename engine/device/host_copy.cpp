#include "engine/device/host_copy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"
#include "base/trace/span.h"
#include "engine/device/event.h"

namespace maglev {

HostCopy::HostCopy(at::Device device) : device_(device) {
  if (device.is_cuda()) event_ = std::make_unique<DeviceEvent>();
}

HostCopy::~HostCopy() = default;

void HostCopy::start(const std::vector<at::Tensor>& parts) {
  at::NoGradGuard no_grad;
  if (!host_.defined()) {
    int64_t bytes = 0;
    for (const auto& part : parts) {
      begin_.push_back(bytes);
      bytes += (int64_t(part.nbytes()) + 15) / 16 * 16;
    }
    const auto u8 = at::TensorOptions(at::kByte);
    gathered_ = at::zeros({bytes}, u8.device(device_));
    host_ = device_.is_cpu() ? gathered_ : at::zeros({bytes}, u8.pinned_memory(true));
  }
  MAGLEV_ASSERT(parts.size() == begin_.size(), "a copy has the same parts each time");
  for (size_t i = 0; i < parts.size(); ++i)
    gathered_.narrow(0, begin_[i], int64_t(parts[i].nbytes()))
        .copy_(parts[i].reshape({-1}).view(at::kByte));
  if (!event_) return;
  const auto span = trace::copy("figures", int64_t(host_.nbytes()), "DtoH", /*pageable=*/false);
  host_.copy_(gathered_, /*non_blocking=*/true);
  event_->record();
}

bool HostCopy::ready() const { return !event_ || event_->passed(); }

void HostCopy::wait() {
  if (!event_) return;
  const auto span = trace::wait("figures", "device");
  event_->wait();
}

const std::byte* HostCopy::at(size_t i) const {
  return static_cast<const std::byte*>(host_.const_data_ptr()) + begin_.at(i);
}

}  // namespace maglev
