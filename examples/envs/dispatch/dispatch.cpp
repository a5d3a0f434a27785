#include "dispatch.h"

#include <algorithm>
#include <cstring>

namespace maglev {

EnvSpec Dispatch::spec(const Params& p) {
  return {.observations = {{.name = "vector", .dtype = DType::f32, .shape = {2 * p.queues}}},
          .action = {.heads = {p.queues}},
          .max_steps = p.max_steps,
          .events = {"served", "lost"}};
}

void Dispatch::reset(const Params& p, State& s, Rng&) {
  s.waiting.assign(size_t(p.queues), {});
  s.steps = 0;
}

void Dispatch::step(const Params& p, State& s, const Actions& action, Rng& rng, StepOut& out) {
  // an index out of range takes the nearest
  auto& served = s.waiting[size_t(std::clamp(action.discrete[0], 0, p.queues - 1))];
  if (!served.empty()) {
    served.pop_front();
    out.count(0, 1.f);
  }
  s.steps += 1;
  size_t waiting = 0;
  for (auto& queue : s.waiting) {
    if (rng.uniform() < p.load) {
      if (queue.size() < size_t(p.capacity)) queue.push_back(s.steps);
      else out.count(1, 1.f);
    }
    waiting += queue.size();
  }
  out.reward[0] = -float(waiting) / float(p.queues * p.capacity);
  out.truncated = s.steps >= p.max_steps;
}

// how full each queue is, and how long its first job has waited
void Dispatch::observe(const Params& p, const State& s, int, const ObsOut& out) {
  float* o = out.as<float>(0);
  for (size_t q = 0; q < s.waiting.size(); ++q) {
    const auto& queue = s.waiting[q];
    o[2 * q] = float(queue.size()) / float(p.capacity);
    o[2 * q + 1] = queue.empty() ? 0.f : float(s.steps - queue.front()) / float(p.max_steps);
  }
}

// a column a queue, as high as it is full
void Dispatch::paint(const Params& p, const State& s, Canvas& canvas) {
  const float wide = float(p.queues), high = float(p.capacity);
  const View view(canvas.width(), canvas.height(), 0.5f * wide, 0.5f * wide, wide, wide);
  canvas.fill({247, 249, 251});
  for (size_t q = 0; q < s.waiting.size(); ++q) {
    const float left = float(q) + 0.1f, right = float(q) + 0.9f;
    const float top = wide * float(s.waiting[q].size()) / high;
    canvas.rectangle(view(left, wide), view(right, 0.f), {226, 232, 238});
    canvas.rectangle(view(left, top), view(right, 0.f), {90, 130, 190});
    canvas.line(view(left, 0.f), view(right, 0.f), 0.03f * view.scale, {60, 70, 82});
  }
}

// steps; then of each queue how many wait, and since when
size_t Dispatch::state_bytes(const Params& p) {
  return sizeof(int32_t) * (1 + size_t(p.queues) * (1 + size_t(p.capacity)));
}

void Dispatch::save(const Params& p, const State& s, std::byte* to) {
  std::memcpy(to, &s.steps, sizeof s.steps);
  auto* row = reinterpret_cast<int32_t*>(to) + 1;
  for (const auto& queue : s.waiting) {
    row[0] = int32_t(queue.size());
    std::copy(queue.begin(), queue.end(), row + 1);
    row += 1 + p.capacity;
  }
}

bool Dispatch::load(const Params& p, State& s, const std::byte* from) {
  const auto* row = reinterpret_cast<const int32_t*>(from);
  s.steps = *row++;
  if (s.steps < 0 || s.steps > p.max_steps) return false;
  s.waiting.assign(size_t(p.queues), {});
  for (auto& queue : s.waiting) {
    if (row[0] < 0 || row[0] > p.capacity) return false;
    queue.assign(row + 1, row + 1 + row[0]);
    for (int32_t since : queue)
      if (since < 0 || since > s.steps) return false;
    row += 1 + p.capacity;
  }
  return true;
}

}  // namespace maglev
