// What the emulated device catches: one wrong kernel a test, beside its right form.

#include "tests/emulation/faults.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/device/dependent_launch.h"
#include "tests/emulation/device.h"

namespace maglev {
namespace {

/// Device memory, written or not.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), cudaSuccess);
  }
  explicit OnDevice(const std::vector<T>& x) : OnDevice(x.size()) {
    cudaMemcpy(data_, x.data(), count_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() const { return data_; }
  std::vector<T> fetch() const {
    std::vector<T> x(count_);
    cudaMemcpy(x.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return x;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

std::vector<float> numbers(size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = float(i);
  return x;
}

/// What the device says of `work`; "nothing" where it says nothing.
std::string fault_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const emulation::Fault& fault) {
    return fault.what();
  }
  return "nothing";
}

void expect_fault(const std::function<void()>& work, const std::vector<std::string>& parts) {
  const std::string said = fault_of(work);
  for (const std::string& part : parts)
    EXPECT_NE(said.find(part), std::string::npos) << "expected '" << part << "' in: " << said;
}

// what only checked loads and stores show
class MemoryFault : public testing::Test {
 protected:
  void SetUp() override {
    if (!emulation::checks_memory()) GTEST_SKIP() << "loads and stores are the sanitizer's here";
  }
};

TEST_F(MemoryFault, a_missing_barrier_is_caught) {
  OnDevice<float> x(numbers(64)), out(64);
  expect_fault([&] { faults::reverse(x.data(), out.data(), false); },
               {"kernel turn_around (faults.cu), block (0, 0, 0), thread (",
                "of shared memory 'turned'", "with nothing between that orders the two"});
}

TEST(EmulatedDevice, runs_threads_through_barriers) {
  OnDevice<float> x(numbers(64)), out(64);
  faults::reverse(x.data(), out.data(), true);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(out.fetch()[i], float(63 - i));
}

TEST_F(MemoryFault, lanes_that_rely_on_running_side_by_side_are_caught) {
  OnDevice<float> x(numbers(32)), out(1);
  expect_fault([&] { faults::pairs(x.data(), out.data(), false); },
               {"kernel add_pairs (faults.cu)", "shared memory 'sums'"});
}

TEST(EmulatedDevice, orders_the_lanes_of_a_warp_where_they_synchronise) {
  OnDevice<float> x(numbers(32)), out(1);
  faults::pairs(x.data(), out.data(), true);
  EXPECT_EQ(out.fetch()[0], 31.f * 16.f);
}

TEST(EmulatedDevice, catches_a_barrier_that_some_threads_never_reach) {
  expect_fault([] { faults::some_wait(48); },
               {"kernel wait_below (faults.cu), block (0, 0, 0), thread (0, 0, 0): waits in "
                "__syncthreads at faults.cu:",
                "for thread (48, 0, 0), which has ended"});
  EXPECT_EQ(fault_of([] { faults::some_wait(64); }), "nothing");
  EXPECT_EQ(fault_of([] { faults::some_wait(0); }), "nothing");
}

TEST(EmulatedDevice, catches_threads_that_wait_at_different_barriers) {
  expect_fault(
      [] { faults::two_barriers(); },
      {"thread (32, 0, 0): waits in __syncthreads at faults.cu:", "while thread (0, 0, 0) waits",
       "all threads of a block must come to the same barrier"});
}

TEST_F(MemoryFault, a_pointer_that_is_not_aligned_as_its_type_is_is_caught) {
  OnDevice<float> x(numbers(40)), out(32);
  const auto* between = reinterpret_cast<const std::byte*>(x.data()) + 2;
  expect_fault(
      [&] { faults::twice(reinterpret_cast<const float*>(between), out.data(), 1); },
      {"kernel double_each<float> (faults.cu)", "reads 4 bytes at an address that is no multiple"});
}

TEST_F(MemoryFault, a_grid_with_a_block_too_many_is_caught) {
  OnDevice<float> x(numbers(64)), out(64);
  expect_fault([&] { faults::twice(x.data(), out.data(), 3); },
               {"kernel double_each<float> (faults.cu), block (2, 0, 0), thread (0, 0, 0): reads 4 "
                "bytes outside",
                "at byte 256 of device memory of 256 bytes"});
}

TEST_F(MemoryFault, a_grid_with_a_block_too_few_is_caught_where_its_results_are_read) {
  OnDevice<float> x(numbers(64)), out(64), after(64);
  faults::twice(x.data(), out.data(), 1);
  expect_fault([&] { faults::twice(out.data(), after.data(), 2); },
               {"block (1, 0, 0), thread (0, 0, 0): reads 4 bytes that were never written",
                "at byte 128 of device memory of 256 bytes"});
}

TEST_F(MemoryFault, bytes_are_checked_one_by_one) {
  OnDevice<uint8_t> x(std::vector<uint8_t>(40, 1)), out(40);
  expect_fault([&] { faults::twice_bytes(x.data(), out.data(), 2); },
               {"block (1, 0, 0), thread (8, 0, 0): reads 1 byte outside"});
}

TEST_F(MemoryFault, an_unwritten_element_of_shared_memory_is_caught) {
  OnDevice<float> out(32);
  expect_fault(
      [&] { faults::reads_unwritten_shared(out.data()); },
      {"thread (0, 0, 0): reads 4 bytes that were never written: at byte 28 of shared memory "
       "'numbers'"});
}

TEST_F(MemoryFault, a_write_behind_shared_memory_is_caught) {
  OnDevice<float> out(32);
  expect_fault([&] { faults::writes_behind_shared(out.data()); },
               {"kernel write_behind (faults.cu)", "thread (31, 0, 0): writes 4 bytes outside",
                "shared memory 'numbers'"});
  expect_fault(
      [] { faults::writes_behind_dynamic_shared(124); },
      {"thread (31, 0, 0): writes 4 bytes outside", "dynamic shared memory, which has 124"});
  EXPECT_EQ(fault_of([] { faults::writes_behind_dynamic_shared(128); }), "nothing");
}

TEST_F(MemoryFault, memory_that_was_freed_is_nobodys) {
  OnDevice<float> x(numbers(32));
  float* gone = OnDevice<float>(32).data();
  expect_fault([&] { faults::twice(x.data(), gone, 1); }, {"writes 4 bytes outside of its memory"});
}

TEST_F(MemoryFault, the_hosts_memory_is_not_the_devices) {
  OnDevice<float> out(32);
  const auto x = numbers(32);
  expect_fault([&] { faults::twice(x.data(), out.data(), 1); },
               {"reads 4 bytes outside of its memory"});
}

TEST_F(MemoryFault, threads_that_count_without_atomics_are_caught) {
  OnDevice<unsigned long long> counter(std::vector<unsigned long long>{0});
  expect_fault([&] { faults::count(counter.data(), false); },
               {"kernel count_threads (faults.cu), block (0, 0, 0), thread (1, 0, 0)",
                "which block (0, 0, 0), thread (0, 0, 0)"});
}

TEST(EmulatedDevice, lets_atomics_of_all_blocks_meet) {
  OnDevice<unsigned long long> counter(std::vector<unsigned long long>{0});
  faults::count(counter.data(), true);
  EXPECT_EQ(counter.fetch()[0], 64u);
}

TEST(EmulatedDevice, catches_a_shuffle_with_a_lane_that_has_ended) {
  OnDevice<float> out(32);
  expect_fault(
      [&] { faults::sum_of_some(out.data(), 20); },
      {"kernel add_lanes (faults.cu)", "shuffles at faults.cu:", "with a lane that takes no part"});
  faults::sum_of_some(out.data(), 32);
  EXPECT_EQ(out.fetch()[31], 32.f);
}

TEST(EmulatedDevice, refuses_launches_beyond_the_hardware) {
  const std::string kernel = "[emulated device] kernel nothing (faults.cu): ";
  expect_fault([] { faults::launch_of({1}, {2048}, 0); },
               {kernel + "launched with blocks of (2048, 1, 1) threads; a block has 1 to 1024"});
  expect_fault([] { faults::launch_of({1}, {32, 64}, 0); }, {"blocks of (32, 64, 1) threads"});
  expect_fault([] { faults::launch_of({0}, {32}, 0); },
               {kernel + "launched with a grid of (0, 1, 1)"});
  expect_fault([] { faults::launch_of({1, 65536}, {32}, 0); }, {"a grid of (1, 65536, 1) blocks"});
  expect_fault([] { faults::launch_of({1}, {32}, 50000); },
               {"50000 bytes of dynamic shared memory; a block has 49152"});
  EXPECT_EQ(fault_of([] { faults::launch_of({2}, {1024}, 49152); }), "nothing");
}

TEST_F(MemoryFault, more_static_shared_memory_than_a_block_has_is_caught) {
  OnDevice<float> out(32);
  expect_fault([&] { faults::uses_much_shared(out.data()); },
               {"kernel fill_much (faults.cu)", "needs 61440 bytes of shared memory"});
}

TEST(LaunchKernel, returns_an_error_for_a_shape_no_device_takes_and_does_nothing_for_no_blocks) {
  emulation::clear_launches();
  EXPECT_EQ(faults::launched(0, 32), int(cudaSuccess));
  EXPECT_EQ(faults::launched(1, 2048), int(cudaErrorInvalidConfiguration));
  EXPECT_EQ(faults::launched(int64_t(1) << 32, 32), int(cudaErrorInvalidConfiguration));
  EXPECT_TRUE(emulation::launches().empty());
  EXPECT_EQ(faults::launched(3, 32), int(cudaSuccess));
  EXPECT_EQ(emulation::launches().at("nothing (faults.cu)"), 1);
}

TEST_F(MemoryFault, a_read_ahead_of_the_wait_for_the_launch_that_writes_is_caught) {
  OnDevice<float> x(numbers(32)), between(32), after(32), out(32);
  cudaDeviceSynchronize();
  faults::twice(x.data(), between.data(), 1);
  expect_fault([&] { faults::adds_early(between.data(), x.data(), out.data()); },
               {"kernel add_early (faults.cu)", "reads 4 bytes at byte 0 of device memory",
                "which kernel double_each<float> (faults.cu) writes, before it waits"});
}

TEST(EmulatedDevice, lets_a_kernel_read_ahead_what_is_two_launches_old) {
  OnDevice<float> x(numbers(32)), between(32), after(32), out(32);
  faults::twice(x.data(), between.data(), 1);
  faults::twice(between.data(), after.data(), 1);
  faults::adds_early(between.data(), after.data(), out.data());
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(out.fetch()[i], float(6 * i));
}

TEST_F(MemoryFault, a_write_ahead_of_the_wait_for_the_launch_that_reads_is_caught) {
  OnDevice<float> x(numbers(32)), out(32);
  cudaDeviceSynchronize();
  faults::twice(x.data(), out.data(), 1);
  expect_fault([&] { faults::writes_early(x.data()); },
               {"kernel write_early (faults.cu)", "writes 4 bytes at byte 0 of device memory",
                "which kernel double_each<float> (faults.cu) reads, before it waits"});
}

TEST(EmulatedDevice, catches_a_kernel_whose_threads_do_not_wait_for_the_launch_ahead) {
  OnDevice<float> out(32);
  expect_fault([&] { faults::some_wait_for_earlier(out.data(), 20); },
               {"kernel wait_by_some (faults.cu), block (0, 0, 0), thread (20, 0, 0): ends without "
                "wait_for_earlier()"});
  EXPECT_EQ(fault_of([&] { faults::some_wait_for_earlier(out.data(), 32); }), "nothing");
}

TEST(LaunchKernel, begins_early_where_the_process_says_so) {
  emulation::clear_launches();
  faults::launched(1, 32);
  EXPECT_EQ(emulation::dependent_launches(), 0);
  dependent_launch() = true;
  faults::launched(1, 32);
  dependent_launch() = false;
  EXPECT_EQ(emulation::dependent_launches(), 1);
}

class Streams : public MemoryFault {
 protected:
  void SetUp() override {
    MemoryFault::SetUp();
    for (auto* stream : {&first, &second}) cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaDeviceSynchronize();
  }
  void TearDown() override {
    if (!event) return;
    cudaStreamDestroy(first), cudaStreamDestroy(second), cudaEventDestroy(event);
  }
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t event = nullptr;
};

TEST_F(Streams, that_nothing_orders_are_caught_where_they_meet) {
  OnDevice<float> x(numbers(32)), between(32), out(32);
  faults::twice(x.data(), between.data(), 1, first);
  expect_fault([&] { faults::twice(between.data(), out.data(), 1, second); },
               {"reads 4 bytes at byte 0 of device memory of 128 bytes",
                "which kernel double_each<float> (faults.cu) on another stream writes"});
}

TEST_F(Streams, that_an_event_orders_may_share_memory) {
  OnDevice<float> x(numbers(32)), between(32), out(32);
  faults::twice(x.data(), between.data(), 1, first);
  cudaEventRecord(event, first);
  cudaStreamWaitEvent(second, event);
  faults::twice(between.data(), out.data(), 1, second);
  cudaStreamSynchronize(second);
  EXPECT_EQ(out.fetch()[31], 4 * 31.f);
}

TEST_F(Streams, an_event_recorded_too_early_orders_nothing) {
  OnDevice<float> x(numbers(32)), between(32), out(32);
  cudaEventRecord(event, first);
  faults::twice(x.data(), between.data(), 1, first);
  cudaStreamWaitEvent(second, event);
  expect_fault([&] { faults::twice(between.data(), out.data(), 1, second); }, {"another stream"});
}

TEST_F(Streams, a_copy_that_does_not_wait_is_caught) {
  OnDevice<float> x(numbers(32)), out(32);
  std::vector<float> host(32);
  faults::twice(x.data(), out.data(), 1, first);
  expect_fault(
      [&] { cudaMemcpyAsync(host.data(), out.data(), 128, cudaMemcpyDeviceToHost, second); },
      {"kernel cudaMemcpyAsync",
       "which kernel double_each<float> (faults.cu) on another stream writes"});
}

}  // namespace
}  // namespace maglev
