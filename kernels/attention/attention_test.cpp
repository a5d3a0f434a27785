#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "kernels/attention/attention_op.h"

namespace maglev {
namespace {

RowSequences lengths_of(const std::vector<int32_t>& lengths, int64_t most) {
  const auto ends = at::tensor(lengths, at::kInt).cumsum(0).to(at::kInt);
  return {at::cat({at::zeros({1}, at::kInt), ends}), most};
}

TEST(Attention, of_a_sequence_has_the_same_bits_wherever_it_stands) {
  const std::vector<int32_t> lengths{1, 17, 6, 32, 3, 2};
  const RowSequences all = lengths_of(lengths, 32);
  const auto qkv = at::randn({61, 3 * 20}), query = at::randn({60});
  const auto self = self_attention(qkv, all, 2), pooled = attention_pool(query, qkv, all, 3);
  int64_t first = 0;
  for (size_t i = 0; i < lengths.size(); first += lengths[i++]) {
    const auto alone = qkv.narrow(0, first, lengths[i]).clone();
    const RowSequences one = lengths_of({lengths[i]}, lengths[i]);
    EXPECT_TRUE(at::equal(self_attention(alone, one, 2), self.narrow(0, first, lengths[i]))) << i;
    EXPECT_TRUE(at::equal(attention_pool(query, alone, one, 3)[0], pooled[int64_t(i)])) << i;
  }
}

TEST(Attention, rows_behind_the_last_sequence_give_0_and_get_no_gradient) {
  const RowSequences rows = lengths_of({2, 3}, 3);
  auto qkv = at::randn({8, 3 * 4});
  qkv.narrow(0, 5, 3).fill_(NAN);
  qkv.requires_grad_();
  const auto out = self_attention(qkv, rows);
  EXPECT_EQ(out.narrow(0, 5, 3).count_nonzero().item<int64_t>(), 0);
  (out.sum() + attention_pool(at::randn({12}), qkv, rows).sum()).backward();
  EXPECT_EQ(qkv.grad().narrow(0, 5, 3).count_nonzero().item<int64_t>(), 0);
  EXPECT_TRUE(at::isfinite(qkv.grad()).all().item<bool>());
}

TEST(Attention, by_far_the_largest_product_takes_all) {
  // one key along the query's direction, the others against it
  auto x = at::full({5, 16}, -1e9f);
  x[3].fill_(1e9f);
  const auto pooled = attention_pool(at::full({16}, 1e9f), x, lengths_of({5}, 5));
  EXPECT_TRUE(at::equal(pooled[0], x[3]));
}

}  // namespace
}  // namespace maglev
