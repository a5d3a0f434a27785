#pragma once
// A visit of a state whose rows several processes share, as if one had them all.

#include "engine/data/state.h"
#include "engine/group/group.h"

namespace maglev {

/// Passes a visit on to `to`: what rows() names as the rows of all processes by rank, in pieces.
/// InPieces::get() is then a call that every process of `group` makes, for the same pieces in the
/// same order, and tells all of them the same; put() takes this process's own out of a piece. No
/// process holds more than a piece of what others have; rows without times, the states of now, are
/// one.
class AllRows final : public StateVisitor {
 public:
  /// Called before get() with the piece it is of.
  using BeforeGet = std::function<void(const std::string& name, int64_t piece)>;

  AllRows(StateVisitor& to, Group& group, BeforeGet before_get = {})
      : to_(to), group_(group), before_get_(std::move(before_get)) {}
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
  BeforeGet before_get_;
};

}  // namespace maglev
