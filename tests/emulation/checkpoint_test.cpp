// A device's state and a checkpoint: what is larger than a piece goes through the host in pieces.

#include "engine/run/checkpoint.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "tests/emulation/torch_memory.h"
#include "tests/folder.h"

namespace maglev {
namespace {

const at::Device kDevice("cuda:0");
const CheckpointIdentity kIdentity{.algo = "none", .env = "none"};

/// 40 MiB in rows of 1 MiB, the same as columns, and a scalar.
struct State {
  at::Tensor rows, columns, scalar;

  explicit State(at::Device device)
      : rows(at::zeros({40, 512, 512}, device)),
        columns(at::zeros({512, 40 * 512}, device).t()),
        scalar(at::zeros({}, device)) {}
  void fill() {
    at::manual_seed(1);
    for (auto& tensor : {rows, columns, scalar}) tensor.copy_(at::randn(tensor.sizes()));
  }
  VisitState visit() {
    return [this](StateVisitor& v) {
      v.tensor("rows", rows), v.tensor("columns", columns), v.tensor("scalar", scalar);
    };
  }
};

TEST(EmulatedCheckpoint, is_the_hosts_to_the_bit_and_goes_back) {
  State host(at::kCPU), device(kDevice), back(kDevice);
  host.fill(), device.fill();
  EXPECT_EQ(state_hash(device.visit()), state_hash(host.visit()));
  const std::string dir = save_checkpoint(test_folder() + "/device", kIdentity, device.visit());
  EXPECT_EQ(read_manifest(dir).state.hash(), state_hash(host.visit()));
  load_checkpoint(dir, kIdentity, back.visit());
  EXPECT_TRUE(at::equal(back.rows.cpu(), host.rows));
  EXPECT_TRUE(at::equal(back.columns.cpu(), host.columns));
  EXPECT_TRUE(at::equal(back.scalar.cpu(), host.scalar));
}

}  // namespace
}  // namespace maglev
