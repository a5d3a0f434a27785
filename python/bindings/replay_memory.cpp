#include "python/bindings/replay_memory.h"

#include <cstring>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/trace/span.h"
#include "engine/host/system.h"
#include "engine/run/checkpoint_store.h"
#include "python/bindings/claim.h"
#include "python/bindings/envs.h"

namespace maglev::python {
namespace {

constexpr const char* kOneWriter =
    "[threads] two threads add to the same replay, save or load it at once; one does, any number "
    "sample";
// what a saved replay is told from a run's checkpoints by
constexpr const char* kKind = "replay";
// of a batch: its bytes and threads can be counted
constexpr double kMostBatchBytes = 0x1p60;

/// Tensors are ordinary ones of the replay's device.
struct OnDevice {
  explicit OnDevice(at::Device device) : guard(device) { expect_unforked(); }
  c10::InferenceMode ordinary{false};
  at::NoGradGuard no_grad;
  c10::OptionalDeviceGuard guard;
};

std::vector<int64_t> behind(std::vector<int64_t> sizes, const std::vector<int64_t>& shape) {
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return sizes;
}

// throws Error unless `given` can be written to `sizes` of `dtype`; `what` begins the message
void expect_fit(const std::string& what, const at::Tensor& given, at::IntArrayRef sizes,
                at::ScalarType dtype) {
  if (given.sizes() != sizes)
    throw Error(what + " must have shape " + shape_text(sizes) + ", got " +
                shape_text(given.sizes()));
  const at::ScalarType of = given.scalar_type();
  const bool real = at::isFloatingType(dtype);
  const bool fits = real ? !at::isComplexType(of) : at::isIntegralType(of, /*includeBool=*/true);
  if (!fits)
    throw Error(what + " must be " +
                (real                 ? "real numbers"
                 : dtype == at::kBool ? "flags, bool or integers"
                                      : "integers") +
                ", kept as " + at::toString(dtype) + ", got " + at::toString(of) +
                "; convert it first");
}

// a column of a step; ATen's copy is for what has to be converted: it shares with torch's threads what
// one has copied sooner
void write(const at::Tensor& column, const at::Tensor& given, at::ScalarType dtype) {
  const bool plain = column.is_cpu() && given.is_cpu() && given.scalar_type() == dtype &&
                     given.is_contiguous() && !given.is_neg();
  if (plain) std::memcpy(column.data_ptr(), given.const_data_ptr(), column.nbytes());
  else column.view(dtype).copy_(given);
}

void write(const at::Tensor& column, const at::Tensor& given) {
  write(column, given, column.scalar_type());
}

// flags as 0 and 1, whatever they were
void write_flags(const at::Tensor& column, const at::Tensor& given) {
  write(column, given, at::kBool);
}

// throws Error where the ring has no place for so many
void expect_columns(const ReplayRequest& request) {
  const EnvSpec& spec = request.spec;
  if (spec.observations.empty()) throw Error("[replay] needs at least one column of observations");
  const size_t count = Replay::column_bytes(spec, request.columns).size();
  if (count > size_t(kReplayColumns))
    throw Error("[replay] holds at most " + std::to_string(kReplayColumns) +
                " columns, those of observations, actions, rewards and flags among them, got " +
                std::to_string(count) + "; put some together");
}

ReplayShape ring_of(const ReplayRequest& request) {
  expect_columns(request);
  ReplayShape shape = request.shape;
  shape.window = {.T = 1, .rows = request.rows, .block_rows = request.rows};
  Replay::expect_capacity(shape);
  const bool cuda = request.placement.device.is_cuda();
  if (cuda && !request.memory.folder.empty())
    throw Error("[replay] folder is for a processor, on " + request.placement.device.str() +
                " a ring lies on the device or in pinned memory (pinned=True); leave it out");
  if (!cuda && request.memory.pinned)
    throw Error(
        "[replay] pinned is for a GPU, a processor's ring lies in memory or in a folder; leave it "
        "out");
  const int64_t bytes = Replay::bytes(request.spec, shape, request.columns);
  const int64_t left = probe_system(".").memory.left();
  const bool in_memory = !cuda && request.memory.folder.empty();
  if (in_memory && bytes > left)
    throw Error("[replay] " + std::to_string(shape.capacity) + " rows take " + bytes_text(bytes) +
                ", and " + bytes_text(left) +
                " of memory are left; take fewer, or folder=DIR for observations on a disk");
  // as a real number, for it may be more than any integer; a device says itself what it has
  const double drawn = double(shape.length + 1) * double(shape.batch) *
                       double(Replay::row_bytes(request.spec, request.columns));
  if (drawn > (cuda ? kMostBatchBytes : double(left)))
    throw Error("[replay] a batch of " + std::to_string(shape.batch) + " slices of " +
                counted(shape.length, "transition") +
                " takes more than the memory that is left; take fewer, or shorter ones");
  return shape;
}

std::string said_of(const std::string& folder, const std::string& why) {
  return "[replay] " + folder + " holds no saved replay" + (why.empty() ? "" : ": " + why) +
         "; replay.save(FOLDER) makes one";
}

}  // namespace

ReplayMemory::ReplayMemory(const ReplayRequest& request)
    : request_(request), pool_((expect_unforked(), request.placement.threads)) {
  const OnDevice on(request.placement.device);
  replay_ = std::make_unique<Replay>(request.spec, ring_of(request), request.columns,
                                     request.placement.device, request.memory);
  action_ = at::zeros_like(replay_->window().step(0).action);
}

int64_t ReplayMemory::held() const {
  if (!begun_) return 0;
  const EpisodeCounters c = replay_->counters();
  return (c.now - c.oldest + 1) * request_.rows;
}

int64_t ReplayMemory::episodes() const {
  const EpisodeCounters c = replay_->counters();
  return c.end - c.first;
}

int64_t ReplayMemory::faults() const { return replay_->counters().faults; }

const ExtraColumn& ReplayMemory::column_named(const std::string& name) const {
  std::vector<std::string> known;
  for (const ExtraColumn& column : request_.columns) {
    if (column.name == name) return column;
    known.push_back(column.name);
  }
  throw Error("[replay] " + (known.empty() ? "has no columns of its own, got '" + name +
                                                 "'; name it in extra={name: (shape, dtype)}"
                                           : unknown_name("column", name, known)));
}

// nothing could be learned from it; a device is not waited for
void expect_numbers(const std::string& what, const at::Tensor& given) {
  if (given.is_cpu() && given.is_floating_point() && given.isnan().any().item<bool>())
    throw Error(what + " holds NaN where numbers are expected");
}

void ReplayMemory::expect_step(const GivenStep& given) const {
  const int64_t rows = request_.rows;
  const TimeStep& step = replay_->window().step(0);
  for (size_t c = 0; c < step.obs.size(); ++c) {
    const std::string what = "[add] obs " + request_.spec.observations[c].name;
    expect_fit(what, given.obs[c], step.obs[c].sizes(), step.obs[c].scalar_type());
    expect_numbers(what, given.obs[c]);
  }
  if (given.mask.defined() != step.mask.defined())
    throw Error(step.mask.defined() ? "[add] lacks mask, which says what actions were allowed"
                                    : "[add] got a mask, and these rows have none");
  if (step.mask.defined()) expect_fit("[add] mask", given.mask, step.mask.sizes(), at::kBool);
  expect_fit("[add] reward", given.reward, {rows}, at::kFloat);
  expect_numbers("[add] reward", given.reward);
  for (const auto& [name, flags] : {std::pair("is_first", given.is_first),
                                    {"terminated", given.terminated},
                                    {"truncated", given.truncated}})
    expect_fit(std::string("[add] ") + name, flags, {rows}, at::kBool);
  for (const auto& [name, column] : given.columns)
    expect_fit("[add] " + name, column, behind({rows}, column_named(name).shape),
               column_named(name).dtype);
  for (const ExtraColumn& column : request_.columns)
    if (!given.columns.contains(column.name)) throw Error("[add] lacks " + column.name);
}

void ReplayMemory::expect_episodes_apart(const at::Tensor& is_first) {
  if (!begun_ || !device().is_cpu() || request_.shape.crossing) return;
  const at::Tensor first = is_first.to(at::kCPU, at::kBool).contiguous();
  const auto* terminated = replay_->window().terminated(0).const_data_ptr<uint8_t>();
  const auto* truncated = replay_->window().truncated(0).const_data_ptr<uint8_t>();
  for (int64_t row = 0; row < request_.rows; ++row)
    if (first.const_data_ptr<bool>()[row] && (terminated[row] || truncated[row]))
      throw Error(
          "[add] row " + std::to_string(row) +
          " begins an episode in the step right after the one that ended; the last "
          "observation is to come between them, as a step of its own whose action counts for "
          "nothing (Gymnasium's AutoresetMode.NEXT_STEP)");
}

void ReplayMemory::show(const GivenStep& given, const TimeStep& step) const {
  for (size_t c = 0; c < step.obs.size(); ++c) write(step.obs[c], given.obs[c]);
  if (step.mask.defined()) write_flags(step.mask, given.mask);
  write_flags(step.is_first, given.is_first);
}

void ReplayMemory::add(const GivenStep& given) {
  const OneAtATime alone(busy_, kOneWriter);
  const auto span = trace::stage("add");
  const OnDevice on(device());
  expect_step(given);
  expect_episodes_apart(given.is_first);
  take_actions(request_.spec.action, given.action, /*mask=*/{}, action_, "add");

  // the observation that the last step led to ends it
  if (begun_) replay_->begin();
  StepWindow& window = replay_->window();
  show(given, window.step(begun_ ? 1 : 0));
  if (begun_) replay_->commit();
  begun_ = true;
  go_to_newest();
  const TimeStep& step = window.step(0);
  write(step.action, action_);
  write(window.reward(0), given.reward);
  write_flags(window.terminated(0), given.terminated);
  write_flags(window.truncated(0), given.truncated);
  for (size_t c = 0; c < request_.columns.size(); ++c)
    write(step.extra[c], given.columns.at(request_.columns[c].name));
}

void ReplayMemory::go_to_newest() {
  // on a device it is where steps are staged
  if (device().is_cpu()) replay_->window().move_to(replay_->counters().now, replay_->slots());
}

ReplayBuffer ReplayMemory::make_buffer() const {
  const OnDevice on(device());
  return replay_->make_buffer();
}

void ReplayMemory::sample(ReplayBuffer& buffer, std::optional<int64_t> number) {
  const auto span = trace::stage("sample");
  const OnDevice on(device());
  const std::shared_lock reading(rewriting_);
  // once something could be drawn a device is not waited for any more
  if (!drawable_ && !(drawable_ = replay_->drawable())) throw replay_->undrawable();
  const ReplayKey key{.seed = request_.seed, .number = number ? *number : next_++};
  if (const std::unique_lock all(pooled_, std::try_to_lock); all)
    return replay_->sample(buffer, key, pool_);
  ThreadPool alone(1);
  replay_->sample(buffer, key, alone);
}

void ReplayMemory::update(const ReplayBuffer& drawn, const std::map<std::string, at::Tensor>& given,
                          int64_t first) {
  const OnDevice on(device());
  const int64_t L = request_.shape.length, B = request_.shape.batch;
  if (first < 0 || first >= L)
    throw Error("[update] first is a step of a slice, in 0.." + std::to_string(L - 1) + ", got " +
                std::to_string(first));
  ReplayBuffer back{.batch = {}, .slices = drawn.slices, .number = {}};
  back.batch.extra.resize(request_.columns.size());
  for (const auto& [name, values] : given) {
    const ExtraColumn& column = column_named(name);
    expect_fit("[update] " + name, values, behind({L, B}, column.shape), column.dtype);
    back.batch.extra[size_t(&column - request_.columns.data())] =
        values.to(device(), column.dtype).contiguous();
  }
  const std::unique_lock writing(rewriting_);
  replay_->put_back(back, first);
}

void ReplayMemory::prioritise(const ReplayBuffer& drawn, const at::Tensor& errors, double epsilon) {
  const OnDevice on(device());
  if (!request_.shape.priorities)
    throw Error(
        "[update_priorities] this replay draws every start alike; make it with priorities=0.6, the "
        "power of priorities by which it is to draw");
  const int64_t L = request_.shape.length, B = request_.shape.batch;
  if (errors.dim() == 2) expect_fit("[update_priorities] td_errors", errors, {L, B}, at::kFloat);
  else expect_fit("[update_priorities] td_errors", errors, {B}, at::kFloat);
  ReplayBuffer back{.batch = {}, .slices = drawn.slices, .number = {}};
  back.batch.extra.resize(request_.columns.size());
  back.batch.priority = (errors.to(device(), at::kFloat).abs() + epsilon).contiguous();
  // a device is not waited for: there it weighs least
  if (device().is_cpu() && !back.batch.priority.isfinite().all().item<bool>())
    throw Error("[update_priorities] td_errors must be finite, and one of them is not");
  const std::unique_lock writing(rewriting_);
  replay_->put_back(back);
}

void ReplayMemory::visit_state(StateVisitor& visitor) {
  int64_t begun = begun_, next = next_;
  visitor.integer("begun", begun, 0, 1);
  visitor.count("next", next);
  begun_ = begun != 0, next_ = next;
  visitor.section("ring", [&](StateVisitor& v) { replay_->visit_state(v); });
  go_to_newest();
  // what was done at the newest observation lies beside the ring on a device
  visitor.section("newest", [&](StateVisitor& v) {
    StepWindow& window = replay_->window();
    const auto visit = [&](const std::string& name, at::Tensor column) { v.tensor(name, column); };
    visit("action", window.step(0).action);
    visit("reward", window.reward(0));
    visit("terminated", window.terminated(0));
    visit("truncated", window.truncated(0));
    for (size_t c = 0; c < request_.columns.size(); ++c)
      visit("extra." + request_.columns[c].name, window.step(0).extra[c]);
    if (!visitor.loads()) return;
    check_range("newest.terminated", window.terminated(0), 0, 1);
    check_range("newest.truncated", window.truncated(0), 0, 1);
  });
  drawable_ = false;
}

void ReplayMemory::save(const std::string& folder, const std::string& about) {
  const OneAtATime alone(busy_, kOneWriter);
  const OnDevice on(device());
  CheckpointStore store(folder, /*keep_last=*/1);
  for (const CheckpointRow& row : store.list())
    if (row.identity.algo != kKind)
      throw Error("[replay] " + folder + " holds checkpoints of a run; save into another folder");
  const std::unique_lock writing(rewriting_);
  store.save({.algo = kKind, .env = kKind, .options_yaml = about, .step = replay_->counters().now},
             [this](StateVisitor& v) { visit_state(v); });
}

void ReplayMemory::load(const std::string& folder) {
  const OneAtATime alone(busy_, kOneWriter);
  const OnDevice on(device());
  std::string why;
  const auto saved =
      CheckpointStore(folder, 1).newest_verified([&](const std::string& note) { why = note; });
  if (!saved) throw Error(said_of(folder, why));
  const std::unique_lock writing(rewriting_);
  load_checkpoint(*saved, {.algo = kKind, .env = kKind},
                  [this](StateVisitor& v) { visit_state(v); });
}

std::string ReplayMemory::about(const std::string& folder) {
  const auto saved = CheckpointStore(folder, 1).list();
  if (saved.empty() || saved.back().identity.algo != kKind) throw Error(said_of(folder, ""));
  return saved.back().identity.options_yaml;
}

}  // namespace maglev::python
