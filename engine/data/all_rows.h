#pragma once
// A visit of a state whose rows several processes share, as if one had them all.

#include "engine/data/state.h"
#include "engine/group/group.h"

namespace maglev {

/// Passes a visit on to `to`: what rows() names as the rows of all processes by rank, which the
/// first of them alone is shown; when loading, each process takes its own out of them. Every process
/// of `group` makes the same visit.
class AllRows final : public StateVisitor {
 public:
  AllRows(StateVisitor& to, Group& group) : to_(to), group_(group) {}
  bool loads() const override { return to_.loads(); }
  bool sees_values() const override { return to_.sees_values(); }

 private:
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    to_.tensor(name, value);
  }
  void visit_rows(const std::string& name, at::Tensor& value, int64_t dim) override;
  void visit_integer(const std::string& name, int64_t& value) override { to_.integer(name, value); }
  void visit_real(const std::string& name, double& value) override { to_.real(name, value); }
  void visit_text(const std::string& name, std::string& value) override { to_.text(name, value); }

  StateVisitor& to_;
  Group& group_;
};

}  // namespace maglev
