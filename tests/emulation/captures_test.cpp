// The rules of capture, held by the emulated device: a fault in a stage is found, with its place.

#include <exception>
#include <thread>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/device/device.h"
#include "engine/device/event.h"
#include "engine/device/host_copy.h"
#include "engine/device/side_stream.h"
#include "engine/device/step_graph.h"
#include "kernels/noise/noise_op.h"
#include "tests/emulation/device.h"
#include "tests/errors.h"

namespace maglev {

/// A stage with a fault in it. Not in an anonymous namespace: the fault names the function.
struct FaultyStage {
  at::Tensor counter = at::zeros({1}, at::TensorOptions(at::kLong).device(at::Device("cuda:0")));
  at::Tensor x = at::ones({8}, at::TensorOptions(at::kFloat).device(at::Device("cuda:0")));
  DeviceEvent event;
  SideStream side{at::Device("cuda:0")};

  [[gnu::noinline]] void reads_a_value() { x.mul_(x.sum().item<float>()); }
  [[gnu::noinline]] void asks_whether() {
    if (at::isfinite(x).all().item<bool>()) x.add_(1);
  }
  [[gnu::noinline]] void counts_elements() { counter.fill_((x > 0).nonzero().size(0)); }
  [[gnu::noinline]] void picks_by_a_mask() { x.index_put_({x > 0}, at::zeros({}, x.options())); }
  [[gnu::noinline]] void copies_to_the_host() { host = x.cpu(); }
  [[gnu::noinline]] void copies_from_the_host() { x.copy_(at::ones({8})); }
  [[gnu::noinline]] void waits_for_the_stream() { wait_for_stream(); }
  [[gnu::noinline]] void waits_for_an_event() { event.wait(); }
  [[gnu::noinline]] void asks_an_event() { event.passed(); }
  [[gnu::noinline]] void gives_memory_back() { release_device_memory(); }
  void works_on_another_thread() { on_another_thread(&FaultyStage::adds); }
  void launches_on_another_thread() { on_another_thread(&FaultyStage::draws); }
  [[gnu::noinline]] void adds() { x.add_(1); }
  [[gnu::noinline]] void draws() {
    noise_uniform_(x, {.seed = 1, .stream = 0, .first = 0, .rows = 1, .count = 0});
  }
  [[gnu::noinline]] void mixes_memories() { x.add_(at::ones({8})); }
  [[gnu::noinline]] void forks_for_good() {
    adds();
    side.fork([&] { draws(); });
  }
  [[gnu::noinline]] void joins_what_lies_outside() { side.join(); }

  at::Tensor host;

