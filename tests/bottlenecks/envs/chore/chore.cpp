#include "tests/bottlenecks/envs/chore/chore.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base/core/clock.h"

namespace maglev {
namespace {

constexpr size_t kPage = 4096;

// arithmetic for so long
void compute(int32_t us) {
  const double end = steady_s() + 1e-6 * us;
  volatile double sum = 0;
  while (steady_s() < end)
    for (int i = 0; i < 64; ++i) sum = sum + double(i);
}

// of a server that all environments share and that answers one at a time
std::mutex shared;

}  // namespace

Chore::State::State() {
  static std::atomic<int32_t> made{0};
  number = made++;
}

void Chore::step(const Params& p, State& s, const Actions& action, Rng& rng, StepOut& out) {
  switch (p.chore) {
    case Kind::none:
      break;
    case Kind::computes:
      compute(p.cost_us);
      break;
    case Kind::waits:
      std::this_thread::sleep_for(std::chrono::microseconds(p.cost_us));
      break;
    case Kind::locks: {
      const std::lock_guard lock(shared);
      std::this_thread::sleep_for(std::chrono::microseconds(p.cost_us));
      break;
    }
    case Kind::allocates: {
      // beyond what malloc keeps: pages come from the system and go back to it
      const std::vector<char> scratch(kPage * size_t(p.cost_us) + 1, 1);
      out.reward[0] = scratch.back();
      break;
    }
    case Kind::uneven:
      if (s.number % 8 == 0) compute(p.cost_us);
      break;
  }
  Cartpole::step({}, s.pole, action, rng, out);
}

}  // namespace maglev
