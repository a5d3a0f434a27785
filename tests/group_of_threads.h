#pragma once
// Processes that share a run, as threads of a test: each has a Group, and they meet in turn.

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "engine/group/group.h"

namespace maglev {

class GroupOfThreads {
 public:
  explicit GroupOfThreads(int size) : shown_(size_t(size)), barrier_(size) {
    for (int rank = 0; rank < size; ++rank) members_.emplace_back(*this, rank);
  }

  Group& member(int rank) { return members_[size_t(rank)]; }

  /// work(rank) of all of them at once. One that does not come to a meeting stops the test.
  void run(const std::function<void(int rank)>& work) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < int(members_.size()); ++rank)
      threads.emplace_back([&work, rank] { work(rank); });
  }

 private:
  class Member : public Group {
   public:
    Member(GroupOfThreads& all, int rank) : all_(all), rank_(rank) {}

    int rank() const override { return rank_; }
    int size() const override { return int(all_.shown_.size()); }
    at::Device device() const override { return at::kCPU; }
    void sum(const at::Tensor& values) override {
      at::NoGradGuard no_grad;
      const at::Tensor all = gather(values);
      at::Tensor sum = all[0].clone();
      // in the order of ranks, so that all get the same bits
      for (int64_t r = 1; r < all.size(0); ++r) sum.add_(all[r]);
      values.copy_(sum);
    }
    at::Tensor gather(const at::Tensor& values) override {
      all_.shown_[size_t(rank_)] = values.detach();
      all_.barrier_.arrive_and_wait();
      const at::Tensor all = at::stack(all_.shown_);
      all_.barrier_.arrive_and_wait();
      return all;
    }

   private:
    GroupOfThreads& all_;
    int rank_;
  };

  std::vector<at::Tensor> shown_;
  std::barrier<> barrier_;
  std::vector<Member> members_;
};

}  // namespace maglev
