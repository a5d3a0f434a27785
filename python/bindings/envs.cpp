#include "python/bindings/envs.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/picture/canvas.h"

namespace maglev::python {
namespace {

std::string shape_text(const at::Tensor& t) {
  std::string text = "[";
  for (int64_t i = 0; i < t.dim(); ++i) text += (i ? ", " : "") + std::to_string(t.size(i));
  return text + "]";
}

// where the first element of a tensor in host memory is for which `wrong` holds
int64_t first_row_where(const at::Tensor& wrong) {
  return wrong.flatten(1).any(1).to(at::kByte).argmax(0).item<int64_t>();
}

void expect_categories(const EnvSpec& spec, const at::Tensor& action, const at::Tensor& mask) {
  int64_t before = 0;  // categories of the heads before
  for (int64_t d = 0; d < spec.action.dims(); ++d) {
    const int64_t n = spec.action.heads[size_t(d)];
    const at::Tensor chosen = action.select(1, d);
    const at::Tensor outside = at::logical_or(chosen.lt(0), chosen.ge(n));
    if (outside.any().item<bool>()) {
      const int64_t row = first_row_where(outside.unsqueeze(1));
      throw Error("[step] an action must be in 0.." + std::to_string(n - 1) + ", got " +
                  std::to_string(chosen[row].item<int64_t>()) + " in row " + std::to_string(row));
    }
    if (mask.defined()) {
      const at::Tensor allowed =
          mask.gather(1, (chosen.to(at::kLong) + before).unsqueeze(1)).to(at::kBool);
      if (!allowed.all().item<bool>()) {
        const int64_t row = first_row_where(at::logical_not(allowed));
        throw Error("[step] the mask does not allow action " +
                    std::to_string(chosen[row].item<int64_t>()) + " in row " + std::to_string(row) +
                    "; choose among info[\"mask\"]");
      }
    }
    before += n;
  }
}

}  // namespace

at::Tensor expect_action(const EnvSpec& spec, const at::Tensor& action, int64_t rows,
                         const at::Tensor& mask) {
  const int64_t dims = spec.action.dims();
  at::Tensor taken = action.dim() == 1 && dims == 1 ? action.unsqueeze(1) : action;
  if (taken.dim() != 2 || taken.size(0) != rows || taken.size(1) != dims)
    throw Error("[step] actions must have shape [" + std::to_string(rows) + ", " +
                std::to_string(dims) + "]" +
                (dims == 1 ? " or [" + std::to_string(rows) + "]" : std::string()) + ", got " +
                shape_text(action));
  if (!spec.action.discrete()) {
    if (!at::isFloatingType(taken.scalar_type()))
      throw Error("[step] actions are numbers, f32; got " +
                  std::string(at::toString(taken.scalar_type())));
    taken = taken.to(at::kFloat);
    if (taken.is_cpu() && !at::isfinite(taken).all().item<bool>())
      throw Error("[step] an action must be finite, and that of row " +
                  std::to_string(first_row_where(at::logical_not(at::isfinite(taken)))) +
                  " is not");
    return taken;
  }
  if (!at::isIntegralType(taken.scalar_type(), /*includeBool=*/false))
    throw Error("[step] actions are categories, integers; got " +
                std::string(at::toString(taken.scalar_type())));
  if (taken.is_cpu()) expect_categories(spec, taken, mask.defined() ? mask.cpu() : mask);
  return taken.to(at::kInt);
}

Envs::Envs(const EnvsRequest& request)
    : params_(find_env(request.name), request.settings, "settings"),
      placement_(request.placement),
      pool_(placement_.threads),
      count_(request.count) {
  envs_ = std::make_unique<VecEnv>(find_env(request.name), params_.get(), count_, request.seed,
                                   placement_.device, pool_);
  encoder_ = std::make_unique<ObsEncoder>(spec(), /*normalize=*/false);
  encoder_->to(placement_.device);
  columns_ = make_columns(spec(), {}, {.observed = 2, .acted = 2}, rows(), placement_.device);
  // both begin at time 0, and the second goes on from time 1 into time 0
  for (int64_t first : {0, 1}) {
    windows_.emplace_back(spec(), columns_,
                          RolloutShape{.T = 1, .rows = rows(), .block_rows = rows()});
    windows_.back().move_to(first, 2);
  }
}

void Envs::reset() {
  turn_ = 0, reset_ = true, begun_ = true;
  envs_->reset(windows_[0].first_io());
  // nothing was done to get here
  for (const at::Tensor& column : {columns_.reward, columns_.terminated, columns_.truncated})
    column.zero_();
}

void Envs::reset(uint64_t seed) {
  envs_ = std::make_unique<VecEnv>(entry(), params_.get(), count_, seed, placement_.device, pool_);
  reset();
}

void Envs::step(const at::Tensor& action) {
  if (!begun_) throw Error("[step] reset() comes before the first step");
  const at::Tensor taken = expect_action(spec(), action, rows(), shown().mask);
  // the step that follows a reset is of the same window
  if (!reset_) turn_ = 1 - turn_;
  reset_ = false;
  now().step(0).action.copy_(taken);
  if (spec().action.discrete() && !taken.is_cpu())
    for (int64_t d = 0; d < spec().action.dims(); ++d)
      now().step(0).action.select(1, d).clamp_(0, spec().action.heads[size_t(d)] - 1);
  envs_->step(now().io(0));
}

EncodedObs Envs::encode(const std::vector<at::Tensor>& columns) const {
  return encoder_->forward(columns, /*want_privileged=*/true);
}

at::Tensor Envs::picture(int64_t i, int64_t width, int64_t height) const {
  if (!entry().paint)
    throw Error("[render] " + std::string(entry().name) + " does not draw itself");
  if (i < 0 || i >= count())
    throw Error("[render] an environment is in 0.." + std::to_string(count() - 1) + ", got " +
                std::to_string(i));
  if (width < 1 || height < 1 || width > 8192 || height > 8192)
    throw Error("[render] width and height are in 1..8192, got " + std::to_string(width) + " and " +
                std::to_string(height));
  // no edges are smoothed: whoever wants them smooth draws larger
  constexpr int kFiner = 2;
  Canvas canvas(int(width) * kFiner, int(height) * kFiner);
  envs_->paint(i, canvas);
  const Canvas shown = canvas.reduced(kFiner);
  static_assert(sizeof(Rgb) == 3);
  return at::from_blob(const_cast<Rgb*>(shown.pixels().data()), {height, width, 3}, at::kByte)
      .clone();
}

void Envs::visit(StateVisitor& visitor) {
  visitor.section("envs", [&](StateVisitor& v) { envs_->visit_state(v); });
  TimeStep& step = now().step(reset_ ? 0 : 1);
  for (at::Tensor& column : step.obs) visitor.tensor("obs", column);
  if (step.mask.defined()) visitor.tensor("mask", step.mask);
  visitor.tensor("is_first", step.is_first);
}

StateSnapshot Envs::keep() {
  if (!begun_) throw Error("[state] reset() comes before there is a state");
  return StateSnapshot([this](StateVisitor& v) { visit(v); });
}

void Envs::restore(const StateSnapshot& kept) {
  // as after a reset: into the first row, in which no step that is still looked at lies
  turn_ = 0, reset_ = true, begun_ = true;
  kept.restore([this](StateVisitor& v) { visit(v); });
}

Game Envs::game() {
  return {.env = entry(),
          .params = params_.get(),
          .spec = spec(),
          .placement = placement_,
          .pool = pool_,
          .rows = rows()};
}

}  // namespace maglev::python
