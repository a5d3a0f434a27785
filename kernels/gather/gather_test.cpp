#include "kernels/gather/gather.h"

#include <vector>

#include <gtest/gtest.h>

namespace maglev {
namespace {

struct Column {
  int64_t row_bytes;
  std::vector<uint8_t> from, to;
  Column(int64_t R, int64_t B, int64_t bytes)
      : row_bytes(bytes), from(size_t(R * bytes)), to(size_t(B * bytes) + 8, 0xEE) {
    for (size_t i = 0; i < from.size(); ++i) from[i] = uint8_t(i * 31 + i / 256);
  }
};

void expect_rows(const Column& column, const std::vector<int64_t>& rows) {
  const size_t bytes = size_t(column.row_bytes);
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t k = 0; k < bytes; ++k)
      ASSERT_EQ(column.to[i * bytes + k], column.from[size_t(rows[i]) * bytes + k])
          << "row " << i << " byte " << k << " of " << bytes;
  for (size_t i = rows.size() * bytes; i < column.to.size(); ++i) ASSERT_EQ(column.to[i], 0xEE);
}

TEST(Gather, every_column_gets_the_listed_rows_whatever_its_width) {
  for (int64_t B : {1, 255, 256, 700}) {
    std::vector<int64_t> rows(static_cast<size_t>(B));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = int64_t(i * 7 % 50);
    std::vector<Column> columns;
    for (int64_t bytes : {1, 2, 4, 8, 12, 16, 31, 32, 400}) columns.emplace_back(50, B, bytes);
    GatherArgs args{.columns = {},
                    .count = int(columns.size()),
                    .index = rows.data(),
                    .order = {},
                    .first = 0,
                    .B = B};
    for (size_t c = 0; c < columns.size(); ++c)
      args.columns[c] = {columns[c].from.data(), columns[c].to.data(), columns[c].row_bytes};
    gather_cpu(args);
    for (const Column& column : columns) expect_rows(column, rows);
  }
}

TEST(Gather, without_a_list_rows_come_from_the_permutation) {
  const int64_t R = 1000, first = 300, B = 600;
  const PermutationKey order{.seed = 4, .counter = 2, .n = R};
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < B; ++i)
    rows.push_back(int64_t(permutation_of(order)(uint64_t(first + i))));
  Column column(R, B, 4);
  gather_cpu({.columns = {{column.from.data(), column.to.data(), 4}},
              .count = 1,
              .index = nullptr,
              .order = order,
              .first = first,
              .B = B});
  expect_rows(column, rows);
}

}  // namespace
}  // namespace maglev
