#pragma once
// A network's file as maglev.save_network writes it, for any environment: layers of 24 and 16 units
// on everything that is shown, the value's behind the critic's columns too. One that remembers adds
// what it makes of its memory to the first layer's sums, whose units are the next memory, as a
// recurrent layer has rows: [1, rows, units].

#include <map>
#include <string>

#include <ATen/ATen.h>

#include "base/core/file.h"
#include "base/core/safetensors.h"
#include "base/env/spec.h"
#include "engine/nn/obs_encoder.h"

namespace maglev {

struct ExportedFile {
  std::string json;
  std::map<std::string, at::Tensor> tensors;  ///< F32

  static constexpr int64_t kMemory = 24;

  explicit ExportedFile(const EnvSpec& spec, bool remembers = false) {
    const ObsEncoder encoder(spec, /*normalize=*/false);
    const int64_t pixels = encoder.channels() * encoder.height() * encoder.width();
    std::string seen, inputs, nodes, parameters;
    int64_t shown = 0;
    const auto show = [&](const std::string& part, const std::string& shape, int64_t elements) {
      if (elements == 0) return;
      inputs += (inputs.empty() ? "" : ", ") + ("{\"name\": \"" + part + "\", \"of\": \"" + part) +
                "\", \"shape\": [" + shape + "]}";
      if (part == "privileged" || part == "memory") return;
      std::string flat = part;
      if (part == "image") {
        nodes += R"({"name": "rows", "op": "size", "args": ["%image", 0]}, )";
        nodes += R"({"name": "flat", "op": "aten::reshape", "args": ["%image", ["%rows", -1]], )"
                 R"("row": )" +
                 std::to_string(elements) + "}, ";
        flat = "flat";
      }
      seen += (seen.empty() ? "\"%" : ", \"%") + flat + "\"";
      shown += elements;
    };
    const auto text = [](int64_t n) { return std::to_string(n); };
    show("image",
         text(encoder.channels()) + ", " + text(encoder.height()) + ", " + text(encoder.width()),
         pixels);
    show("vector", text(encoder.vector_size()), encoder.vector_size());
    show("privileged", text(encoder.privileged_size()), encoder.privileged_size());

    const auto add = [&](const std::string& name, int64_t out, int64_t in) {
      tensors[name + ".weight"] = at::linspace(-1, 1, out * in).sin().view({out, in});
      tensors[name + ".bias"] = at::linspace(-0.1, 0.2, out);
      parameters +=
          (parameters.empty() ? "\"" : ", \"") + name + ".weight\", \"" + name + ".bias\"";
    };
    const auto sums = [&](const std::string& name, const std::string& x, int64_t out, int64_t in) {
      add(name, out, in);
      nodes += "{\"name\": \"" + name + "_sums\", \"op\": \"aten::linear\", \"args\": [" + x +
               ", \"%" + name + ".weight\", \"%" + name + ".bias\"], \"row\": " + text(out) + "}, ";
    };
    const auto layer = [&](const std::string& name, const std::string& x, int64_t out, int64_t in) {
      sums(name, x, out, in);
      nodes += "{\"name\": \"" + name + "_units\", \"op\": \"aten::tanh\", \"args\": [\"%" + name +
               "_sums\"], \"row\": " + text(out) + "}, ";
    };
    const auto joined = [&](const std::string& name, const std::string& parts, int64_t elements) {
      nodes += "{\"name\": \"" + name + "\", \"op\": \"aten::cat\", \"args\": [[" + parts +
               "], 1], \"row\": " + text(elements) + "}, ";
      return "\"%" + name + "\"";
    };
    const bool several = pixels > 0 && encoder.vector_size() > 0;
    const std::string x = several ? joined("seen", seen, shown) : seen;
    const int64_t secret = encoder.privileged_size();
    const int64_t outputs = spec.action.discrete() ? spec.action.categories() : spec.action.dims();
    if (remembers) {
      show("memory", text(kMemory), kMemory);
      nodes += R"({"name": "lain", "op": "aten::unsqueeze", "args": ["%memory", 0]}, )";
      sums("past", "\"%lain\"", kMemory, kMemory);
      sums("pi.0", x, kMemory, shown);
      nodes +=
          R"({"name": "ahead", "op": "size", "args": ["%memory", 0]}, )"
          R"({"name": "mixed", "op": "aten::add.Tensor", "args": ["%past_sums", "%pi.0_sums"], )"
          R"("row": 24}, )"
          R"({"name": "pi.0_lain", "op": "aten::tanh", "args": ["%mixed"], "row": 24}, )"
          R"({"name": "pi.0_units", "op": "aten::reshape", "args": ["%pi.0_lain", ["%ahead", 24]], )"
          R"("row": 24}, )";
    } else {
      layer("pi.0", x, kMemory, shown);
    }
    layer("pi.2", "\"%pi.0_units\"", 16, 24), add("pi.4", outputs, 16);
    // the value sees what the critic is shown, and what is remembered
    std::string y = x;
    int64_t width = shown + secret;
    if (secret > 0) y += ", \"%privileged\"";
    if (remembers) y += ", \"%pi.0_units\"", width += kMemory;
    layer("v.0", width > shown ? joined("all", y, width) : y, 24, width), add("v.2", 1, 24);
    nodes.resize(nodes.size() - 2);
    const std::string memory = remembers ? R"("memory": "%pi.0_units", )" : "";
    json =
        "{\"format\": 1, \"torch\": \"here\", \"inputs\": [" + inputs + "], \"parameters\": [" +
        parameters + "], \"nodes\": [" + nodes + "], " + memory +
        R"("policy_head": {"input": "%pi.2_units", )"
        R"("weight": "pi.4.weight", "bias": "pi.4.bias"})"
        R"(, "value_head": {"input": "%v.0_units", "weight": "v.2.weight", "bias": "v.2.bias"}})";
  }

  /// The text with `from` in another way.
  ExportedFile with(const std::string& from, const std::string& to) const {
    ExportedFile other = *this;
    const size_t place = json.find(from);
    MAGLEV_ASSERT(place != json.npos, "the file says what is to be otherwise");
    other.json.replace(place, from.size(), to);
    return other;
  }

  /// Its path, which is `path`.
  std::string written(const std::string& path) const {
    remove_path(path);
    FileWriter out(path);
    std::vector<SafeTensorInfo> infos;
    std::vector<at::Tensor> values;
    for (const auto& [name, tensor] : tensors) {
      infos.push_back({.name = name, .dtype = SafeDType::f32, .shape = tensor.sizes().vec()});
      values.push_back(tensor.contiguous());
    }
    write_safetensors(out, infos, {{"maglev_network", json}}, [&](size_t i) {
      return std::as_bytes(std::span(values[i].const_data_ptr<float>(), size_t(values[i].numel())));
    });
    out.finish();
    return path;
  }
};

}  // namespace maglev
