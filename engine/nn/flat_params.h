#pragma once
// A module's parameters as views of one flat f32 buffer, and replicas of the module for threads:
// all replicas read the same parameters and buffers, each writes gradients of its own. Optimiser,
// clipping and checkpoints see one tensor.

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/data/state.h"

namespace torch::nn {
class Module;
}

namespace maglev {

class FlatParams {
 public:
  /// Moves `module`'s parameters into the flat buffer; the module keeps working and keeps its
  /// names.
  explicit FlatParams(torch::nn::Module& module);

  const at::Tensor& data() const { return data_; }  ///< [P] f32
  int64_t size() const { return data_.size(0); }

  /// Makes `replica`, of the same class and settings, read these parameters and `module`'s buffers,
  /// and add its gradients into `grad` [P] f32.
  void bind(torch::nn::Module& module, torch::nn::Module& replica, const at::Tensor& grad) const;

  /// Where the parameters of each direct child of the module lie: the groups of per-module
  /// clipping.
  struct ModuleRange {
    std::string name;
    int64_t begin, count;
  };
  const std::vector<ModuleRange>& module_ranges() const { return module_ranges_; }

 private:
  at::Tensor data_;
  std::vector<ModuleRange> module_ranges_;
};

/// Visits a module's parameters and buffers by name.
void visit_module(torch::nn::Module& module, StateVisitor& visitor);

}  // namespace maglev
