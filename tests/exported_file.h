#pragma once
// A network's file as maglev.save_network writes it, for any environment: layers of 24 and 16 units
// on everything that is shown, the value's behind the critic's columns too.

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

  explicit ExportedFile(const EnvSpec& spec) {
    const ObsEncoder encoder(spec, /*normalize=*/false);
    const int64_t pixels = encoder.channels() * encoder.height() * encoder.width();
    std::string seen, inputs, nodes, parameters;
    int64_t shown = 0;
    const auto show = [&](const std::string& part, const std::string& shape, int64_t elements) {
      if (elements == 0) return;
      inputs += (inputs.empty() ? "" : ", ") + ("{\"name\": \"" + part + "\", \"of\": \"" + part) +
                "\", \"shape\": [" + shape + "]}";
      if (part == "privileged") return;
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
    const auto layer = [&](const std::string& name, const std::string& x, int64_t out, int64_t in) {
      add(name, out, in);
      nodes += "{\"name\": \"" + name + "_sums\", \"op\": \"aten::linear\", \"args\": [" + x +
               ", \"%" + name + ".weight\", \"%" + name + ".bias\"], \"row\": " + text(out) + "}, ";
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
    const std::string y = secret > 0 ? joined("all", x + ", \"%privileged\"", shown + secret) : x;
    const int64_t outputs = spec.action.discrete() ? spec.action.categories() : spec.action.dims();
    layer("pi.0", x, 24, shown), layer("pi.2", "\"%pi.0_units\"", 16, 24), add("pi.4", outputs, 16);
    layer("v.0", y, 24, shown + secret), add("v.2", 1, 24);
    nodes.resize(nodes.size() - 2);
    json =
        "{\"format\": 1, \"torch\": \"here\", \"inputs\": [" + inputs + "], \"parameters\": [" +
        parameters + "], \"nodes\": [" + nodes +
        R"(], "policy_head": {"input": "%pi.2_units", )"
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
