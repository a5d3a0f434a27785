#include "engine/run/snapshot.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>

#include "base/core/error.h"

namespace maglev {
namespace {

at::Tensor copy_of(const at::Tensor& value) {
  if (!value.device().is_cpu()) return value.detach().clone();
  // straight from malloc: the cache of tensors would keep it once it is gone
  const at::Tensor copy(at::detail::empty_generic(value.sizes(), c10::GetDefaultCPUAllocator(),
                                                  c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                  value.scalar_type(), std::nullopt));
  return copy.copy_(value.detach());
}

}  // namespace

class StateSnapshot::Saver : public StateVisitor {
 public:
  explicit Saver(StateSnapshot& to) : to_(to) {}

 private:
  void visit_tensor(const std::string&, at::Tensor& value) override {
    to_.tensors_.push_back(copy_of(value));
  }
  void visit_integer(const std::string&, int64_t& value) override {
    to_.integers_.push_back(value);
  }
  void visit_real(const std::string&, double& value) override { to_.reals_.push_back(value); }
  void visit_text(const std::string&, std::string& value) override { to_.texts_.push_back(value); }

  StateSnapshot& to_;
};

class StateSnapshot::Restorer : public StateVisitor {
 public:
  explicit Restorer(const StateSnapshot& from) : from_(from) {}

  bool all_taken() const {
    return tensor_ == from_.tensors_.size() && integer_ == from_.integers_.size() &&
           real_ == from_.reals_.size() && text_ == from_.texts_.size();
  }
  bool loads() const override { return true; }

 private:
  void visit_tensor(const std::string&, at::Tensor& value) override {
    value.detach().copy_(from_.tensors_.at(tensor_++));
  }
  void visit_integer(const std::string&, int64_t& value) override {
    value = from_.integers_.at(integer_++);
  }
  void visit_real(const std::string&, double& value) override { value = from_.reals_.at(real_++); }
  void visit_text(const std::string&, std::string& value) override {
    value = from_.texts_.at(text_++);
  }

  const StateSnapshot& from_;
  size_t tensor_ = 0, integer_ = 0, real_ = 0, text_ = 0;
};

StateSnapshot::StateSnapshot(const std::function<void(StateVisitor&)>& visit) {
  at::NoGradGuard no_grad;
  Saver saver(*this);
  visit(saver);
}

void StateSnapshot::restore(const std::function<void(StateVisitor&)>& visit) const {
  at::NoGradGuard no_grad;
  Restorer restorer(*this);
  visit(restorer);
  MAGLEV_ASSERT(restorer.all_taken(), "a state names the same values at every visit");
}

}  // namespace maglev
