#pragma once
// A module's parameters as views of one flat f32 buffer, and replicas of the module for threads:
// all replicas read the same parameters and buffers, each writes gradients of its own. Optimiser,
// clipping and checkpoints see one tensor.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/data/state.h"

namespace torch::nn {
class Module;
}

namespace maglev {

/// Elements between which parameters may begin on `device`: on a GPU those of 64 bytes, for
/// products on tensor cores want operands that begin at 16; on a processor one.
int64_t flat_alignment(at::Device device);
/// Where a parameter begins behind `end`. A bias that is one number has nothing to align and
/// follows its weights.
inline int64_t flat_begin(int64_t end, bool one_number, int64_t alignment) {
  return one_number ? end : (end + alignment - 1) / alignment * alignment;
}

/// Elements of a flat buffer that are one parameter.
struct FlatRange {
  int64_t begin, count;
};

class FlatParams {
 public:
  /// Moves `module`'s parameters into the flat buffer; the module keeps working and keeps its
  /// names.
  explicit FlatParams(torch::nn::Module& module);
  /// `part_of` names the part of the module that a parameter is of; null: its direct child.
  using PartOf = std::function<std::string(const std::string& parameter)>;
  FlatParams(torch::nn::Module& module, int64_t alignment, const PartOf& part_of = {});

  /// [P] f32. What lies between parameters is 0, and stays so where gradients there are 0.
  const at::Tensor& data() const { return data_; }
  int64_t size() const { return data_.size(0); }
  /// Of each parameter, in the module's order.
  const std::vector<FlatRange>& ranges() const { return ranges_; }

  /// Makes `replica`, of the same class and settings, read these parameters and `module`'s buffers,
  /// and add its gradients into `grad` [P] f32.
  void bind(torch::nn::Module& module, torch::nn::Module& replica, const at::Tensor& grad) const;

  /// Where the parameters of each part of the module lie, up to where those of the next begin: the
  /// groups of per-module clipping.
  struct ModuleRange {
    std::string name;
    int64_t begin, count;
  };
  const std::vector<ModuleRange>& module_ranges() const { return module_ranges_; }

 private:
  at::Tensor data_;
  std::vector<FlatRange> ranges_;
  std::vector<ModuleRange> module_ranges_;
};

/// Those of `ranges` that lie in elements [begin, begin + count), counted from there.
std::vector<FlatRange> ranges_within(std::span<const FlatRange> ranges, int64_t begin,
                                     int64_t count);
/// Visits a buffer laid out as parameters in `ranges`, without what lies between them: checkpoints
/// are the same however parameters are aligned.
void visit_packed(const std::string& name, at::Tensor& flat, std::span<const FlatRange> ranges,
                  StateVisitor& visitor);

/// Visits a module's parameters and buffers by name.
void visit_module(torch::nn::Module& module, StateVisitor& visitor);

}  // namespace maglev
