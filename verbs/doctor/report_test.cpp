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

TEST(DoctorReport, json_has_every_fact_of_the_text) {
  Report report = make_report(roomy(), cpu_build(), placement());
  report.sections.push_back(measured_section(
      {.multiply_add_gflops = 60, .product_gflops = 50, .gigabytes_s = 20, .seconds = 0.5}, 6));
  const auto json = nlohmann::json::parse(report_json(report));
  for (const Section& section : report.sections) {
    const std::string name = section.name == "a run uses" ? "a_run_uses" : section.name;
    for (const Fact& fact : section.facts)
      EXPECT_EQ(json.at(name).at(fact.key), fact.value) << name << "." << fact.key;
  }
  EXPECT_EQ(json.at("a_run_uses").at("threads").at("value"), 6);
  EXPECT_TRUE(json.at("warnings").empty());
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
  EXPECT_TRUE(says(text, "Example GPU, 79.0 GiB free of 80.0 GiB, capability 9.0")) << text;
  EXPECT_TRUE(says(text, "warning: a GPU is here")) << text;
}

TEST(DoctorReport, no_line_is_wider_than_the_terminal) {
  System system = roomy();
  system.processor.quota = 1.5;
  const Report report = make_report(system, cpu_build(), placement());
  ASSERT_FALSE(report.warnings.empty());
  std::istringstream lines(report_text(report, {.live = true, .columns = 60}));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 60) << line;
}

TEST(DoctorMeasure, figures_are_plausible) {
  const Measured measured = measure(2, 24 << 20);
  for (double gflops : {measured.multiply_add_gflops, measured.product_gflops}) {
    EXPECT_GT(gflops, 0.1);
    EXPECT_LT(gflops, 1e5);
  }
  EXPECT_GT(measured.gigabytes_s, 0.1);
  EXPECT_LT(measured.gigabytes_s, 1e4);
}

TEST(DoctorBuild, knows_its_torch_and_compiler) {
  const Build build = probe_build();
  EXPECT_TRUE(says(build.torch, "."));
  EXPECT_FALSE(build.compiler.empty());
  EXPECT_FALSE(build.device_code.empty());
}

}  // namespace
}  // namespace maglev::verbs::doctor
