#include "verbs/doctor/report.h"

#include <gtest/gtest.h>

namespace maglev::verbs::doctor {
namespace {

constexpr int64_t kGiB = int64_t(1) << 30;

System roomy() {
  System system;
  system.os = "Example OS 1";
  system.kernel = "Linux 6.1 x86_64";
  system.processor = {.model = "Example CPU",
                      .present = 8,
                      .cores = 4,
                      .affinity = 6,
                      .vector_units = {"avx2", "fma"}};
  system.memory = {.total = 16 * kGiB, .available = 12 * kGiB};
  system.disk = {.path = "/data", .total = 100 * kGiB, .available = 50 * kGiB};
  return system;
}

Build cpu_build() {
  return {.version = "0.1.0",
          .type = "Release",
          .compiler = "GCC 12",
          .device_code = "none",
          .optimised = true,
          .torch = "2.13.0",
          .torch_cuda = "",
          .torch_kernels = "AVX2"};
}

Placement placement() {
  return {at::kCPU, 6, "no CUDA device is visible to torch", "what this process may use"};
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DoctorReport, says_what_a_run_uses_and_why) {
  const std::string text =
      report_text(make_report(roomy(), cpu_build(), placement()), {.columns = 120});
  for (const char* line :
       {"  device          cpu: no CUDA device is visible to torch\n",
        "  threads         6: what this process may use\n",
        "  processors      6 of 8 usable, 4 physical, no quota, load 0.0\n",
        "  vector units    avx2 fma\n", "  memory          12.0 GiB available of 16.0 GiB\n",
        "  torch           2.13.0, CPU only, AVX2 kernels\n", "no warnings\n"})
    EXPECT_TRUE(says(text, line)) << line << text;
}

TEST(DoctorReport, plug_ins_of_other_folders_are_told) {
  Build build = cpu_build();
  build.plugins = "/home/me/mine (77d0a4e)";
  const std::string text = report_text(make_report(roomy(), build, placement()), {.columns = 120});
  EXPECT_TRUE(says(text, "0.1.0, Release, plug-ins of /home/me/mine (77d0a4e)\n")) << text;
}

TEST(DoctorReport, json_has_every_fact_of_the_text) {
  Report report = make_report(roomy(), cpu_build(), placement());
  add_settings(report, {{"threads_an_operation", "1", Origin::automatic}},
               {.effective = {{"MKL_CBWR", "AVX2", Origin::user}},
                .ignored = {{"KMP_BLOCKTIME", "0", "libiomp5 is not loaded; unset it"}}});
  report.sections.push_back(measured_section({.multiply_add_gflops = 60,
                                              .products = {{"fp32", 50}, {"bf16", 90}},
                                              .gigabytes_s = 20,
                                              .hand_off_us = 3,
                                              .seconds = 0.5},
                                             6, at::kCPU));
  const auto json = nlohmann::json::parse(report_json(report));
  for (const Section& section : report.sections) {
    const std::string name = section.name == "a run uses" ? "a_run_uses" : section.name;
    for (const Fact& fact : section.facts)
      EXPECT_EQ(json.at(name).at(fact.key), fact.value) << name << "." << fact.key;
  }
  EXPECT_EQ(json.at("a_run_uses").at("threads").at("value"), 6);
  EXPECT_EQ(json.at("settings").at("MKL_CBWR").at("origin"), "user's environment");
  EXPECT_EQ(json.at("ignored").at("KMP_BLOCKTIME").at("value"), "0");
  EXPECT_EQ(json.at("measured").at("matrix_product_bf16_gflops"), 90);
  EXPECT_TRUE(json.at("warnings").empty());
}

TEST(DoctorReport, a_devices_own_peaks_are_told_where_there_is_one) {
  const Peaks peaks{.products = {{"fp16", 9e5}},
                    .device_gigabytes_s = 3000,
                    .to_device_gigabytes_s = 50,
                    .to_host_gigabytes_s = 40,
                    .launch_us = 2.5};
  const std::string text =
      report_text({{measured_section(peaks, 1, at::Device(at::kCUDA, 1))}, {}}, {.columns = 120});
  for (const char* line :
       {"  fp16 product    900000 GFLOP/s by torch on cuda:1\n",
        "  to device       50.0 GB/s from pinned memory\n", "  launch          2.50 us\n"})
    EXPECT_TRUE(says(text, line)) << line << text;
}

TEST(DoctorReport, a_gpu_that_torch_cannot_use_is_a_warning) {
  System system = roomy();
  system.gpus = {{.name = "Example GPU",
                  .memory_total = 80 * kGiB,
                  .memory_free = 79 * kGiB,
                  .capability = "9.0"}};
  const Report report = make_report(system, cpu_build(), placement());
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_TRUE(says(report.warnings[0], "this torch has no CUDA"));
  const std::string text = report_text(report, {.columns = 120});
  EXPECT_TRUE(says(
      text, "Example GPU, 79.0 GiB free of 80.0 GiB, capability 9.0 (fp32 tf32 bf16 fp16 fp8)"))
      << text;
  EXPECT_TRUE(says(text, "warning: a GPU is here")) << text;
}

TEST(DoctorReport, a_gpu_that_cuda_does_not_run_on_is_told_so) {
  System system = roomy();
  system.gpus = {{.name = "Another maker's", .memory_total = 16 * kGiB, .runs_cuda = false}};
  const Report report = make_report(system, cpu_build(), placement());
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_TRUE(says(report.warnings[0], "none that CUDA runs on")) << report.warnings[0];
}

TEST(DoctorReport, memory_caches_and_precisions_are_told) {
  System system = roomy();
  system.processor.caches = {{1, "data", 48 << 10, 1}, {3, "unified", 32 << 20, 8}};
  system.processor.vector_units = {"avx512", "avx512-bf16"};
  const std::string text =
      report_text(make_report(system, cpu_build(), placement()), {.columns = 120});
  EXPECT_TRUE(says(text, "L1 data 48 KiB; L3 32 MiB for 8")) << text;
  EXPECT_TRUE(says(text, "fp64 fp32 bf16; others without")) << text;
}

TEST(DoctorReport, a_limit_on_addresses_is_told_and_warned_of) {
  System system = roomy();
  system.memory.address_space = 3 * kGiB;
  const Report report = make_report(system, cpu_build(), placement());
  const std::string text = report_text(report, {.columns = 120});
  EXPECT_TRUE(says(text, "12.0 GiB available of 16.0 GiB, 3.0 GiB of it for this process")) << text;
  EXPECT_TRUE(says(text, "warning: only 3.0 GiB of memory may be taken by this process")) << text;
  // one that is wider than what is left takes nothing away
  system.memory.address_space = 20 * kGiB;
  EXPECT_TRUE(make_report(system, cpu_build(), placement()).warnings.empty());
}

TEST(DoctorReport, no_line_is_wider_than_the_terminal) {
  System system = roomy();
  system.processor.quota = 1.5;
  const Report report = make_report(system, cpu_build(), placement());
  ASSERT_FALSE(report.warnings.empty());
  std::istringstream lines(report_text(report, {.live = true, .columns = 60}));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 60) << line;
}

TEST(DoctorBuild, knows_its_torch_and_compiler) {
  const Build build = probe_build();
  EXPECT_TRUE(says(build.torch, "."));
  EXPECT_FALSE(build.compiler.empty());
  EXPECT_FALSE(build.device_code.empty());
}

}  // namespace
}  // namespace maglev::verbs::doctor
