// Writes one file of each format that others read into the folder given, for
// tests/python/test_formats.py, which opens them with the formats' own readers.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/safetensors.h"
#include "base/metrics/writer.h"

namespace maglev {
namespace {

constexpr const char* kSinks[] = {"jsonl", "prometheus", "tensorboard"};

MetricRow row(int64_t step, double loss) {
  return {.step = step,
          .seconds = double(step) / 100,
          .steps_per_second = 100,
          .episodes = step / 10,
          .return_mean = step == 0 ? std::numeric_limits<double>::quiet_NaN() : double(step) / 2,
          .values = {{"loss/policy", loss}, {"events/food_per_1k", double(step)}}};
}

// a run of 1,000 rows that is killed, then continues from step 700 with other figures
void write_metrics(const std::string& dir) {
  RunInfo info;
  info.dir = dir;
  std::vector<std::string> names(std::begin(kSinks), std::end(kSinks));
  {
    MetricWriter writer(open_sinks(info, names));
    for (int64_t step = 0; step < 1000; ++step) writer.push(row(step, 0.25));
    writer.close("stopped");
  }
  AppendFile torn(dir + "/metrics.jsonl");
  torn.append("{\"step\": 1000, \"seco");
  torn.flush();
  info.resumed_at = 700;
  MetricWriter writer(open_sinks(info, names));
  for (int64_t step = 701; step < 900; ++step) writer.push(row(step, 0.5));
  writer.close("finished");
}

void write_tensors(const std::string& path) {
  // [2, 3] and a scalar of each dtype: 0 1 2 3 4 5 and 1, as its bytes
  struct Sample {
    SafeDType dtype;
    std::string bytes[6];
  };
  auto raw = [](auto... values) {
    return Sample{SafeDType::u8,
                  {std::string(reinterpret_cast<const char*>(&values), sizeof values)...}};
  };
  auto of = [&](SafeDType dtype, Sample sample) {
    sample.dtype = dtype;
    return sample;
  };
  using u16 = uint16_t;
  std::vector<Sample> samples{
      of(SafeDType::f64, raw(0., 1., 2., 3., 4., 5.)),
      of(SafeDType::f32, raw(0.f, 1.f, 2.f, 3.f, 4.f, 5.f)),
      of(SafeDType::f16,
         raw(u16(0), u16(0x3c00), u16(0x4000), u16(0x4200), u16(0x4400), u16(0x4500))),
      of(SafeDType::bf16,
         raw(u16(0), u16(0x3f80), u16(0x4000), u16(0x4040), u16(0x4080), u16(0x40a0))),
      of(SafeDType::i64,
         raw(int64_t(0), int64_t(1), int64_t(2), int64_t(3), int64_t(4), int64_t(5))),
      of(SafeDType::u64,
         raw(uint64_t(0), uint64_t(1), uint64_t(2), uint64_t(3), uint64_t(4), uint64_t(5))),
      of(SafeDType::i32, raw(0, 1, 2, 3, 4, 5)),
      of(SafeDType::u32, raw(0u, 1u, 2u, 3u, 4u, 5u)),
      of(SafeDType::i16,
         raw(int16_t(0), int16_t(1), int16_t(2), int16_t(3), int16_t(4), int16_t(5))),
      of(SafeDType::u16, raw(u16(0), u16(1), u16(2), u16(3), u16(4), u16(5))),
      of(SafeDType::i8, raw(int8_t(0), int8_t(1), int8_t(2), int8_t(3), int8_t(4), int8_t(5))),
      of(SafeDType::u8,
         raw(uint8_t(0), uint8_t(1), uint8_t(2), uint8_t(3), uint8_t(4), uint8_t(5))),
      of(SafeDType::boolean,
         raw(uint8_t(0), uint8_t(1), uint8_t(1), uint8_t(1), uint8_t(1), uint8_t(1)))};

  std::vector<SafeTensorInfo> infos{{"empty", SafeDType::f32, {0, 4}},
                                    {"größe \"1\"", SafeDType::u8, {1}}};
  std::vector<std::string> bytes{"", "\x07"};
  for (const Sample& s : samples) {
    std::string name(safe_dtype_name(s.dtype));
    infos.push_back({name + ".matrix", s.dtype, {2, 3}});
    bytes.emplace_back();
    for (const auto& value : s.bytes) bytes.back() += value;
    infos.push_back({name + ".scalar", s.dtype, {}});
    bytes.push_back(s.bytes[1]);
  }
  FileWriter out(path);
  write_safetensors(out, infos, {{"note", "a text"}}, [&](size_t i) {
    return std::as_bytes(std::span(bytes[i].data(), bytes[i].size()));
  });
  out.finish();
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_samples <empty folder>\n");
    return 2;
  }
  try {
    std::string dir = argv[1];
    maglev::make_dirs(dir);
    maglev::write_metrics(dir);
    maglev::write_tensors(dir + "/sample.safetensors");
  } catch (const maglev::Error& e) {
    std::fprintf(stderr, "write_samples: %s\n", e.what());
    return 2;
  }
}
