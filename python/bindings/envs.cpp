#include "python/bindings/envs.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/picture/canvas.h"
#include "base/trace/span.h"
#include "engine/play/env_room.h"

namespace maglev::python {

std::string shape_text(at::IntArrayRef sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

namespace {

// of numbers in host memory: throws Error unless all are categories that `mask` allows, of which it
// may be null; `where` begins the message
void expect_categories(const ActionSpec& spec, const int64_t* chosen, int64_t rows,
                       const uint8_t* mask, const std::string& where) {
  const int64_t dims = spec.dims(), width = spec.categories();
  for (int64_t row = 0; row < rows; ++row) {
    int64_t before = 0;  // categories of the heads before
    for (int64_t d = 0; d < dims; ++d) {
      const int64_t category = chosen[row * dims + d], n = spec.heads[size_t(d)];
      if (category < 0 || category >= n)
        throw Error(where + "an action must be in 0.." + std::to_string(n - 1) + ", got " +
                    std::to_string(category) + " in row " + std::to_string(row));
      if (mask && !mask[row * width + before + category])
        throw Error(where + "the mask does not allow action " + std::to_string(category) +
                    " in row " + std::to_string(row) + "; choose among info[\"mask\"]");
      before += n;
    }
  }
}

at::Tensor column_of(const ObsColumn& column, const at::Tensor& given, at::Device device) {
  const auto text = [](at::IntArrayRef sizes) {
    std::string all = "[rows";
    for (int64_t size : sizes.slice(1)) all += ", " + std::to_string(size);
    return all + "]";
  };
  std::vector<int64_t> sizes{given.dim() > 0 ? given.size(0) : 0};
  sizes.insert(sizes.end(), column.shape.begin(), column.shape.end());
  const bool floats = column.dtype == DType::f32;
  if (given.sizes() != at::IntArrayRef(sizes))
    throw Error("[obs] " + column.name + " must have shape " + text(sizes) + ", got " +
                (given.dim() > 0 ? text(given.sizes()) : "a number"));
  if (!floats && at::isFloatingType(given.scalar_type()))
    throw Error("[obs] " + column.name +
                " is of whole numbers, as the environment stores it; got " +
                std::string(at::toString(given.scalar_type())));
  const auto dtype = floats ? at::kFloat : column.dtype == DType::u8 ? at::kByte : at::kInt;
  return given.to(device, dtype).contiguous();
}

void expect_finite(const float* numbers, int64_t rows, int64_t dims, const std::string& where) {
  for (int64_t i = 0; i < rows * dims; ++i)
    if (!std::isfinite(numbers[i]))
      throw Error(where + "an action must be finite, and that of row " + std::to_string(i / dims) +
                  " is not");
}

}  // namespace

void take_actions(const ActionSpec& spec, const at::Tensor& given, const at::Tensor& mask,
                  const at::Tensor& column, const char* called) {
  const at::NoGradGuard no_grad;
  const std::string where = "[" + std::string(called) + "] ";
  const int64_t rows = column.size(0), dims = column.size(1);
  const bool fits = given.dim() == 1 ? dims == 1 && given.size(0) == rows
                                     : given.dim() == 2 && given.sizes() == column.sizes();
  if (!fits)
    throw Error(where + "actions must have shape [" + std::to_string(rows) + ", " +
                std::to_string(dims) + "]" +
                (dims == 1 ? " or [" + std::to_string(rows) + "]" : std::string()) + ", got " +
                shape_text(given.sizes()));
  const bool whole = at::isIntegralType(given.scalar_type(), /*includeBool=*/false);
  if (spec.discrete() ? !whole : !at::isFloatingType(given.scalar_type()))
    throw Error(where + "actions are " +
                std::string(spec.discrete() ? "categories, integers; got " : "numbers, f32; got ") +
                at::toString(given.scalar_type()));
  at::Tensor taken = given.to(spec.discrete() ? at::kLong : at::kFloat).contiguous();
  if (!taken.is_cpu()) {
    // nobody waits to look at them
    column.copy_(taken.view_as(column));
    for (int64_t d = 0; spec.discrete() && d < dims; ++d)
      column.select(1, d).clamp_(0, spec.heads[size_t(d)] - 1);
    return;
  }
  if (!spec.discrete()) {
    expect_finite(taken.const_data_ptr<float>(), rows, dims, where);
  } else {
    const bool masked = mask.defined() && mask.is_cpu();
    expect_categories(spec, taken.const_data_ptr<int64_t>(), rows,
                      masked ? mask.const_data_ptr<uint8_t>() : nullptr, where);
    if (column.is_cpu()) {
      std::copy_n(taken.const_data_ptr<int64_t>(), rows * dims, column.data_ptr<int32_t>());
      return;
    }
  }
  column.copy_(taken.view_as(column));
}

std::vector<at::Tensor> stored_columns(const EnvSpec& spec, const std::vector<at::Tensor>& given,
                                       at::Device device) {
  if (given.size() != spec.observations.size())
    throw Error("[obs] expects " + counted(int64_t(spec.observations.size()), "column") +
                " of observations, got " + std::to_string(given.size()));
  std::vector<at::Tensor> columns;
  for (size_t c = 0; c < given.size(); ++c)
    columns.push_back(column_of(spec.observations[c], given[c], device));
  for (const at::Tensor& column : columns)
    if (column.size(0) != columns[0].size(0) || column.size(0) < 1)
      throw Error("[obs] columns of observations must have the same rows, at least one");
  return columns;
}

Envs::Envs(const EnvsRequest& request)
    : entry_(&find_env(request.name)),
      params_(*entry_, request.settings, "settings"),
      spec_(entry_->spec(params_.get())),
      placement_(request.placement),
      pool_(placement_.threads),
      count_(request.count),
      seed_(request.seed),
      identity_(request.name + " x " + std::to_string(request.count) + "\n" +
                params_.table().yaml() + (request.events ? "\nevents" : "")) {
  expect_unforked();
  if (request.events && spec_.events.empty())
    throw Error("[make] " + request.name + " counts no events; leave events out");
  const c10::InferenceMode ordinary(false);
  const c10::OptionalDeviceGuard guard(placement_.device);
  expect_env_room(entry(), params_.get(), count_, placement_.device);
  envs_ = std::make_unique<VecEnv>(entry(), params_.get(), count_, request.seed, placement_.device,
                                   pool_);
  encoder_ = std::make_unique<ObsEncoder>(spec(), /*normalize=*/false);
  encoder_->to(placement_.device);
  columns_ = make_columns(spec(), {}, {.observed = 2, .acted = 2}, rows(), placement_.device);
  // both begin at time 0, and the second goes on from time 1 into time 0
  for (int64_t first : {0, 1}) {
    windows_.emplace_back(spec(), columns_,
                          RolloutShape{.T = 1, .rows = rows(), .block_rows = rows()});
    windows_.back().move_to(first, 2);
  }
  if (!request.events) return;
  const auto kinds = int64_t(spec().events.size());
  events_ = at::zeros({rows(), kinds}, at::TensorOptions(device()));
  counted_ = at::zeros({kinds}, at::TensorOptions(device()).dtype(at::kDouble));
}

void Envs::reset(uint64_t seed) {
  const Turn turn(*this);
  seed_into(seed);
  // where it fails there is nothing to step
  turn_ = 0, reset_ = true, begun_ = false;
  envs_->reset(windows_[0].first_io());
  begun_ = true;
  // nothing was done to get here
  for (const at::Tensor& column : {columns_.reward, columns_.terminated, columns_.truncated})
    column.zero_();
  // what totals() has not taken is forgotten, as returns and lengths are
  if (events_.defined()) events_ = at::zeros_like(events_), counted_.zero_();
}

void Envs::seed_into(uint64_t seed) {
  if (seed == seed_) return;
  envs_ = std::make_unique<VecEnv>(entry(), params_.get(), count_, seed, placement_.device, pool_);
  if (counted_.defined()) counted_.zero_();
  seed_ = seed;
}

void Envs::step(const at::Tensor& action) {
  expect_ours();
  if (!begun_) throw Error("[step] reset() comes before the first step");
  const auto span = trace::stage("env_step");
  const Turn turn(*this);
  // the step that follows a reset is of the same window
  const int64_t next = reset_ ? turn_ : 1 - turn_;
  take_actions(spec().action, action, shown().mask, windows_[size_t(next)].step(0).action);
  turn_ = next, reset_ = false;
  envs_->step(now().io(0));
  if (events_.defined()) count_step();
}

void Envs::count_step() {
  const at::Tensor taken = envs_->take_events().to(device());
  counted_ += taken.to(at::kDouble).sum(0);
  events_ = spec().agents > 1 ? taken.repeat_interleave(spec().agents, 0) : taken;
}

EncodedObs Envs::encode(const std::vector<at::Tensor>& columns) const {
  const c10::OptionalDeviceGuard guard(placement_.device);
  return encoder_->forward(stored_columns(spec(), columns, placement_.device),
                           /*want_privileged=*/true);
}

EpisodeTotals Envs::take_totals() {
  const Turn turn(*this);
  EpisodeTotals totals = envs_->take_totals();
  if (!counted_.defined()) return totals;
  const at::Tensor counted = counted_.cpu();
  for (int64_t k = 0; k < counted.numel(); ++k)
    totals.events[k] += counted.const_data_ptr<double>()[k];
  counted_.zero_();
  return totals;
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
  const Turn turn(*this);
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
  if (counted_.defined()) visitor.tensor("counted", counted_);
}

EnvsState Envs::keep() {
  expect_ours();
  if (!begun_) throw Error("[state] reset() comes before there is a state");
  const Turn turn(*this);
  return {StateSnapshot([this](StateVisitor& v) { visit(v); }), identity_, seed_};
}

void Envs::restore(const EnvsState& kept) {
  if (kept.of != identity_)
    throw Error(
        "[state] is of other environments: their name, number and settings must be those it was "
        "kept with");
  const Turn turn(*this);
  seed_into(kept.seed);
  // as after a reset, into time 0
  turn_ = 0, reset_ = true, begun_ = true;
  kept.state.restore([this](StateVisitor& v) { visit(v); });
  if (events_.defined()) events_ = at::zeros_like(events_);
}

void Envs::expect_ours() const {
  expect_unforked();
  if (!envs_)
    throw Error("[envs] these environments of " + std::string(entry().name) +
                " are closed; make others");
}

void Envs::close() {
  const OneAtATime alone(busy_);
  if (!envs_) return;
  const c10::OptionalDeviceGuard guard(placement_.device);
  envs_.reset();
  if (entry().end_idle) entry().end_idle();
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