 private:
  void on_another_thread(void (FaultyStage::*work)()) {
    std::exception_ptr failed;
    std::thread([&] {
      try {
        (this->*work)();
      } catch (...) {
        failed = std::current_exception();
      }
    }).join();
    if (failed) std::rethrow_exception(failed);
  }
};

namespace {

std::string refused(void (FaultyStage::*stage)()) {
  GraphPool pool(at::Device("cuda:0"));
  FaultyStage faulty;
  StepGraph graph("stage");
  std::string error;
  pool.on_side_stream([&] {
    // as eager work it is fine, but for what nothing orders
    const bool unordered = stage == &FaultyStage::works_on_another_thread ||
                           stage == &FaultyStage::launches_on_another_thread;
    if (stage != &FaultyStage::mixes_memories && !unordered) (faulty.*stage)();
    if (stage == &FaultyStage::forks_for_good) faulty.side.join();
    if (stage == &FaultyStage::joins_what_lies_outside) faulty.side.fork([] {});
    const at::Tensor before = faulty.x.cpu();
    error = error_of([&] { graph.capture(pool, [&] { (faulty.*stage)(); }); });
    EXPECT_FALSE(graph.captured());
    EXPECT_TRUE(at::equal(faulty.x.cpu(), before)) << "a capture does nothing";
    // the stream and the allocator have left the capture
    graph.capture(pool, [&] { faulty.x.add_(1); });
    graph.run([] {});
    EXPECT_TRUE(at::equal(faulty.x.cpu(), before + 1));
  });
  return error;
}

TEST(Captures, of_a_fault_are_refused_with_its_place) {
  struct Case {
    void (FaultyStage::*stage)();
    const char *what, *where;
  };
  for (const Case& c :
       {Case{&FaultyStage::reads_a_value, "_local_scalar_dense", "reads_a_value"},
        {&FaultyStage::asks_whether, "_local_scalar_dense", "asks_whether"},
        {&FaultyStage::counts_elements, "aten::nonzero", "counts_elements"},
        {&FaultyStage::picks_by_a_mask, "index_put", "picks_by_a_mask"},
        {&FaultyStage::copies_to_the_host, "copy_ to the host", "copies_to_the_host"},
        {&FaultyStage::copies_from_the_host, "copy_ from", "copies_from_the_host"},
        {&FaultyStage::waits_for_the_stream, "cudaStreamSync", "wait_for_stream"},
        {&FaultyStage::waits_for_an_event, "cudaEventSynchronize", "DeviceEvent"},
        {&FaultyStage::asks_an_event, "cudaEventQuery", "DeviceEvent"},
        {&FaultyStage::gives_memory_back, "cudaDeviceSync", "release_device_memory"},
        {&FaultyStage::works_on_another_thread, "another stream", "adds"},
        {&FaultyStage::launches_on_another_thread, "another stream", "noise"},
        {&FaultyStage::forks_for_good, "the captured one does not wait for", ""},
        {&FaultyStage::joins_what_lies_outside, "another stream", "SideStream"},
        {&FaultyStage::mixes_memories, "on the same device", ""}}) {
    const std::string error = refused(c.stage);
    EXPECT_TRUE(error.starts_with("[graph] stage: ")) << error;
    EXPECT_TRUE(contains(error, c.what) && contains(error, c.where)) << error;
  }
}

/// Two pieces of work on x, the second on a stream of its own.
struct Forked {
  SideStream side{at::Device("cuda:0")};
  at::Tensor x = at::zeros({8}, at::TensorOptions(at::kFloat).device(at::Device("cuda:0")));
  at::Tensor y = at::zeros_like(x);

