#include "base/datalog/vectors.h"

#include <cmath>
#include <cstddef>
#include <span>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/safetensors.h"

namespace maglev::datalog {
namespace {

constexpr const char *kConstantRows = "entities", *kPredicateRows = "relations",
                     *kConstantNames = "constants", *kPredicateNames = "predicates",
                     *kVectorFormat = "maglev complex embedding 1";

std::string one_a_line(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

/// A file's rows and what they are named.
struct NamedRows {
  int64_t rows = 0, width = 0;
  std::vector<float> numbers;
  Names names;
};

NamedRows read_rows(const FileReader& file, const SafeTensors& found, const char* tensor,
                    const char* names) {
  const std::string& path = file.path();
  const SafeTensor* info = found.find(tensor);
  if (!info || info->dtype != SafeDType::f32 || info->shape.size() != 2 || info->shape[1] < 2 ||
      info->shape[1] % 2)
    throw Error("[" + path + "] holds no vectors: it must have '" + tensor + "' F32 [rows, 2 D]" +
                (info ? ", got " + info->shape_text() : ", and there is none"));
  NamedRows result;
  result.rows = info->shape[0], result.width = info->shape[1];
  result.numbers.resize(size_t(result.rows * result.width));
  file.read(info->begin, std::as_writable_bytes(std::span(result.numbers)));
  for (float x : result.numbers)
    if (!std::isfinite(x))
      throw Error("[" + path + "] '" + tensor +
                  "' holds a number that is not finite; train it anew with a smaller --lr");
  const auto text = found.metadata.find(names);
  if (text != found.metadata.end())
    for (size_t begin = 0, end; (end = text->second.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string name = text->second.substr(begin, end - begin);
      const int64_t before = result.names.size();
      result.names.add(name);
      if (result.names.size() == before)
        throw Error("[" + path + "] names '" + name + "' twice in its metadata '" + names +
                    "', which must hold one name a row");
    }
  if (result.names.size() == 0 || result.names.size() > result.rows)
    throw Error("[" + path + "] names " + std::to_string(result.names.size()) + " of " +
                std::to_string(result.rows) + " rows of '" + tensor + "'; its metadata '" + names +
                "' must hold one name a line");
  return result;
}

/// The rows of `wanted`, from row `first` of the file on.
std::vector<float> ordered(const NamedRows& file, const std::string& path,
                           const std::vector<std::string>& wanted, int64_t first) {
  std::vector<float> rows;
  rows.reserve(wanted.size() * size_t(file.width));
  for (const std::string& name : wanted) {
    const int32_t id = file.names.find(name);
    if (id == 0)
      throw Error("[" + path + "] has no vector for '" + name +
                  "'; it is of another graph: maglev kg embed trains one of this");
    const float* row = file.numbers.data() + (first + id - 1) * file.width;
    rows.insert(rows.end(), row, row + file.width);
  }
  return rows;
}

}  // namespace

void write_vectors(const std::string& path, const Program& program, const Vectors& vectors) {
  const std::vector<float>* tables[2] = {&vectors.constants, &vectors.predicates};
  std::vector<SafeTensorInfo> infos;
  for (int i = 0; i < 2; ++i)
    infos.push_back({.name = i ? kPredicateRows : kConstantRows,
                     .shape = {int64_t(tables[i]->size()) / (2 * vectors.dim), 2 * vectors.dim}});
  const std::string temporary = temporary_beside(path);
  FileWriter out(temporary);
  write_safetensors(out, infos,
                    {{"format", kVectorFormat},
                     {kConstantNames, one_a_line(program.constants.all())},
                     {kPredicateNames, one_a_line(program.predicates.all())}},
                    [&](size_t i) { return std::as_bytes(std::span(*tables[i])); });
  out.finish();
  rename_path(temporary, path);
}

Vectors read_vectors(const std::string& path, const Program& program) {
  const FileReader file(path);
  const SafeTensors found = parse_safetensors(file);
  const NamedRows constants = read_rows(file, found, kConstantRows, kConstantNames),
                  predicates = read_rows(file, found, kPredicateRows, kPredicateNames);
  const int64_t named = predicates.names.size();
  if (constants.width != predicates.width ||
      (predicates.rows != named && predicates.rows != 2 * named))
    throw Error("[" + path +
                "] constants and predicates must have rows of one width, and each named "
                "predicate one row or two, got [" +
                std::to_string(constants.rows) + ", " + std::to_string(constants.width) +
                "] and [" + std::to_string(predicates.rows) + ", " +
                std::to_string(predicates.width) + "] for " + std::to_string(named) +
                " predicates");
  Vectors vectors{.dim = constants.width / 2,
                  .constants = ordered(constants, path, program.constants.all(), 0),
                  .predicates = ordered(predicates, path, program.predicates.all(), 0)};
  if (predicates.rows == 2 * named) {
    const auto reciprocal = ordered(predicates, path, program.predicates.all(), named);
    vectors.predicates.insert(vectors.predicates.end(), reciprocal.begin(), reciprocal.end());
  }
  return vectors;
}

}  // namespace maglev::datalog
