#include "engine/nn/autocast.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

namespace maglev {
namespace {

constexpr double kFirstScale = 65536, kGrowth = 2, kBackoff = 0.5;
constexpr int64_t kGrowthSteps = 2000;

}  // namespace

Autocast::Autocast(Precision precision, at::Device device)
    : type_(device.type()), on_(precision == Precision::bf16 || precision == Precision::fp16) {
  if (!on_) return;
  enabled_before_ = at::autocast::is_autocast_enabled(type_);
  dtype_before_ = at::autocast::get_autocast_dtype(type_);
  cache_before_ = at::autocast::is_autocast_cache_enabled();
  at::autocast::set_autocast_enabled(type_, true);
  at::autocast::set_autocast_dtype(type_, precision == Precision::bf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::set_autocast_cache_enabled(false);
}

Autocast::~Autocast() {
  if (!on_) return;
  at::autocast::set_autocast_enabled(type_, enabled_before_);
  at::autocast::set_autocast_dtype(type_, dtype_before_);
  at::autocast::set_autocast_cache_enabled(cache_before_);
}

WithoutAutocast::WithoutAutocast(at::Device device)
    : type_(device.type()), before_(at::autocast::is_autocast_enabled(type_)) {
  at::autocast::set_autocast_enabled(type_, false);
}

WithoutAutocast::~WithoutAutocast() { at::autocast::set_autocast_enabled(type_, before_); }

LossScale::LossScale(bool on, at::Device device) : on_(on) {
  const auto f32 = at::TensorOptions(at::kFloat).device(device);
  scale_ = at::full({}, on ? kFirstScale : 1.0, f32);
  growth_ = at::zeros({}, f32.dtype(at::kInt));
  if (on) unscale_ = scale_.reciprocal();
}

void LossScale::adapt(const at::Tensor& norm) {
  if (!on_) return;
  at::NoGradGuard no_grad;
  const auto found = at::logical_not(at::isfinite(norm)).to(at::kFloat);
  at::_amp_update_scale_(scale_, growth_, found, kGrowth, kBackoff, kGrowthSteps);
  at::reciprocal_out(unscale_, scale_);
}

void LossScale::visit_state(StateVisitor& visitor) {
  visitor.tensor("scale", scale_);
  visitor.tensor("growth", growth_);
  if (on_) at::reciprocal_out(unscale_, scale_);
}

}  // namespace maglev
