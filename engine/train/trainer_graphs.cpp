// Iterations as graphs of CUDA: what Trainer captures once they are warm, and what becomes of it.

#include "base/core/error.h"
#include "engine/device/device.h"
#include "engine/train/trainer.h"

namespace maglev {

void Trainer::capture_graphs() {
  capture_after_ = -1;
  if (!plan_->capturable) {
    graph_note_ = std::string("iterations run eagerly: ") + experiment_->algo().name +
                  " does work on the host that a captured graph would not repeat";
    return;
  }
  if (report_.metrics().watched()) {
    graph_note_ = "iterations run eagerly: a hook reads the figures of each pass";
    all_say(false);
    return;
  }
  // what eager iterations left would stay beside what the graphs take: a second copy of activations
  const DeviceMemory before = device_memory();
  bool captured = true;
  try {
    release_device_memory();
    capture_collect();
    const std::string not_ahead = capture_updates();
    if (overlap_) keep_.capture(graphs_, [this] { keep_collected(); });
    if (plan_->replay) publish_.capture(graphs_, [this] { publish(); });
    const DeviceMemory after = device_memory();
    graph_note_ =
        std::string("iterations are replayed as graphs") +
        (league_ ? ", but for opponents that are scripted or yet to be captured" : "") +
        (envs_->transfers() ? ", but for the environments' steps, which are the host's" : "") +
        ": of the device's memory " + std::to_string(before.reserved >> 20) +
        " MiB were taken before they were captured, " + std::to_string(after.reserved >> 20) +
        " MiB after, " + std::to_string(after.in_use >> 20) + " MiB of them by tensors" + not_ahead;
  } catch (const Error& e) {
    forget_graphs();
    release_device_memory();
    graph_note_ = std::string("iterations run eagerly, they could not be captured: ") + e.what();
    captured = false;
  }
  // what one process replays, all do
  if (!all_say(captured) && captured) {
    forget_graphs();
    release_device_memory();
    graph_note_ = "iterations run eagerly: another process could not capture them";
  }
}

std::string Trainer::capture_updates() {
  std::string not_ahead;
  GraphPool& pool = beside_ ? *beside_ : graphs_;
  const auto capture = [&] {
    another_ = false;
    update_.capture(pool, [this] { learn(); });
    if (!store_->draws_ahead()) return;
    another_ = true;
    try {
      update_ahead_.capture(pool, [this] { learn(); });
    } catch (const Error& e) {
      not_ahead =
          std::string("; batches are not drawn ahead, that could not be captured: ") + e.what();
    }
  };
  // the steps' stream is the current one
  if (beside_) beside_->on_side_stream(capture);
  else capture();
  return not_ahead;
}

void Trainer::capture_collect() {
  if (!by_turns_) return collect_.capture(graphs_, [this] { collect(); });
  for (int64_t t = 0; t < plan_->collect_steps; ++t) {
    Turn& turn = turns_[size_t(t)];
    if (lockstep_) turn.act[0].capture(graphs_, [this, t] { act_all(t); });
    else
      for (size_t b = 0; b < turn.act.size(); ++b)
        turn.act[b].capture(graphs_, [this, t, b] { act(t, int64_t(b)); });
    if (!envs_->transfers()) turn.step.capture(graphs_, [this, t] { step_all(t); });
  }
  end_collect_.capture(graphs_, [this] { end_collect(); });
}

void Trainer::forget_graphs() {
  for (Turn& turn : turns_) {
    for (StepGraph& act : turn.act) act.reset();
    turn.step.reset();
  }
  for (StepGraph* graph : {&collect_, &end_collect_, &update_, &update_ahead_, &keep_, &publish_})
    graph->reset();
}

}  // namespace maglev
