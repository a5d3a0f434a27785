#pragma once
// Two recordings of one function, of different numbers of rows, as one ONNX graph of any number:
// what is the same in both is a constant, what grows with the rows is rows. What an operation
// becomes says engine/export/operations.h.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/onnx/model.h"
#include "engine/export/recording.h"

namespace maglev {

/// A size of a tensor.
struct ExportedSize {
  int64_t size = 0;
  bool per_row = false;  ///< so much for each row

  bool operator==(const ExportedSize&) const = default;
};
using ExportedSizes = std::vector<ExportedSize>;

onnx::Type onnx_type(at::ScalarType type);

/// Both recordings, and how many rows they are of: numbers that nothing else is a multiple of, and
/// that differ however they are halved.
struct RecordedTwice {
  Recording few, more;
  int64_t few_rows = 5, more_rows = 11;
};

class OnnxGraph {
 public:
  /// `inputs`: names of the recordings' inputs, each [rows, ...]. `state`: tensors by the names
  /// they are to have in the file. It and `recorded` outlive this.
  OnnxGraph(const RecordedTwice& recorded, const std::vector<std::string>& inputs,
            const std::map<std::string, at::Tensor>& state);

  /// Nodes of all operations. Throws Error naming the first that has no counterpart.
  void build();
  /// The graph that gives the recordings' outputs by these names: what they do not need is left
  /// out, inputs too.
  void finish(const std::vector<std::string>& outputs, onnx::Model& model);

  // for operations

  /// A value, as a constant where nothing varies.
  std::string name_of(int64_t value);
  /// The same as another type.
  std::string name_of(int64_t value, at::ScalarType type);
  /// What a tensor looks like; its numbers are those of one recording.
  const at::Tensor& like(int64_t value) const;
  ExportedSizes sizes_of(int64_t value) const;
  bool varies(int64_t value) const;
  std::string constant(const at::Tensor& tensor);
  /// 64-bit integers [n].
  std::string constant(const std::vector<int64_t>& numbers);
  /// A node with one output; returns its name.
  std::string node(const std::string& operation, std::vector<std::string> inputs,
                   std::vector<onnx::Attribute> attributes = {});
  std::string cast(const std::string& name, at::ScalarType from, at::ScalarType to);
  /// Sizes as a tensor of 64-bit integers, known once the graph runs.
  std::string shape(const ExportedSizes& extents);
  void set(int64_t value, const std::string& name) { names_[value] = name; }

 private:
  void add(const RecordedOperation& few, const RecordedOperation& more);
  void refuse_reads(const RecordedOperation& operation) const;
  bool any_varies(const std::vector<RecordedSlot>& slots) const;
  std::string constant_named(const at::Tensor& tensor, const std::string& name);

  const RecordedTwice& recorded_;
  const std::map<std::string, at::Tensor>& state_;
  std::vector<std::string> inputs_;
  std::map<int64_t, std::string> names_;
  std::map<std::string, std::string> constants_;  ///< names by type, shape and bytes
  std::vector<onnx::Tensor> initializers_;
  std::vector<onnx::Node> nodes_;
  int64_t first_used_ = -1;  ///< input, by which the rows are counted
  std::string rows_;         ///< the number of rows [1]; empty: not asked for yet
};

}  // namespace maglev
