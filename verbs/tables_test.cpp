// The verbs that list what there is: each row of each table is shown, and a wrong name is answered
// with a near one.

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/env/entry.h"
#include "engine/algo/algorithm.h"
#include "engine/device/kernel.h"
#include "verbs/verb.h"

namespace maglev {
namespace {

const VerbEntry& find_verb(const std::string& name) {
  for (const VerbEntry& verb : verb_table())
    if (name == verb.name) return verb;
  throw Error("no verb " + name);
}

struct Outcome {
  int status;
  std::string text;
};

Outcome run(const std::string& verb, const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  const int status = find_verb(verb).run(words);
  std::fflush(stdout);
  return {status, testing::internal::GetCapturedStdout()};
}

std::string error_of(const std::string& verb, const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  std::string error = "no error";
  try {
    find_verb(verb).run(words);
  } catch (const Error& e) {
    error = e.what();
  }
  testing::internal::GetCapturedStdout();
  return error;
}

bool shows(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Verbs, envs_shows_every_environment_and_its_columns) {
  const Outcome all = run("envs", {});
  EXPECT_EQ(all.status, 0);
  for (const EnvEntry& env : env_table()) {
    EXPECT_TRUE(shows(all.text, std::string("\n") + env.name + " ")) << env.name;
    EXPECT_TRUE(shows(all.text, env.summary)) << env.name;
    const Outcome one = run("envs", {env.name});
    std::vector<std::max_align_t> params(env.params_bytes / sizeof(std::max_align_t) + 1);
    env.make_params(params.data());
    for (const ObsColumn& column : env.spec(params.data()).observations)
      EXPECT_TRUE(shows(one.text, "observation  " + column.name + " ")) << env.name;
    OptionTable settings;
    settings.section("env", [&](OptionTable& t) { env.describe(t, params.data()); });
    for (const Field& field : settings.fields())
      EXPECT_TRUE(shows(one.text, "  " + field.name + " ")) << field.name;
  }
}

TEST(Verbs, algos_shows_every_algorithm_and_every_setting) {
  const Outcome all = run("algos", {});
  for (const AlgoEntry& algo : algo_table()) {
    EXPECT_TRUE(shows(all.text, std::string("\n") + algo.name + " ")) << algo.name;
    const Outcome one = run("algos", {algo.name});
    OptionsBox options = algo.make_options();
    OptionTable settings;
    settings.section(algo.name, [&](OptionTable& t) { algo.describe(t, options.get()); });
    ASSERT_FALSE(settings.fields().empty());
    for (const Field& field : settings.fields())
      EXPECT_TRUE(shows(one.text, "  " + field.name + " ")) << field.name;
  }
}

TEST(Verbs, kernels_shows_every_kernel) {
  const Outcome all = run("kernels", {"list"});
  EXPECT_EQ(all.text, run("kernels", {}).text);
  for (const KernelEntry& kernel : kernel_table()) {
    const size_t begin = all.text.find(std::string("\n") + kernel.name + " ");
    ASSERT_NE(begin, std::string::npos) << kernel.name;
    const std::string row = all.text.substr(begin, all.text.find('\n', begin + 1) - begin);
    EXPECT_EQ(shows(row, "CPU, CUDA"), kernel.cuda) << row;
  }
}

TEST(Verbs, kernels_test_shows_every_case_of_the_named_kernel) {
  unsetenv("MAGLEV_TOL_SCALE");
  const Outcome passed = run("kernels", {"test", "gae"});
  EXPECT_EQ(passed.status, 0);
  for (const KernelEntry& kernel : kernel_table()) {
    if (std::string(kernel.name) != "gae") continue;
    for (const KernelCase& one : kernel.cases(at::kCPU))
      EXPECT_TRUE(shows(passed.text, one.name)) << one.name;
  }
  EXPECT_TRUE(shows(passed.text, " 0 failed"));
  EXPECT_FALSE(shows(passed.text, "philox"));
}

TEST(Verbs, doctor_prints_the_same_facts_as_text_and_as_json) {
  const Outcome text = run("doctor", {"--quick", "threads=1"});
  const auto json = nlohmann::json::parse(run("doctor", {"--quick", "--json", "threads=1"}).text);
  EXPECT_EQ(json.at("a_run_uses").at("threads").at("value"), 1);
  EXPECT_TRUE(shows(text.text, "  threads         1: asked for\n")) << text.text;
  EXPECT_FALSE(json.contains("measured"));
}

TEST(Verbs, a_wrong_name_is_answered_with_a_near_one) {
  EXPECT_TRUE(shows(error_of("envs", {"acrobo"}), "did you mean acrobot?"));
  EXPECT_TRUE(shows(error_of("algos", {"pppo"}), "did you mean ppo?"));
  EXPECT_EQ(error_of("kernels", {"test", "gaee"}),
            "[kernels] unknown kernel 'gaee'; did you mean gae?");
  EXPECT_EQ(error_of("kernels", {"tset"}), "[kernels] unknown action 'tset'; did you mean test?");
  EXPECT_TRUE(shows(error_of("kernels", {"list", "gae"}), "list takes no kernel"));
  EXPECT_EQ(error_of("doctor", {"--jason"}),
            "[doctor] unknown flag '--jason'; did you mean --json?");
  EXPECT_TRUE(shows(error_of("doctor", {"device=gpu"}), "[device] must be auto, cpu, cuda"));
}

TEST(Verbs, each_explains_itself) {
  for (const char* name : {"envs", "algos", "kernels", "doctor"}) {
    const Outcome help = run(name, {"--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_TRUE(shows(help.text, std::string("usage: maglev ") + find_verb(name).usage)) << name;
    EXPECT_TRUE(shows(help.text, find_verb(name).summary)) << name;
  }
}

}  // namespace
}  // namespace maglev