  static void draw(at::Tensor& t, uint64_t seed) {
    noise_uniform_(t, {.seed = seed, .stream = 0, .first = 0, .rows = 1, .count = 0});
  }
};

TEST(Captures, of_work_on_a_side_stream_do_it_in_every_replay) {
  GraphPool pool(at::Device("cuda:0"));
  Forked forked;
  StepGraph graph("stage");
  const auto stage = [&] {
    Forked::draw(forked.x, 1);
    forked.side.fork([&] {
      Forked::draw(forked.y, 2);
      forked.y.add_(forked.x);
    });
    forked.side.join();
    forked.x.add_(forked.y);
  };
  pool.on_side_stream([&] {
    stage();
    const at::Tensor x = forked.x.cpu(), y = forked.y.cpu();
    graph.capture(pool, stage);
    for (int replay = 0; replay < 3; ++replay) {
      forked.x.zero_(), forked.y.zero_();
      graph.run([] {});
      EXPECT_TRUE(at::equal(forked.x.cpu(), x) && at::equal(forked.y.cpu(), y));
    }
  });
}

TEST(Captures, of_a_stage_that_joins_without_a_fork_hold_no_wait) {
  GraphPool pool(at::Device("cuda:0"));
  Forked forked;
  StepGraph graph("stage");
  const auto stage = [&] {
    forked.side.join();
    forked.x.add_(1);
  };
  pool.on_side_stream([&] {
    // forked and joined before, as by eager work
    forked.side.fork([&] { Forked::draw(forked.y, 1); });
    forked.side.join();
    graph.capture(pool, stage);
    graph.run([] {});
    EXPECT_EQ(forked.x.cpu().sum().item<float>(), 8);
  });
}

TEST(Captures, or_eager_work_that_touches_what_a_side_stream_writes_is_a_fault_until_it_is_joined) {
  if (!emulation::checks_memory()) GTEST_SKIP() << "this build does not check memory";
  Forked forked;
  forked.side.fork([&] { Forked::draw(forked.x, 1); });
  EXPECT_NE(error_of([&] { Forked::draw(forked.x, 2); }), "");
  EXPECT_NE(error_of([&] { forked.x.add_(1); }), "") << "an operation of torch's";
  forked.side.join();
  EXPECT_EQ(error_of([&] { Forked::draw(forked.x, 2); }), "");

  // and the other way round
  forked.side.fork([&] { forked.y.add_(forked.x); });
  EXPECT_TRUE(contains(error_of([&] { Forked::draw(forked.x, 3); }),
                       "which aten::add on another stream reads"));
  // one that another stream reads as well is not forgotten for it
  auto z = at::zeros_like(forked.x);
  EXPECT_EQ(error_of([&] { z.add_(forked.x); }), "");
  EXPECT_TRUE(contains(error_of([&] { forked.x.zero_(); }), "which aten::add on another stream"));
  // nor where a third does
  SideStream third(at::Device("cuda:0"));
  auto a = at::zeros_like(forked.x), b = at::zeros_like(forked.x);
  forked.side.join();
  forked.side.fork([&] { a.add_(forked.x); });
  third.fork([&] { b.add_(forked.x); });
  z.add_(forked.x);
  third.join();
  EXPECT_TRUE(contains(error_of([&] { forked.x.zero_(); }), "which aten::add on another stream"));
  forked.side.join();
  EXPECT_EQ(error_of([&] { forked.x.zero_(); }), "");
  forked.side.fork([&] { forked.y.add_(forked.x); });
  EXPECT_NE(error_of([&] { forked.x.copy_(forked.y); }), "");
  forked.side.join();
  EXPECT_EQ(error_of([&] { forked.x.copy_(forked.y); }), "");
}

TEST(Captures, or_eager_work_that_stopped_is_followed_by_what_comes_next) {
  if (!emulation::checks_memory()) GTEST_SKIP() << "this build does not check memory";
  Forked forked;
  forked.side.fork([&] { Forked::draw(forked.x, 1); });
  forked.side.abandon();
  EXPECT_EQ(error_of([&] { Forked::draw(forked.x, 2); }), "");
}

TEST(Captures, or_eager_work_that_writes_memory_another_stream_still_reads_is_a_fault) {
  if (!emulation::checks_memory()) GTEST_SKIP() << "this build does not check memory";
  Forked forked;
  at::Tensor read = at::zeros({3}, forked.x.options());
  const void* place = read.data_ptr();
  forked.side.fork([&] { forked.y.narrow(0, 0, 3).copy_(read); });
  // given back to its own stream, before the other is joined
  read = at::Tensor();
  at::Tensor next = at::empty({3}, forked.x.options());
  ASSERT_EQ(next.data_ptr(), place);
  EXPECT_NE(error_of([&] { next.zero_(); }), "");
  forked.side.join();
  EXPECT_EQ(error_of([&] { next.zero_(); }), "");
}

TEST(Captures, or_eager_work_are_given_memory_that_their_own_stream_gave_back) {
  Forked forked;
  const void *before = nullptr, *beside = nullptr, *later = nullptr;
  forked.side.fork([&] {
    at::Tensor t = at::empty({5}, forked.x.options());
    before = t.data_ptr();
  });
  const at::Tensor mine = at::empty({5}, forked.x.options());
  forked.side.fork([&] { later = at::empty({5}, forked.x.options()).data_ptr(); });
  beside = mine.data_ptr();
  EXPECT_EQ(before, later);
  EXPECT_NE(before, beside);
  forked.side.join();
}

}  // namespace
}  // namespace maglev
