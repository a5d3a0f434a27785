#include "base/processes/machine_line.h"

#include <atomic>
#include <functional>
#include <numeric>
#include <thread>
#include <unistd.h>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/core/bfloat16.h"
#include "base/core/clock.h"
#include "base/processes/process_group.h"
#include "tests/errors.h"
#include "tests/members.h"

namespace maglev {
namespace {

const std::string kBuild = "maglev 1, torch 2";
// as long as only what hangs takes
constexpr double kPatience_s = 100;
void nobody(const std::string&) {}

// where the first machine said that it waits
class Address {
 public:
  void hear(const std::string& line) {
    const size_t colon = line.rfind(':');
    if (line.starts_with("waits for")) port_ = std::stoi(line.substr(colon + 1));
  }
  std::string text() const {
    while (port_ == 0) usleep(1000);
    return "127.0.0.1:" + std::to_string(port_);
  }

 private:
  std::atomic<int> port_ = 0;
};

// a connection to "127.0.0.1:PORT"
int connected(const std::string& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(uint16_t(std::stoi(address.substr(address.rfind(':') + 1))));
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

using Work = std::function<void(std::unique_ptr<MachineLine>)>;

// a thread for each machine; what went wrong in each, empty: nothing
std::vector<std::string> on_machines(int machines, int processes, const Work& work) {
  Address address;
  std::vector<std::string> errors(static_cast<size_t>(machines));
  std::vector<std::thread> threads;
  for (int m = 0; m < machines; ++m)
    threads.emplace_back([&, m] {
      int machine = m;
      std::unique_ptr<MachineLine> line;
      const std::string error = error_of([&] {
        line = m == 0 ? MachineLine::lead(
                            "127.0.0.1:0",
                            {.machines = machines, .processes = processes, .build = kBuild},
                            [&](const std::string& said) { address.hear(said); })
                      : MachineLine::join(address.text(), kBuild, kPatience_s, nobody);
        machine = line->machine();
        work(std::move(line));
      });
      errors[size_t(machine)] = error;
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void expect_none(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

// with a machine for each process
std::vector<std::string> in_machines(int size, const std::function<void(ProcessGroup&)>& work) {
  return on_machines(size, size, [&](std::unique_ptr<MachineLine> line) {
    const auto group = ProcessGroup::lead(size, {}, std::move(line));
    try {
      work(*group);
    } catch (const std::exception& e) {
      group->fail(e.what());
      throw;
    }
    group->wait_for_end();
  });
}

// values whose sum depends on its order
float own_value(int rank, size_t i) {
  return (float(rank) + 0.1f) * 1.7f + float(i % 1013) * 1e-4f * float(rank * rank + 1);
}

template <class T>
void expect_sums(ProcessGroup& group, size_t count) {
  const auto as_given = [](float value) {
    if constexpr (std::is_same_v<T, uint16_t>) return bfloat16_bits(value);
    else return T(value);
  };
  const auto wide = [](T value) {
    if constexpr (std::is_same_v<T, uint16_t>) {
      const uint32_t bits = uint32_t(value) << 16;
      float number;
      std::memcpy(&number, &bits, sizeof number);
      return number;
    } else {
      return value;
    }
  };
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = as_given(own_value(group.rank(), i));
  group.sum(values.data(), count);
  for (size_t i = 0; i < count; ++i) {
    auto sum = wide(as_given(own_value(0, i)));
    for (int r = 1; r < group.size(); ++r) sum += wide(as_given(own_value(r, i)));
    T expected;
    if constexpr (std::is_same_v<T, uint16_t>) expected = bfloat16_bits(sum);
    else expected = sum;
    if (values[i] != expected)
      throw Error("a sum of " + std::to_string(count) + " is another at " + std::to_string(i));
  }
}

void expect_gathers(ProcessGroup& group, size_t bytes) {
  const std::vector<char> own(bytes, char('a' + group.rank()));
  std::vector<char> all(bytes * size_t(group.size()));
  group.gather(own.data(), bytes, all.data());
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] != char('a' + i / bytes)) throw Error("what was gathered is not in order of rank");
}

void expect_words(ProcessGroup& group) {
  const std::string large(size_t(3) << 20, 'x');
  for (const std::string& word : {std::string(), std::string("one"), large}) {
    if (group.rank() == 0) group.tell(word);
    else if (group.hear() != word) throw Error("a word came otherwise");
  }
}

class Machines : public testing::TestWithParam<int> {};

TEST_P(Machines, add_in_order_of_rank_gather_and_hear_whatever_the_size) {
  expect_none(in_machines(GetParam(), [](ProcessGroup& group) {
    expect_words(group);
    for (const size_t count : {size_t(1), size_t(1000), size_t(100'003), size_t(9) << 20}) {
      expect_sums<float>(group, count);
      expect_sums<uint16_t>(group, count);
    }
    expect_sums<double>(group, 70'001);
    for (const size_t bytes : {size_t(1), size_t(4096), (size_t(33) << 20) + 1})
      expect_gathers(group, bytes);
    // in whatever turn, with nobody at the last thing while another is at the next
    for (int i = 0; i < 300; ++i) {
      expect_sums<float>(group, i % 2 ? 7 : 20'000);
      expect_gathers(group, 3);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Line, Machines, testing::Values(2, 3, 5));

// a process of its own of a machine
TEST(MachinesMembers, DISABLED_member) {
  const auto group = ProcessGroup::join(own_place());
  try {
    for (std::string what; (what = group->hear()) != "end";) {
      if (what == "one fails" && group->rank() == 3) throw Error("[test] it could not");
      for (const size_t count : {size_t(5), size_t(50'000)}) expect_sums<float>(*group, count);
      expect_gathers(*group, 5);
    }
  } catch (const std::exception& e) {
    group->fail(e.what());
    throw;
  }
}

// two machines of two processes
std::vector<std::string> four_told(const std::string& word) {
  return on_machines(2, 4, [&](std::unique_ptr<MachineLine> line) {
    const auto group =
        ProcessGroup::lead(4, member_command("MachinesMembers.DISABLED_member"), std::move(line));
    for (std::string what; what != "end";) {
      if (group->rank() == 0) group->tell(what = what.empty() ? word : "end");
      else what = group->hear();
      if (what == "end") break;
      for (const size_t count : {size_t(5), size_t(50'000)}) expect_sums<float>(*group, count);
      expect_gathers(*group, 5);
    }
    group->wait_for_end();
  });
}

TEST(MachineLine, has_several_processes_on_each_machine) { expect_none(four_told("add")); }

TEST(MachineLine, all_hear_why_a_process_of_one_has_failed) {
  for (const std::string& error : four_told("one fails")) EXPECT_EQ(error, "[test] it could not");
}

TEST(MachineLine, all_hear_why_a_machine_has_failed) {
  for (const int who : {0, 1, 2})
    for (const std::string& error : in_machines(3, [&](ProcessGroup& group) {
           expect_sums<float>(group, 50'000);
           if (group.rank() == who) throw Error("[test] it could not");
           for (;;) expect_sums<float>(group, 50'000);
         }))
      EXPECT_EQ(error, "[test] it could not");
}

TEST(MachineLine, one_that_is_gone_is_named) {
  const auto errors = on_machines(3, 3, [](std::unique_ptr<MachineLine> line) {
    const int machine = line->machine();
    const auto group = ProcessGroup::lead(3, {}, std::move(line));
    expect_gathers(*group, 9);
    // as one that is killed
    if (machine == 2) return;
    expect_gathers(*group, 9);
  });
  EXPECT_EQ(errors[2], "");
  for (const int machine : {0, 1}) {
    const std::string& error = errors[size_t(machine)];
    EXPECT_TRUE(contains(error, "machine 3 of the run, ")) << error;
    EXPECT_TRUE(contains(error, "resume the run from its newest checkpoint")) << error;
  }
}

TEST(MachineLine, machines_that_make_different_calls_are_told) {
  for (const size_t first : {size_t(5), size_t(50'000)}) {
    const auto errors = in_machines(2, [&](ProcessGroup& group) {
      expect_sums<float>(group, group.rank() == 0 ? first : first + 1);
    });
    for (const std::string& error : errors)
      EXPECT_TRUE(contains(error, "is at something else than this one")) << error;
  }
}

TEST(MachineLine, a_call_that_came_as_a_whole_before_it_was_waited_for_is_looked_at_too) {
  const auto errors = on_machines(2, 2, [](std::unique_ptr<MachineLine> line) {
    std::byte bytes[2] = {};
    const int machine = line->machine();
    // the other's is there by then
    if (machine == 1) usleep(50'000);
    line->exchange(uint64_t(machine), {{{&bytes[0], 1}}, {{&bytes[1], 1}}});
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(contains(error, "is at something else than this one")) << error;
}

TEST(MachineLine, those_that_call_and_say_nothing_hold_nobody_up) {
  Address address;
  std::unique_ptr<MachineLine> first;
  std::thread leads([&] {
    first = MachineLine::lead("127.0.0.1:0", {.machines = 2, .processes = 2, .build = kBuild},
                              [&](const std::string& line) { address.hear(line); });
  });
  const std::string text = address.text();
  // each would be waited for, for ten seconds
  std::vector<int> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connected(text));
  const double begin = steady_s();
  EXPECT_EQ(MachineLine::join(text, kBuild, kPatience_s, nobody)->machine(), 1);
  EXPECT_LT(steady_s() - begin, kPatience_s);
  leads.join();
  for (const int fd : silent) ::close(fd);
}

TEST(MachineLine, another_build_is_refused_and_one_that_is_no_machine_passed_over) {
  Address address;
  std::vector<std::string> said;
  std::unique_ptr<MachineLine> first;
  std::thread leads([&] {
    first = MachineLine::lead("127.0.0.1:0", {.machines = 2, .processes = 2, .build = kBuild},
                              [&](const std::string& line) {
                                said.push_back(line);
                                address.hear(line);
                              });
  });
  const std::string error =
      error_of([&] { MachineLine::join(address.text(), "maglev 2", kPatience_s, nobody); });
  EXPECT_TRUE(contains(error, "its program is maglev 1, torch 2, this one is maglev 2")) << error;
  // a browser, say
  const std::string text = address.text();
  const int fd = connected(text);
  const std::string request = "GET / HTTP/1.1\r\n\r\n";
  EXPECT_EQ(::send(fd, request.data(), request.size(), 0), ssize_t(request.size()));
  const auto second = MachineLine::join(text, kBuild, kPatience_s, nobody);
  leads.join();
  ::close(fd);
  EXPECT_EQ(second->machine(), 1);
  EXPECT_EQ(second->run().processes, 2);
  ASSERT_EQ(said.size(), 3u);
  EXPECT_TRUE(contains(said[0], "waits for 1 of 2 machines; on each: ./maglev join 127.0.0.1:"));
  EXPECT_TRUE(contains(said[1], "was refused: its program is maglev 2")) << said[1];
  EXPECT_TRUE(contains(said[2], "has come, 2 of 2")) << said[2];
}

TEST(MachineLine, one_that_waits_and_leaves_is_not_counted) {
  Address address;
  std::atomic<bool> came = false, left = false;
  std::unique_ptr<MachineLine> first;
  std::thread leads([&] {
    first = MachineLine::lead("127.0.0.1:0", {.machines = 3, .processes = 3, .build = kBuild},
                              [&](const std::string& line) {
                                address.hear(line);
                                came = came || contains(line, "has come");
                                left = left || contains(line, "left again");
                              });
  });
  const std::string text = address.text();
  // it comes, and is killed before the others do
  const pid_t child = fork();
  if (child == 0) {
    try {
      MachineLine::join(text, kBuild, kPatience_s, nobody);
    } catch (const Error&) {
    }
    _exit(0);
  }
  while (!came) usleep(1000);
  kill(child, SIGKILL);
  while (!left) usleep(1000);
  std::vector<std::thread> others;
  std::atomic<int> numbers = 0;
  for (int i = 0; i < 2; ++i)
    others.emplace_back(
        [&] { numbers += MachineLine::join(text, kBuild, kPatience_s, nobody)->machine(); });
  for (std::thread& other : others) other.join();
  leads.join();
  EXPECT_EQ(numbers, 1 + 2);
}

TEST(MachineLine, what_is_no_address_and_where_nobody_listens_is_told) {
  for (const char* address : {"", "29500", "host:", "host:x", "host:123456", "a:b:1", ":7"})
    EXPECT_TRUE(contains(error_of([&] { MachineLine::join(address, kBuild, 0, nobody); }),
                         "an address is HOST:PORT"))
        << address;
  EXPECT_TRUE(contains(error_of([&] { MachineLine::join("127.0.0.1:1", kBuild, 0.3, nobody); }),
                       "nobody listens"));
  EXPECT_TRUE(contains(
      error_of([&] { MachineLine::lead("192.0.2.1:29500", {.machines = 2, .processes = 2}, {}); }),
      "cannot be listened at"));
}

}  // namespace
}  // namespace maglev
