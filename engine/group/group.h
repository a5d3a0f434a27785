#pragma once
// The processes that learn one run together, each with rows of its own and all with the same
// networks: what they add up and what they show each other. Every process makes the same calls in
// the same order.

#include <ATen/core/Tensor.h>

namespace maglev {

class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;  ///< of this process, [0, size)
  virtual int size() const = 0;

  /// Where the tensors lie that it adds and gathers.
  virtual at::Device device() const = 0;

  /// Adds `values` of all processes, in place: f32, f64 or bf16 (added in f32 where the host adds),
  /// contiguous, where the run's networks are, alike in shape. All processes get the same bits. On
  /// a device it is enqueued on the current stream, and may be captured.
  virtual void sum(const at::Tensor& values) = 0;
  /// [size, ...]: `values` of each process by rank; any dtype, alike in shape. Likewise enqueued.
  virtual at::Tensor gather(const at::Tensor& values) = 0;

  /// Throws Error where something went wrong in what a device was given before. Waits for nothing.
  virtual void check() const {}

  /// Gradients are rounded to bf16 on their way: half the bytes, and eight bits of each number.
  void round_gradients(bool round) { rounds_ = round; }
  /// sum of a gradient f32.
  void sum_gradient(const at::Tensor& gradient);

 private:
  bool rounds_ = false;
};

/// Processes that share a run; 1: there is one.
inline int size_of(const Group* group) { return group ? group->size() : 1; }
inline int rank_of(const Group* group) { return group ? group->rank() : 0; }
/// Counters of random numbers of this process's own begin here, behind more than any run has.
inline int64_t first_number(const Group* group) { return int64_t(rank_of(group)) << 48; }
/// `values` of all processes, one behind the other along `dim`: [..., size * B, ...] of [..., B,
/// ...]. Without a group as they are.
at::Tensor gathered(Group* group, const at::Tensor& values, int64_t dim = 0);

}  // namespace maglev
