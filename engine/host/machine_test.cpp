#include "engine/host/machine.h"

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace maglev {
namespace {

constexpr SeenDevices kNone{}, kTwo{.cuda = 2, .device_code = true};

at::Device device_named(const std::string& name, const SeenDevices& seen) {
  std::string why;
  const at::Device device = choose_device(name, seen, why);
  EXPECT_FALSE(why.empty()) << name;
  return device;
}

TEST(Device, is_the_one_that_was_named) {
  EXPECT_EQ(device_named("cpu", kTwo), at::Device(at::kCPU));
  EXPECT_EQ(device_named("cuda", kTwo), at::Device(at::kCUDA, 0));
  EXPECT_EQ(device_named("cuda:1", kTwo), at::Device(at::kCUDA, 1));
  EXPECT_EQ(device_named("auto", kTwo), at::Device(at::kCUDA, 0));
  EXPECT_EQ(device_named("auto", kNone), at::Device(at::kCPU));
  EXPECT_EQ(device_named("auto", {.cuda = 2, .device_code = false}), at::Device(at::kCPU));
}

TEST(Device, that_is_not_there_is_refused_with_those_that_are) {
  const auto refused = [](const std::string& name, const SeenDevices& seen) {
    return error_of([&] { device_named(name, seen); });
  };
  EXPECT_TRUE(contains(refused("cuda:2", kTwo), "2 CUDA devices, cuda:0 to cuda:1"));
  EXPECT_TRUE(contains(refused("cuda:1", {.cuda = 1, .device_code = true}),
                       "cuda:1 was asked for, but torch sees one CUDA device, cuda:0"));
  EXPECT_TRUE(contains(refused("cuda:0", kNone), "no CUDA device; use device=cpu"));
  EXPECT_TRUE(contains(refused("cuda", {.cuda = 1, .device_code = false}), "no device code"));
  for (const char* wrong : {"gpu", "cuda:-1", "cuda:x", "mps", ""})
    EXPECT_TRUE(contains(refused(wrong, kTwo), "must be auto, cpu, cuda or cuda:<index>")) << wrong;
  EXPECT_TRUE(contains(refused("mps", kNone), "Apple's GPUs, device=cpu does"));
}

TEST(Threads, are_taken_out_of_settings) {
  std::vector<std::string> settings{"env.size=3", "threads=2", "ppo.lr=1"};
  EXPECT_EQ(take_threads(settings), std::optional<int64_t>(2));
  EXPECT_EQ(settings, (std::vector<std::string>{"env.size=3", "ppo.lr=1"}));
  EXPECT_EQ(take_threads(settings), std::nullopt);
  EXPECT_TRUE(contains(error_of([] {
                         std::vector<std::string> wrong{"threads=-1"};
                         take_threads(wrong);
                       }),
                       "threads must be in [0, 1024], got '-1'"));
}

}  // namespace
}  // namespace maglev
