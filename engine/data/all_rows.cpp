#include "engine/data/all_rows.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/processes/process_group.h"

namespace maglev {
namespace {

class PiecesOfAll final : public InPieces {
 public:
  PiecesOfAll(std::string name, const at::Tensor& own, int64_t dim, Group& group,
              AllRows::BeforeGet before_get)
      : name_(std::move(name)),
        own_(own.detach()),
        dim_(dim),
        group_(group),
        before_get_(std::move(before_get)) {
    MAGLEV_ASSERT(dim <= 1, "rows are by times or alone");
    // times come whole. Rows without times are of now alone, so that they are one piece
    const int64_t times = own.size(0);
    const int64_t bytes = int64_t(own.nbytes()) / std::max<int64_t>(1, times) * group.size();
    length_ = dim == 0 ? times : std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(1, bytes));
  }

  at::Tensor like() const override { return like_of(own_); }
  at::Tensor like(int64_t piece) const override { return like_of(own(piece)); }
  int64_t count() const override {
    return own_.size(0) == 0 ? 0 : (own_.size(0) + length_ - 1) / length_;
  }
  at::Tensor get(int64_t piece) override {
    if (before_get_) before_get_(name_, piece);
    // what steps on the host lies there also where networks do not
    const at::Tensor parts = gathered_of(own(piece).to(group_.device()).contiguous()).cpu();
    // of one row each a flattened transpose is no more than a view
    return dim_ == 0 ? parts.flatten(0, 1) : parts.transpose(0, 1).flatten(1, 2).contiguous();
  }
  void put(int64_t piece, const at::Tensor& values) override {
    own(piece).copy_(values.narrow(dim_, group_.rank() * own_.size(dim_), own_.size(dim_)));
  }

 private:
  // what fails here leaves the others waiting, whatever failed
  at::Tensor gathered_of(const at::Tensor& own) {
    try {
      return group_.gather(own);
    } catch (const ProcessGroup::Gone&) {
      throw;
    } catch (const Error& e) {
      throw ProcessGroup::Gone(e.what());
    }
  }
  at::Tensor own(int64_t piece) const {
    const int64_t begin = piece * length_;
    return own_.narrow(0, begin, std::min(length_, own_.size(0) - begin));
  }
  at::Tensor like_of(const at::Tensor& own) const {
    std::vector<int64_t> shape = own.sizes().vec();
    shape[size_t(dim_)] *= group_.size();
    return at::empty({}, at::TensorOptions(own.scalar_type())).expand(shape);
  }

  std::string name_;
  at::Tensor own_;
  int64_t dim_, length_ = 1;  ///< the latter: of a piece, along the first dimension
  Group& group_;
  AllRows::BeforeGet before_get_;
};

}  // namespace

void AllRows::visit_rows(const std::string& name, at::Tensor& value, int64_t dim) {
  to_.pieces(name, std::make_shared<PiecesOfAll>(name, value, dim, group_, before_get_));
}

}  // namespace maglev
