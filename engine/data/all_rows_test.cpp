#include "engine/data/all_rows.h"

#include <map>
#include <string>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "tests/group_of_threads.h"

namespace maglev {
namespace {

// keeps what it is shown, or gives back what it was given
class Kept : public StateVisitor {
 public:
  std::map<std::string, at::Tensor> tensors;
  bool loading = false;
  bool loads() const override { return loading; }

 private:
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    if (loading) value.copy_(tensors.at(name));
    else tensors[name] = value.clone();
  }
  void visit_integer(const std::string&, int64_t&) override {}
  void visit_real(const std::string&, double&) override {}
  void visit_text(const std::string&, std::string&) override {}
};

TEST(AllRows, are_those_of_all_processes_whatever_their_dimension) {
  constexpr int kProcesses = 3;
  GroupOfThreads group(kProcesses);
  // the second comes in several pieces
  for (const auto& [shape, dim] :
       {std::pair{std::vector<int64_t>{6, 5}, 0}, {{5000, 6, 4000}, 1}, {{3000, 10'000}, 0}}) {
    const at::Tensor all = at::randint(0, 256, shape, at::kByte);
    const int64_t own = all.size(dim) / kProcesses;
    std::vector<Kept> kept(kProcesses);
    group.run([&](int rank) {
      Kept& mine = kept[size_t(rank)];
      at::Tensor rows = all.narrow(dim, rank * own, own).contiguous();
      at::Tensor shared = at::full({2}, rank);
      AllRows visitor(mine, group.member(rank));
      visitor.section("part", [&](StateVisitor& v) { v.rows("rows", rows, dim); });
      visitor.tensor("shared", shared);
    });
    for (const Kept& each : kept) EXPECT_TRUE(at::equal(each.tensors.at("part.rows"), all));
    EXPECT_TRUE(kept[1].tensors.contains("shared"));

    group.run([&](int rank) {
      Kept from{kept[0]};
      from.loading = true;
      at::Tensor rows = at::zeros_like(all.narrow(dim, rank * own, own));
      AllRows(from, group.member(rank)).rows("part.rows", rows, dim);
      EXPECT_TRUE(at::equal(rows, all.narrow(dim, rank * own, own))) << rank;
    });
  }
}

}  // namespace
}  // namespace maglev
