#include "base/processes/process_group.h"

#include <cmath>
#include <csignal>
#include <functional>
#include <numeric>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/core/bfloat16.h"
#include "base/core/error.h"
#include "base/core/thread_pool.h"
#include "tests/errors.h"
#include "tests/members.h"

namespace maglev {
namespace {

constexpr int kSize = 3;
// more than processes show at once, and no multiple of what they share out
constexpr size_t kMany = (size_t(40) << 20) / sizeof(float) + 5;

float value_at(int rank, size_t i) { return float(rank + 1) * 0.1f + float(i % 1000) * 1e-3f; }

std::vector<float> own_values(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = value_at(rank, i);
  return values;
}

// 0 + 1 + 2, in this order
float sum_at(size_t i) { return value_at(0, i) + value_at(1, i) + value_at(2, i); }

void add(ProcessGroup& group, size_t count) {
  auto values = own_values(group.rank(), count);
  group.sum(values.data(), count);
  for (size_t i = 0; i < count; ++i)
    if (values[i] != sum_at(i))
      throw Error("a sum of " + std::to_string(count) + " is " + std::to_string(values[i]) +
                  " at " + std::to_string(i));
}

void add_other_types(ProcessGroup& group) {
  double wide = 1e-12 * (group.rank() + 1);
  group.sum(&wide, 1);
  if (wide != 1e-12 + 2e-12 + 3e-12) throw Error("f64 is not added as such");
  uint16_t narrow = bfloat16_bits(1 + float(group.rank()));
  group.sum(&narrow, 1);
  if (narrow != bfloat16_bits(6)) throw Error("bf16 is not added as such");
}

void gather_all(ProcessGroup& group, size_t bytes) {
  const std::vector<char> own(bytes, char('a' + group.rank()));
  std::vector<char> all(bytes * kSize);
  group.gather(own.data(), bytes, all.data());
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] != char('a' + i / bytes)) throw Error("what was gathered is not in order of rank");
}

// what each process does, by name
void act(ProcessGroup& group, const std::string& what) {
  if (what == "sums") {
    for (size_t count : {size_t(1), size_t(1000), size_t(100'003), kMany}) add(group, count);
    add_other_types(group);
    for (int i = 0; i < 2000; ++i) add(group, 7);
  } else if (what == "sums and a byte") {
    for (int i = 0; i < 1000; ++i) add(group, 7);
    gather_all(group, 1);
  } else if (what == "gathers") {
    for (size_t bytes : {size_t(1), size_t(4096), (size_t(33) << 20) + 1}) gather_all(group, bytes);
  } else if (what == "one fails") {
    if (group.rank() == 2) throw Error("[test] it could not");
    add(group, 10);
  } else if (what == "one is killed") {
    if (group.rank() == 1) raise(SIGKILL);
    add(group, 10);
  } else if (what == "one is out of step") {
    if (group.rank() == 2) return gather_all(group, 40);
    add(group, 10);
  } else if (what == "one waits") {
    if (group.rank() == 1) sleep(1);
    add(group, 10);
  }
}

TEST(ProcessGroup, DISABLED_member) {
  const auto group = ProcessGroup::join(own_place());
  try {
    for (std::string what; (what = group->hear()) != "end";) act(*group, what);
  } catch (const std::exception& e) {
    group->fail(e.what());
    throw;
  }
}

std::unique_ptr<ProcessGroup> led() {
  return ProcessGroup::lead(kSize, member_command("ProcessGroup.DISABLED_member"));
}

void tell_and_act(ProcessGroup& group, const std::string& what) {
  group.tell(what);
  act(group, what);
}

TEST(ProcessGroup, adds_in_order_of_rank_and_gathers_whatever_the_size) {
  const auto group = led();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), kSize);
  // one may be at the next thing while another reads what the last one gave
  for (int i = 0; i < 10; ++i) tell_and_act(*group, "sums and a byte");
  tell_and_act(*group, "sums");
  tell_and_act(*group, "gathers");
  tell_and_act(*group, "one waits");
  group->tell("end");
  group->wait_for_end();
  EXPECT_EQ(group->lost(), "");
}

TEST(ProcessGroup, one_that_fails_ends_the_work_of_all_with_its_reason) {
  const auto group = led();
  EXPECT_EQ(error_of([&] { tell_and_act(*group, "one fails"); }), "[test] it could not");
  EXPECT_EQ(group->lost(), "[test] it could not");
}

TEST(ProcessGroup, one_that_is_killed_is_named) {
  const auto group = led();
  const std::string error = error_of([&] { tell_and_act(*group, "one is killed"); });
  EXPECT_TRUE(contains(error, "process 1 of the run ended: signal 9")) << error;
  EXPECT_TRUE(contains(error, "resume the run")) << error;
  // who went on all the same hears of it again
  EXPECT_EQ(error_of([&] { group->tell("anything"); }), error);
  EXPECT_EQ(group->lost(), error);
}

TEST(ProcessGroup, processes_that_make_different_calls_are_told) {
  const auto group = led();
  const std::string error = error_of([&] { tell_and_act(*group, "one is out of step"); });
  EXPECT_TRUE(contains(error, "is at something else than process")) << error;
}

TEST(ProcessGroup, a_command_that_does_not_exist_is_told) {
  const auto group = ProcessGroup::lead(2, {"/nowhere/maglev"});
  const std::string error = error_of([&] { group->tell("anything"); });
  EXPECT_TRUE(contains(error, "process 1 of the run could not be started")) << error;
}

TEST(ProcessGroup, a_place_that_nobody_gave_is_refused) {
  for (const char* place : {"", "x", "1", "0:0", "5:1", "0:2:2", "0:1:999"})
    EXPECT_TRUE(contains(error_of([&] { ProcessGroup::join(place); }), "is no place in a run"))
        << place;
}

TEST(ProcessGroup, the_leader_gets_its_processors_back) {
  const int before = usable_cpus();
  {
    const auto group = led();
    EXPECT_LE(usable_cpus(), before);
  }
  EXPECT_EQ(usable_cpus(), before);
}

}  // namespace
}  // namespace maglev
