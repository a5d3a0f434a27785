#include "engine/data/all_rows.h"

#include <map>
#include <string>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "tests/group_of_threads.h"

namespace maglev {
namespace {

// keeps what it is shown, or gives back what it was given
class Kept : public PartialVisitor {
 public:
  std::map<std::string, at::Tensor> tensors;
  bool loading = false;
  bool loads() const override { return loading; }

 private:
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    if (loading) value.copy_(tensors.at(name));
    else tensors[name] = value.clone();
  }
};

// keeps the bytes of pieces as a file does, one behind the other
class Written : public PartialVisitor {
 public:
  std::vector<uint8_t> bytes;

 private:
  void visit_pieces(const std::string&, const std::shared_ptr<InPieces>& all) override {
    for (int64_t i = 0; i < all->count(); ++i) {
      const at::Tensor piece = all->get(i);
      EXPECT_EQ(piece.sizes(), all->like(i).sizes());
      const auto* begin = static_cast<const uint8_t*>(piece.const_data_ptr());
      bytes.insert(bytes.end(), begin, begin + piece.nbytes());
    }
  }
};

TEST(AllRows, lie_in_a_file_as_if_one_process_had_them) {
  constexpr int kProcesses = 3;
  GroupOfThreads group(kProcesses);
  // one row each and several, with and without times
  for (const auto& [shape, dim] : {std::pair{std::vector<int64_t>{5, 3, 4}, 1},
                                   {{5, 3}, 1},
                                   {{5, 6, 2}, 1},
                                   {{1, 3, 2}, 1},
                                   {{3, 4}, 0},
                                   {{0, 3, 2}, 1}}) {
    const at::Tensor all = at::randint(0, 256, shape, at::kByte);
    const int64_t own = all.size(dim) / kProcesses;
    std::vector<Written> written(kProcesses);
    group.run([&](int rank) {
      at::Tensor rows = all.narrow(dim, rank * own, own).contiguous();
      AllRows(written[size_t(rank)], group.member(rank)).rows("rows", rows, dim);
    });
    const auto* begin = all.const_data_ptr<uint8_t>();
    for (const Written& each : written)
      EXPECT_EQ(each.bytes, std::vector<uint8_t>(begin, begin + all.numel()));
  }
}

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
