#pragma once
// Reads what sb3_fixture.py writes: lines "option <name> <value>", "reference <name> <value>" (an
// option that the reference has besides), "number <name> <i>", "tensor <name> <dtype> <ndim>
// <sizes>" up to "end", then the tensors' bytes in that order.

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"

namespace maglev {

struct CaseFile {
  std::vector<std::pair<std::string, std::string>> options, reference;
  std::map<std::string, int64_t> numbers;
  std::map<std::string, at::Tensor> tensors;

  /// Throws Error when the file is missing, cut short or not of this form.
  explicit CaseFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<std::string> order;
    std::string line;
    while (std::getline(file, line) && line != "end") {
      std::istringstream words(line);
      std::string kind, name, dtype;
      words >> kind >> name;
      if (kind == "option" || kind == "reference") {
        std::string value;
        std::getline(words >> std::ws, value);
        (kind == "option" ? options : reference).emplace_back(name, value);
      } else if (kind == "number") {
        words >> numbers[name];
      } else {
        size_t ndim = 0;
        words >> dtype >> ndim;
        std::vector<int64_t> sizes(ndim);
        for (auto& s : sizes) words >> s;
        tensors[name] = at::empty(sizes, dtype == "f32"   ? at::kFloat
                                         : dtype == "f64" ? at::kDouble
                                         : dtype == "i32" ? at::kInt
                                         : dtype == "i64" ? at::kLong
                                                          : at::kByte);
        order.push_back(name);
      }
      if (!words) throw Error("[case file] " + path + " has a line that cannot be read: " + line);
    }
    for (const auto& name : order)
      file.read(static_cast<char*>(tensors[name].data_ptr()),
                std::streamsize(tensors[name].nbytes()));
    if (!file)
      throw Error("[case file] " + path + " is missing or cut short: run sb3_fixture.py again");
  }

  const at::Tensor& operator[](const std::string& name) const {
    auto found = tensors.find(name);
    if (found == tensors.end()) throw Error("[case file] has no tensor '" + name + "'");
    return found->second;
  }
  bool has(const std::string& name) const { return tensors.count(name) > 0; }
};

}  // namespace maglev
