#include "engine/train/few_rows.h"

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace maglev {
namespace {

Placement gpu_of(int64_t bytes) {
  return {.device = at::Device(at::kCUDA, 0), .threads = 1, .device_bytes = bytes};
}

std::string note_of(const char* algo, const char* env, const std::string& setting, Origin origin,
                    const Placement& placement) {
  Experiment experiment(algo, env);
  const size_t equals = setting.find('=');
  experiment.table().set(setting.substr(0, equals), setting.substr(equals + 1), "test", origin);
  return few_rows_note(experiment, placement);
}

TEST(FewRows, of_a_proven_run_on_a_gpu_are_told_with_what_fills_it) {
  const Placement gpu = gpu_of(int64_t(80) << 30);
  const auto note = [&](const char* count, Origin origin) {
    return note_of("ppo", "cartpole", std::string("env.count=") + count, origin, gpu);
  };
  EXPECT_EQ(note("8", Origin::proven),
            "8 environments keep a GPU idle for the most part: env.count=16384 gives it rows "
            "enough, and changes what is learned; ./maglev tune ppo cartpole --learning "
            "env.count,ppo.minibatch finds what is fastest");
  // who chose them knows, and many are not few
  EXPECT_EQ(note("8", Origin::command_line), "");
  EXPECT_EQ(note("8", Origin::file), "");
  EXPECT_EQ(note("1024", Origin::proven), "");
}

TEST(FewRows, are_to_become_as_many_as_fit) {
  const auto note = [](int64_t mebibytes) {
    return note_of("ppo", "cartpole", "env.count=8", Origin::proven, gpu_of(mebibytes << 20));
  };
  EXPECT_TRUE(contains(note(350), " env.count=4096 ")) << note(350);
  EXPECT_EQ(note(270), "");
}

TEST(FewRows, are_nobodys_on_a_processor_and_with_a_replay) {
  const Placement cpu{.device = at::kCPU, .threads = 1};
  EXPECT_EQ(note_of("ppo", "cartpole", "env.count=8", Origin::proven, cpu), "");
  const Placement gpu = gpu_of(int64_t(80) << 30);
  EXPECT_EQ(note_of("dreamer", "cartpole", "env.count=4", Origin::proven, gpu), "");
}

}  // namespace
}  // namespace maglev
