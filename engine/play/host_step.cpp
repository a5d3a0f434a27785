#include "engine/play/host_step.h"

namespace maglev {
namespace {

void copy_column(const at::Tensor& to, const at::Tensor& from) {
  if (to.defined()) to.copy_(from);
}

void copy_columns(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  for (size_t i = 0; i < to.size(); ++i) copy_column(to[i], from[i]);
}

}  // namespace

HostStep::Columns::Columns(const EnvSpec& spec, const std::vector<ExtraColumn>& columns,
                           int64_t rows, at::Device device)
    : rows(rows),
      batch(make_columns(spec, columns, {.observed = 2, .acted = 1}, rows,
                         at::TensorOptions(device))),
      window(spec, batch, {.T = 1, .rows = rows, .block_rows = rows}) {}

HostStep::HostStep(const EnvSpec& spec, const std::vector<ExtraColumn>& columns, int64_t rows,
                   at::Device device)
    : here_(spec, columns, rows, at::kCPU) {
  if (!device.is_cpu()) there_.emplace(spec, columns, rows, device);
}

TimeStep HostStep::shown(int64_t count) {
  const TimeStep written = cut_rows(host(), 0, count);
  if (!there_) return written;
  TimeStep step = cut_rows(there_->window.step(0), 0, count);
  copy_columns(step.obs, written.obs);
  copy_column(step.mask, written.mask);
  copy_column(step.is_first, written.is_first);
  return step;
}

void HostStep::bring_back(int64_t count) {
  if (!there_) return;
  const TimeStep step = cut_rows(there_->window.step(0), 0, count),
                 back = cut_rows(host(), 0, count);
  copy_column(back.action, step.action);
  copy_columns(back.extra, step.extra);
}

}  // namespace maglev
