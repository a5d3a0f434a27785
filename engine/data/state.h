#pragma once
// Everything that must survive a restart, in one visit: the same function saves, restores and
// hashes, so nothing can be written and forgotten on the way back.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace at {
class Tensor;
}

namespace maglev {

/// About as much as one piece should hold.
constexpr int64_t kPieceBytes = 16 << 20;

/// A tensor that is had piece by piece along its first dimension, for the whole may be more than
/// there is memory.
class InPieces {
 public:
  virtual ~InPieces() = default;

  /// The dtype and shape of the whole, without values.
  virtual at::Tensor like() const = 0;
  /// The same of a piece, [0, count()).
  virtual at::Tensor like(int64_t piece) const = 0;
  virtual int64_t count() const = 0;
  /// Its values, contiguous on the host.
  virtual at::Tensor get(int64_t piece) = 0;
  /// Takes them: `values` is shaped like(piece), on the host.
  virtual void put(int64_t piece, const at::Tensor& values) = 0;
};

/// Visits state by name. A part with state has `void visit_state(StateVisitor&)` and passes
/// references to its live values: saving reads them, loading overwrites them in place (a tensor
/// keeps its storage, shape, dtype and device). Sizes of tensors may follow from integers visited
/// before them.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;

  void tensor(const std::string& name, at::Tensor& value) { visit_tensor(prefix_ + name, value); }
  /// A tensor [rows, ...], or by times [times, rows, ...] where `dim` is 1, of which each process of
  /// a run has its own rows, and a checkpoint all.
  void rows(const std::string& name, at::Tensor& value, int64_t dim = 0) {
    visit_rows(prefix_ + name, value, dim);
  }
  void pieces(const std::string& name, const std::shared_ptr<InPieces>& all) {
    visit_pieces(prefix_ + name, all);
  }
  void integer(const std::string& name, int64_t& value) { visit_integer(prefix_ + name, value); }
  /// A number that indexes something or bounds a loop. A checkpoint that says one outside [min,
  /// max] is refused with Error before any tensor is loaded.
  void integer(const std::string& name, int64_t& value, int64_t min, int64_t max);
  /// A number of steps, rows, games or the like, from `min` up: no run comes near what is refused.
  void count(const std::string& name, int64_t& value, int64_t min = 0) {
    integer(name, value, min, int64_t(1) << 62);
  }
  void real(const std::string& name, double& value) { visit_real(prefix_ + name, value); }
  void text(const std::string& name, std::string& value) { visit_text(prefix_ + name, value); }

  /// Everything `visit` names lies under `name.`.
  void section(const std::string& name, const std::function<void(StateVisitor&)>& visit) {
    std::string outer = prefix_;
    prefix_ += name + ".";
    visit(*this);
    prefix_ = outer;
  }

  /// Whether a tensor holds, once it was visited, what somebody saved: what of it indexes something
  /// is then looked at.
  virtual bool loads() const { return false; }
  /// Whether what tensors hold is read or written; else their names, types and shapes alone are.
  virtual bool sees_values() const { return true; }

 protected:
  virtual void visit_tensor(const std::string& name, at::Tensor& value) = 0;
  virtual void visit_rows(const std::string& name, at::Tensor& value, int64_t /*dim*/) {
    visit_tensor(name, value);
  }
  /// As a whole, unless a visitor does better.
  virtual void visit_pieces(const std::string& name, const std::shared_ptr<InPieces>& all);
  virtual void visit_integer(const std::string& name, int64_t& value) = 0;
  virtual void visit_real(const std::string& name, double& value) = 0;
  virtual void visit_text(const std::string& name, std::string& value) = 0;

 private:
  std::string prefix_;
};

/// Visits what it is about, and passes by the rest.
class PartialVisitor : public StateVisitor {
 protected:
  void visit_tensor(const std::string& /*name*/, at::Tensor& /*value*/) override {}
  void visit_integer(const std::string& /*name*/, int64_t& /*value*/) override {}
  void visit_real(const std::string& /*name*/, double& /*value*/) override {}
  void visit_text(const std::string& /*name*/, std::string& /*value*/) override {}
};

/// Throws Error unless every element of the integer tensor `values` lies in [min, max]. Waits for a
/// device.
void check_range(const std::string& name, const at::Tensor& values, int64_t min, int64_t max);

}  // namespace maglev
