// A state that somebody changed: each integer, and each element of an integer tensor that may index
// something, is set to what it cannot be. Loading refuses it by name, or the run goes on; nothing
// is read or written where it does not belong (MAGLEV_ASSERT ends the process, so does a fault).

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/run/snapshot.h"
#include "engine/train/trainer.h"
#include "tests/errors.h"

namespace maglev {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

/// Names of what a state holds: integers, and tensors of whole numbers.
struct Names : PartialVisitor {
  std::vector<std::string> integers, tensors;
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    if (!at::isFloatingType(value.scalar_type()) && value.numel() > 0) tensors.push_back(name);
  }
  void visit_integer(const std::string& name, int64_t&) override { integers.push_back(name); }
};

/// Writes one of them, as a load does: an integer, or a tensor's element `place`.
struct Forge : PartialVisitor {
  std::string name;
  int64_t value, place = 0;
  Forge(std::string n, int64_t v, int64_t p = 0) : name(std::move(n)), value(v), place(p) {}
  bool loads() const override { return true; }
  void visit_tensor(const std::string& tensor, at::Tensor& to) override {
    if (tensor == name) to.view(-1)[place].fill_(value);
  }
  void visit_integer(const std::string& integer, int64_t& to) override {
    if (integer == name) to = value;
  }
};

/// A run some iterations on, as often as it is asked for.
class Saved {
 public:
  Saved(const char* algo, const char* env, const std::vector<std::string>& settings, int iterations)
      : experiment_((claim_threads(), algo), env) {
    for (const auto& setting : settings) experiment_.table().override_with(setting);
    const auto trainer = fresh();
    for (int i = 0; i < iterations; ++i) trainer->iterate();
    saved_ = std::make_unique<StateSnapshot>([&](StateVisitor& v) { trainer->visit_state(v); });
    trainer->visit_state(names);
  }

  /// What loading says of a forged state; a run that was not refused goes on.
  std::string refusal(Forge forge) const {
    const auto trainer = fresh();
    saved_->restore([&](StateVisitor& v) { trainer->visit_state(v); });
    const std::string error = error_of([&] { trainer->visit_state(forge); });
    if (!error.empty()) return error;
    // as a signal does: a clock that was set forward leaves more updates due than anybody waits for
    const int64_t made = trainer->updates();
    trainer->stop_when([&] { return trainer->updates() >= made + 8; });
    for (int i = 0; i < 3; ++i) trainer->iterate();
    return "";
  }

  Names names;

 private:
  std::unique_ptr<Trainer> fresh() const {
    return std::make_unique<Trainer>(experiment_, Placement{.device = at::kCPU, .threads = 1});
  }

  Experiment experiment_;
  std::unique_ptr<StateSnapshot> saved_;
};

void expect_integers_are_refused_below_zero(const Saved& saved, const std::string& section) {
  int found = 0;
  for (const std::string& name : saved.names.integers) {
    if (!name.starts_with(section)) continue;
    ++found;
    for (int64_t value : {kLeast, int64_t(-1), int64_t(1) << 40, kMost}) {
      const std::string error = saved.refusal({name, value});
      if (value < 0 || value == kMost) {
        EXPECT_TRUE(contains(error, name)) << name << ": " << error;
      }
    }
  }
  EXPECT_GT(found, 0);
}

// whatever a whole number of a tensor says, the run goes on or the tensor is named
void expect_tensors_are_refused_or_harmless(const Saved& saved, const std::string& section) {
  int found = 0;
  for (const std::string& name : saved.names.tensors) {
    if (!name.starts_with(section)) continue;
    ++found;
    for (int64_t value : {-1, 1, 2, 100, 255})
      for (int64_t place : {0, 5}) {
        const std::string error = saved.refusal({name, value, place});
        EXPECT_TRUE(error.empty() || contains(error, "must lie in")) << name << ": " << error;
      }
  }
  EXPECT_GT(found, 0);
}

TEST(ForgedLeague, is_refused_by_the_name_of_what_was_forged_or_plays_on) {
  const Saved saved("ppo", "tug",
                    {"ppo.rollout=8", "ppo.network.hidden=[8]", "ppo.minibatch=64", "ppo.epochs=1",
                     "env.count=8", "train.opponents=heavy,past,self", "train.past=2",
                     "train.past_every=128", "train.steps=100000"},
                    6);
  expect_integers_are_refused_below_zero(saved, "league.");
  expect_tensors_are_refused_or_harmless(saved, "league.");
  EXPECT_TRUE(contains(saved.refusal({"league.rivals.player_of", 4, 3}), "rivals.player_of"));
}

TEST(ForgedReplay, is_refused_by_the_name_of_what_was_forged_or_learns_on) {
  for (const char* sampling :
       {"linear_q.by_start=false", "linear_q.by_start=true", "linear_q.priorities=0.6"}) {
    const Saved saved("linear_q", "cartpole",
                      {"env.count=6", "linear_q.capacity=300", "linear_q.first_steps=60",
                       "linear_q.running=true", sampling, "train.steps=100000"},
                      80);
    expect_integers_are_refused_below_zero(saved, "replay.");
    expect_tensors_are_refused_or_harmless(saved, "replay.");
    EXPECT_TRUE(contains(saved.refusal({"replay.action", 2, 7}), "replay.action"));
    EXPECT_TRUE(contains(saved.refusal({"replay.truncated", 2, 7}), "replay.truncated"));
    // every slot is held, whatever the oldest is said to be
    for (int64_t oldest : {0, 1, 33, 60, 80})
      EXPECT_EQ(saved.refusal({"replay.oldest", oldest}), "");
  }
}

}  // namespace
}  // namespace maglev
