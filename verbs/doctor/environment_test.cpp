#include "verbs/doctor/environment.h"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

namespace maglev::verbs::doctor {
namespace {

const EffectiveSetting* effective(const EnvironmentReport& report, const std::string& name) {
  for (const auto& one : report.effective)
    if (one.name == name) return &one;
  return nullptr;
}

const IgnoredVariable* ignored(const EnvironmentReport& report, const std::string& name) {
  for (const auto& one : report.ignored)
    if (one.name == name) return &one;
  return nullptr;
}

bool warns(const EnvironmentReport& report, const std::string& part) {
  return std::any_of(report.warnings.begin(), report.warnings.end(),
                     [&](const auto& warning) { return warning.find(part) != std::string::npos; });
}

// as a user's shell has it, on a machine with these
EnvironmentReport judged(const Environment& user, const Surroundings& around = {},
                         const System& system = {}) {
  return judge_environment(user, user, around, system);
}

TEST(DoctorEnvironment, what_nobody_reads_is_ignored_with_a_reason_and_advice) {
  for (const char* name :
       {"TORCH_CUDNN_BENCHMARK", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY",
        "KMP_BLOCKTIME", "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "THP_MEM_ALLOC_ENABLE",
        "OPENBLAS_NUM_THREADS", "NCCL_TREE_THRESHOLD", "TORCH_CUDNN_V8_API_ENABLED",
        "CUDA_LAUNCH_BLOCKING", "MIOPEN_FIND_MODE"}) {
    const auto report = judged({{name, "1"}});
    ASSERT_TRUE(ignored(report, name)) << name;
    EXPECT_EQ(ignored(report, name)->value, "1");
    EXPECT_GT(ignored(report, name)->why.size(), 20u) << name;
    EXPECT_FALSE(effective(report, name)) << name;
  }
  EXPECT_TRUE(judged({}).ignored.empty());
}

TEST(DoctorEnvironment, a_value_that_means_nothing_does_not_hold) {
  const std::pair<const char*, const char*> wrong[] = {{"ATEN_CPU_CAPABILITY", "avx9"},
                                                       {"ATEN_CPU_CAPABILITY", "AVX2"},
                                                       {"ONEDNN_MAX_CPU_ISA", "AVX5"},
                                                       {"MKL_ENABLE_INSTRUCTIONS", "FOO"},
                                                       {"MKL_CBWR", "FOO"}};
  for (const auto& [name, value] : wrong) {
    const auto report = judged({{name, value}});
    ASSERT_TRUE(ignored(report, name)) << name;
    EXPECT_NE(ignored(report, name)->why.find("no value that it has"), std::string::npos);
    EXPECT_FALSE(effective(report, name)) << name;
  }
  const std::pair<const char*, const char*> right[] = {{"ATEN_CPU_CAPABILITY", "avx2"},
                                                       {"ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"},
                                                       {"MKL_CBWR", "BRANCH=AVX2,STRICT"},
                                                       {"MKL_CBWR", "AVX2"}};
  for (const auto& [name, value] : right)
    EXPECT_TRUE(effective(judged({{name, value}}), name)) << name;
}

TEST(DoctorEnvironment, huge_pages_that_must_be_asked_for_are_not_tensors) {
  System system;
  system.memory.huge_pages = "madvise";
  EXPECT_EQ(effective(judged({}, {}, system), "transparent_huge_pages")->value,
            "madvise: replays and updates of TD-MPC2 ask");
  system.memory.huge_pages = "always";
  EXPECT_EQ(effective(judged({}, {}, system), "transparent_huge_pages")->value, "always");
}

TEST(DoctorEnvironment, what_a_variable_would_do_is_a_setting_or_the_shells) {
  EXPECT_NE(instead_of("OMP_NUM_THREADS").find("threads=<count>"), std::string::npos);
  EXPECT_NE(instead_of("CUDA_LAUNCH_BLOCKING").find("train.synchronise=true"), std::string::npos);
  EXPECT_NE(instead_of("PYTORCH_CUDA_ALLOC_CONF").find("by itself"), std::string::npos);
  EXPECT_EQ(instead_of("CUDA_VISIBLE_DEVICES"), "export it before the run");
  EXPECT_EQ(instead_of("SOMETHING"), "export it before the run");
}

TEST(DoctorEnvironment, a_variable_of_ours_that_there_is_not_is_named) {
  const auto report =
      judged({{"MAGLEV_TRACE_MODES", "full"}, {"MAGLEV_XYZZY", "1"}, {"MAGLEV_HOME", "/x"}});
  ASSERT_TRUE(ignored(report, "MAGLEV_TRACE_MODES"));
  EXPECT_NE(ignored(report, "MAGLEV_TRACE_MODES")->why.find("did you mean MAGLEV_TRACE_MODE?"),
            std::string::npos);
  ASSERT_TRUE(ignored(report, "MAGLEV_XYZZY"));
  EXPECT_FALSE(ignored(report, "MAGLEV_HOME"));
}

TEST(DoctorEnvironment, a_variable_counts_where_its_reader_is_here) {
  EXPECT_TRUE(effective(judged({{"KMP_AFFINITY", "x"}}, {.intel_openmp = true}), "KMP_AFFINITY"));
  EXPECT_TRUE(effective(judged({{"CUDA_LAUNCH_BLOCKING", "1"}}, {.on_cuda = true}),
                        "CUDA_LAUNCH_BLOCKING"));
  const Surroundings amd{.on_cuda = true, .rocm = true};
  EXPECT_TRUE(effective(judged({{"MIOPEN_FIND_MODE", "FAST"}}, amd), "MIOPEN_FIND_MODE"));
  EXPECT_TRUE(ignored(judged({{"CUDA_MODULE_LOADING", "EAGER"}}, amd), "CUDA_MODULE_LOADING"));
}

TEST(DoctorEnvironment, the_origin_is_the_user_the_engine_or_the_library) {
  const Surroundings gpu{.on_cuda = true};
  const Environment user{{"CUDA_MODULE_LOADING", "EAGER"}};
  Environment now = user;
  now["PYTORCH_ALLOC_CONF"] = "expandable_segments:True";
  const auto report = judge_environment(user, now, gpu, {});
  EXPECT_EQ(effective(report, "CUDA_MODULE_LOADING")->origin, Origin::user);
  EXPECT_EQ(effective(report, "CUDA_MODULE_LOADING")->value, "EAGER");
  EXPECT_EQ(effective(report, "PYTORCH_ALLOC_CONF")->origin, Origin::automatic);
  EXPECT_EQ(effective(report, "CUDA_LAUNCH_BLOCKING")->origin, Origin::library);
  EXPECT_EQ(effective(report, "CUDA_LAUNCH_BLOCKING")->value, "0");
}

TEST(DoctorEnvironment, of_two_names_of_the_allocators_settings_the_older_is_ignored) {
  const Surroundings gpu{.on_cuda = true};
  const Environment old{{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128"}};
  EXPECT_TRUE(effective(judged(old, gpu), "PYTORCH_CUDA_ALLOC_CONF"));
  EXPECT_TRUE(warns(judged(old, gpu), "leave out expandable_segments"));
  Environment both = old;
  both["PYTORCH_ALLOC_CONF"] = "expandable_segments:True";
  EXPECT_TRUE(ignored(judged(both, gpu), "PYTORCH_CUDA_ALLOC_CONF"));
  EXPECT_TRUE(judged(both, gpu).warnings.empty());
}

TEST(DoctorEnvironment, what_slows_a_run_is_a_warning) {
  const Surroundings gpu{.on_cuda = true};
  EXPECT_TRUE(warns(judged({{"CUDA_LAUNCH_BLOCKING", "1"}}, gpu), "waits after every kernel"));
  EXPECT_FALSE(warns(judged({{"CUDA_LAUNCH_BLOCKING", "0"}}, gpu), "waits after every kernel"));
  EXPECT_TRUE(warns(judged({{"NVIDIA_TF32_OVERRIDE", "0"}}, gpu), "turns TF32 off"));
  System bound;
  bound.processor = {.present = 8, .affinity = 1};
  EXPECT_TRUE(warns(judged({{"OMP_PROC_BIND", "close"}}, {}, bound), "1 of 8 processors"));
  bound.processor.affinity = 8;
  EXPECT_TRUE(judged({{"OMP_PROC_BIND", "false"}}, {}, bound).warnings.empty());
}

TEST(DoctorEnvironment, torch_says_one_thread_an_operation) {
  claim_threads();
  const auto settings = torch_settings({at::kCPU, 2}, false);
  const auto threads = std::find_if(settings.begin(), settings.end(), [](const auto& one) {
    return one.name == "threads_an_operation";
  });
  ASSERT_NE(threads, settings.end());
  EXPECT_EQ(threads->value, "1");
}

}  // namespace
}  // namespace maglev::verbs::doctor
