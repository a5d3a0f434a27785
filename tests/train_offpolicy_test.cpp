// The loop with a replay: when updates are made, what a resumed, a warmed-up, an overlapped run is,
// and learning from files. With an algorithm of tests/algos.

#include <cstring>
#include <filesystem>
#include <map>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/hash.h"
#include "engine/host/machine.h"
#include "engine/run/checkpoint.h"
#include "engine/run/snapshot.h"
#include "engine/run/stored_experiment.h"
#include "engine/train/dataset.h"
#include "engine/train/memory_plan.h"
#include "engine/train/trainer.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

using Settings = std::vector<std::string>;
void expect_error(const std::function<void()>& call, const std::string& part) {
  EXPECT_TRUE(contains(error_of(call), part)) << error_of(call);
}

const CheckpointIdentity kIdentity{.algo = "linear_q", .env = "cartpole"};

std::unique_ptr<Experiment> experiment_of(const Settings& settings) {
  claim_threads();
  auto experiment = std::make_unique<Experiment>("linear_q", "cartpole");
  for (const char* common : {"env.count=6", "seed=3", "train.steps=100000"})
    experiment->table().override_with(common);
  for (const auto& setting : settings) experiment->table().override_with(setting);
  return experiment;
}

std::string hash_of(Trainer& trainer) {
  return state_hash([&](StateVisitor& v) { trainer.visit_state(v); });
}

std::string trained(const Settings& settings, int threads, int iterations) {
  const auto experiment = experiment_of(settings);
  Trainer trainer(*experiment, {.device = at::kCPU, .threads = threads});
  trainer.warm_up();
  for (int i = 0; i < iterations; ++i) trainer.iterate();
  EXPECT_GT(trainer.updates(), 0);
  return hash_of(trainer);
}

std::string saved(Trainer& trainer, const std::string& name) {
  const std::string folder = test_folder() + "/" + name;
  return save_checkpoint(folder, kIdentity, [&](auto& v) { trainer.visit_state(v); });
}

TEST(UpdatesDue, are_a_function_of_the_steps) {
  const ReplayPlan plan{
      .first_steps = 100, .first_updates = 7, .updates_per_step = 0.5, .update_every = 20};
  EXPECT_EQ(updates_due(plan, 99), 0);
  EXPECT_EQ(updates_due(plan, 100), 7);
  EXPECT_EQ(updates_due(plan, 119), 7);
  EXPECT_EQ(updates_due(plan, 120), 17);
  EXPECT_EQ(updates_due(plan, 1100), 507);
}

// batches drawn ahead, and observations on a disk, change nothing but who waits for what
TEST(OffPolicy, the_same_run_is_made_with_batches_drawn_ahead_and_from_a_disk) {
  // by priorities nothing is drawn ahead
  for (const auto& [overlap, priorities] :
       {std::pair("train.overlap=false", "linear_q.priorities=0"),
        {"train.overlap=true", "linear_q.priorities=0"},
        {"train.overlap=true", "linear_q.priorities=0.6"}}) {
    Settings settings{overlap, priorities, "linear_q.updates_per_step=0.7",
                      "linear_q.capacity=300"};
    const auto with = [&](const std::string& more, int threads) {
      Settings all = settings;
      all.push_back(more);
      return trained(all, threads, 150);
    };
    const std::string plain = with("train.prefetch=off", 2);
    for (int threads : {1, 3}) EXPECT_EQ(with("train.prefetch=on", threads), plain) << overlap;
    EXPECT_EQ(with("train.replay_folder=" + test_folder() + "/ring", 2), plain) << overlap;
  }
}

TEST(OffPolicy, makes_the_updates_that_are_due_after_each_iteration) {
  const auto experiment = experiment_of({"linear_q.update_every=12"});
  Trainer trainer(*experiment, {.device = at::kCPU, .threads = 2});
  const ReplayPlan& plan = *trainer.algorithm().plan().replay;
  for (int i = 0; i < 300; ++i) {
    trainer.iterate();
    EXPECT_EQ(trainer.step(), 6 * (i + 1));
    EXPECT_EQ(trainer.updates(), updates_due(plan, trainer.step()));
  }
  EXPECT_EQ(trainer.updates(), 10 + (1800 - 200) / 12 * 12 / 4);
}

TEST(OffPolicy, updates_that_are_due_wait_for_the_first_sequence) {
  // pushing one way most of the time, few episodes are as long as a sequence
  const auto experiment = experiment_of({"linear_q.first_steps=0", "linear_q.length=14"});
  Trainer trainer(*experiment, {.device = at::kCPU, .threads = 1});
  while (!trainer.store().replay()->drawable()) {
    EXPECT_EQ(trainer.updates(), 0);
    trainer.iterate();
  }
  EXPECT_GT(trainer.step(), 14 * trainer.steps_per_iteration());
  EXPECT_EQ(trainer.updates(), updates_due(*trainer.algorithm().plan().replay, trainer.step()));
}

TEST(OffPolicy, a_run_does_not_depend_on_threads_or_the_way_steps_are_collected) {
  for (const char* collect : {"linear_q.collect=1", "linear_q.collect=5"}) {
    const auto reference = trained({collect, "env.count=150", "train.collect=lockstep"}, 1, 40);
    for (int threads : {1, 3})
      for (const char* way : {"train.collect=lockstep", "train.collect=blocks"})
        EXPECT_EQ(trained({collect, "env.count=150", way}, threads, 40), reference) << way;
    EXPECT_NE(trained({collect, "env.count=150", "seed=4"}, 1, 40), reference);
  }
}

TEST(OffPolicy, counters_in_memory_count_as_the_host_does) {
  EXPECT_EQ(trained({"train.graph=on"}, 1, 200), trained({"train.graph=off"}, 1, 200));
}

// the ring of 600 rows wraps eight times
TEST(OffPolicy, a_resumed_run_is_the_unbroken_one) {
  for (const char* mode :
       {"linear_q.by_start=false", "linear_q.by_start=true", "linear_q.priorities=0.6"}) {
    const Settings settings{mode, "linear_q.running=true", "linear_q.capacity=600"};
    const auto experiment = experiment_of(settings);
    Trainer first(*experiment, {.device = at::kCPU, .threads = 2});
    for (int i = 0; i < 400; ++i) first.iterate();
    const auto path = saved(first, "resumed");
    for (int i = 0; i < 400; ++i) first.iterate();
    Trainer second(*experiment, {.device = at::kCPU, .threads = 1});
    load_checkpoint(path, kIdentity, [&](auto& v) { second.visit_state(v); });
    EXPECT_EQ(second.step(), 2400);
    for (int i = 0; i < 400; ++i) second.iterate();
    EXPECT_EQ(hash_of(second), hash_of(first));
  }
}

TEST(OffPolicy, a_run_that_was_stopped_between_updates_goes_on_as_the_unbroken_one) {
  const auto experiment = experiment_of({"linear_q.capacity=600"});
  Trainer unbroken(*experiment, {.device = at::kCPU, .threads = 1});
  for (int i = 0; i < 60; ++i) unbroken.iterate();

  Trainer first(*experiment, {.device = at::kCPU, .threads = 1});
  first.stop_when([&] { return first.updates() >= 4; });
  while (first.updates() < 4) first.iterate();
  // ten were due at once
  EXPECT_EQ(first.updates(), 4);
  const auto steps = first.step();
  first.iterate();
  EXPECT_EQ(first.step(), steps) << "no steps before the updates are made";
  const auto path = saved(first, "stopped");

  Trainer second(*experiment, {.device = at::kCPU, .threads = 1});
  load_checkpoint(path, kIdentity, [&](auto& v) { second.visit_state(v); });
  while (second.step() < unbroken.step()) second.iterate();
  EXPECT_EQ(hash_of(second), hash_of(unbroken));
}

TEST(OffPolicy, a_warmed_up_run_equals_a_cold_one_also_when_the_ring_is_full) {
  for (const char* priorities : {"linear_q.priorities=0", "linear_q.priorities=0.6"}) {
    const Settings cold{priorities, "linear_q.capacity=600"};
    const Settings warm{priorities, "linear_q.capacity=600", "train.warmup=70"};
    EXPECT_EQ(trained(warm, 1, 300), trained(cold, 1, 300));
    const auto experiment = experiment_of(cold), warmed = experiment_of(warm);
    Trainer first(*experiment, {.device = at::kCPU, .threads = 1});
    for (int i = 0; i < 200; ++i) first.iterate();
    const auto path = saved(first, "warm");
    for (int i = 0; i < 50; ++i) first.iterate();
    Trainer second(*warmed, {.device = at::kCPU, .threads = 1});
    load_checkpoint(path, kIdentity, [&](auto& v) { second.visit_state(v); });
    second.warm_up();
    for (int i = 0; i < 50; ++i) second.iterate();
    EXPECT_EQ(hash_of(second), hash_of(first)) << priorities;
  }
}

TEST(OffPolicy, a_checkpoint_of_another_capacity_changes_nothing) {
  const auto experiment = experiment_of({"linear_q.capacity=600"});
  Trainer first(*experiment, {.device = at::kCPU, .threads = 1});
  for (int i = 0; i < 200; ++i) first.iterate();
  const auto path = saved(first, "capacity");
  const auto smaller = experiment_of({"linear_q.capacity=300"});
  Trainer second(*smaller, {.device = at::kCPU, .threads = 1});
  for (int i = 0; i < 20; ++i) second.iterate();
  const auto before = hash_of(second);
  expect_error([&] { load_checkpoint(path, kIdentity, [&](auto& v) { second.visit_state(v); }); },
               "replay.obs0");
  EXPECT_EQ(hash_of(second), before);
}

TEST(OffPolicy, an_algorithm_of_the_processor_alone_is_refused_on_another_device) {
  const auto experiment = experiment_of({});
  expect_error([&] { Trainer(*experiment, {.device = at::Device("cuda:0"), .threads = 1}); },
               "linear_q runs on a processor only, got cuda:0; set device=cpu");
}

TEST(OffPolicy, a_replay_is_no_larger_than_the_run_and_no_smaller_than_a_sequence) {
  claim_threads();
  for (const auto& [steps, capacity] : {std::pair{"1", 8 * 6}, std::pair{"4000", 4008}}) {
    Experiment experiment("tdmpc2", "pendulum");
    for (const char* setting : {"env.count=8", "tdmpc2.enc_dim=16", "tdmpc2.mlp_dim=16",
                                "tdmpc2.latent_dim=16", "tdmpc2.num_q=2", "tdmpc2.horizon=3"})
      experiment.table().override_with(setting);
    experiment.table().override_with("train.steps=" + std::string(steps));
    Trainer trainer(experiment, {.device = at::kCPU, .threads = 1});
    EXPECT_EQ(trainer.store().replay()->shape().capacity, capacity);
    trainer.iterate();
    EXPECT_EQ(trainer.step(), 8);
  }
}

TEST(OffPolicy, a_replay_that_is_not_saved_begins_empty_and_updates_wait) {
  const auto experiment = experiment_of({"train.save_replay=false"});
  Trainer first(*experiment, {.device = at::kCPU, .threads = 1});
  for (int i = 0; i < 300; ++i) first.iterate();
  const auto path = saved(first, "empty");
  Trainer second(*experiment, {.device = at::kCPU, .threads = 1});
  load_checkpoint(path, kIdentity, [&](auto& v) { second.visit_state(v); });
  ASSERT_TRUE(second.forgets_replay());
  const int64_t updates = second.updates();
  EXPECT_EQ(updates, first.updates());
  second.iterate();
  EXPECT_EQ(second.updates(), updates);
  for (int i = 0; i < 100; ++i) second.iterate();
  EXPECT_EQ(second.updates(), updates_due(*second.algorithm().plan().replay, second.step()));
  EXPECT_GE(second.store().replay()->counters().oldest, 300);
}

TEST(OffPolicy, updates_that_were_owed_wait_where_the_replay_was_not_saved) {
  const auto experiment = experiment_of({"train.save_replay=false"});
  Trainer first(*experiment, {.device = at::kCPU, .threads = 1});
  first.stop_when([&] { return first.updates() >= 4; });
  while (first.updates() < 4) first.iterate();
  const auto path = saved(first, "owed");
  Trainer second(*experiment, {.device = at::kCPU, .threads = 1});
  load_checkpoint(path, kIdentity, [&](auto& v) { second.visit_state(v); });
  second.iterate();
  EXPECT_EQ(second.updates(), 4) << "there is nothing to learn from yet";
  for (int i = 0; i < 100; ++i) second.iterate();
  EXPECT_EQ(second.updates(), updates_due(*second.algorithm().plan().replay, second.step()));
}

TEST(OffPolicy, overlapped_updates_are_those_of_the_iteration_before_on_any_threads) {
  const auto reference = trained({"train.overlap=true"}, 1, 300);
  for (int threads : {1, 2, 4}) EXPECT_EQ(trained({"train.overlap=true"}, threads, 300), reference);
  EXPECT_NE(trained({}, 1, 300), reference);
  const auto experiment = experiment_of({"train.overlap=true"});
  Trainer trainer(*experiment, {.device = at::kCPU, .threads = 2});
  for (int i = 0; i < 200; ++i) trainer.iterate();
  EXPECT_EQ(trainer.updates(), updates_due(*trainer.algorithm().plan().replay, trainer.step() - 6));
}

TEST(OffPolicy, a_replay_over_the_memory_limit_is_refused_or_shrunk_to_fit) {
  const Placement placement{.device = at::kCPU, .threads = 1};
  const Settings large{"linear_q.capacity=10000000", "train.steps=20000000",
                       "train.memory_limit=64MiB"};
  std::string note;
  const auto refused = experiment_of(large);
  expect_error([&] { fit_memory(*refused, placement, &note); }, "--shrink");
  const auto shrunk = experiment_of(large);
  shrunk->table().override_with("train.shrink_replay=true");
  const MemoryPlan plan = fit_memory(*shrunk, placement, &note);
  EXPECT_TRUE(contains(note, "instead of 10000000")) << note;
  EXPECT_LE(plan.total(), 64 << 20);
  EXPECT_GT(plan.total(), 60 << 20);
  Trainer trainer(*shrunk, placement);
  EXPECT_EQ(trainer.store().replay()->slots(), shrunk->run.replay_capacity / 6);
}

class Dataset : public testing::Test {
 protected:
  void SetUp() override {
    path_ = test_folder() + "/cartpole.safetensors";
    std::filesystem::remove(path_);
    experiment_ = experiment_of({"linear_q.capacity=900"});
    Trainer trainer(*experiment_, {.device = at::kCPU, .threads = 1});
    for (int i = 0; i < 400; ++i) trainer.iterate();
    rows_ = write_dataset(path_, "cartpole", trainer.envs().spec(), *trainer.store().replay());
  }

  static RunOptions files(const std::string& names) {
    RunOptions run;
    run.dataset = names;
    return run;
  }

  std::string path_;
  std::unique_ptr<Experiment> experiment_;
  int64_t rows_ = 0;
};

TEST_F(Dataset, holds_the_rows_of_the_replay_episode_behind_episode) {
  EXPECT_GT(rows_, 700);
  EXPECT_LE(rows_, 900);
  const std::string file = read_file(path_, 1 << 24);
  const SafeTensors tensors = parse_safetensors(FileReader(path_));
  EXPECT_EQ(tensors.metadata.at("environment"), "cartpole");
  const auto obs = reinterpret_cast<const float*>(file.data() + tensors.find("obs.vector")->begin);
  const auto u8 = [&](const char* name) {
    return reinterpret_cast<const uint8_t*>(file.data() + tensors.find(name)->begin);
  };
  // CartPole's first number, the position, moves by 0.02 times the second, the velocity
  int64_t episodes = 0, moved = 0;
  for (int64_t i = 0; i + 1 < rows_; ++i) {
    episodes += u8("is_first")[i];
    if (u8("is_first")[i + 1]) continue;
    EXPECT_NEAR(obs[4 * (i + 1)], obs[4 * i] + 0.02f * obs[4 * i + 1], 1e-5);
    ++moved;
  }
  EXPECT_GT(episodes, 6);
  EXPECT_EQ(moved, rows_ - episodes);
}

TEST_F(Dataset, is_learned_from_without_an_environment_by_updates) {
  const auto experiment = experiment_of({"train.dataset=" + path_, "train.steps=50"});
  Trainer trainer(*experiment, {.device = at::kCPU, .threads = 2});
  const auto before = hash_of(trainer);
  while (!trainer.done()) trainer.iterate();
  EXPECT_EQ(trainer.step(), 50);
  EXPECT_EQ(trainer.updates(), 50);
  EXPECT_EQ(trainer.envs().take_totals().steps, 0);
  EXPECT_NE(hash_of(trainer), before);
}

TEST_F(Dataset, of_several_files_is_all_of_them) {
  const auto spec = experiment_->spec();
  DataPlan plan{.collect_steps = 1};
  plan.replay = ReplayPlan{.length = 3};
  const auto one = load_dataset(files(path_), spec, plan, {.device = at::kCPU, .threads = 1});
  const auto two =
      load_dataset(files(path_ + "," + path_), spec, plan, {.device = at::kCPU, .threads = 1});
  EXPECT_EQ(one->counters().now + 1, rows_);
  EXPECT_EQ(two->counters().end, 2 * one->counters().end);
}

TEST_F(Dataset, has_columns_that_updates_write_back_as_they_are_where_nobody_acted_and_no_others) {
  DataPlan plan{.collect_steps = 1,
                .columns = {{.name = "latent", .shape = {3}},
                            {.name = "category",
                             .dtype = at::kByte,
                             .shape = {2},
                             .rewritten = true,
                             .unwritten = 255}}};
  plan.replay = ReplayPlan{.length = 3};
  const Placement here{.device = at::kCPU, .threads = 1};
  expect_error([&] { load_dataset(files(path_), experiment_->spec(), plan, here); },
               "a column that acting writes ('latent'), which no dataset has");
  plan.columns[0].rewritten = true;
  const auto replay = load_dataset(files(path_), experiment_->spec(), plan, here);
  EXPECT_EQ(replay->columns().extra[0].count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(replay->columns().extra[1].min().item<int64_t>(), 255);
  EXPECT_EQ(Replay::rewritten_bytes(plan.columns), 14);

  // what an update wrote back is what is saved
  ThreadPool pool(1);
  auto buffer = replay->make_buffer();
  replay->sample(buffer, {.seed = 1}, pool);
  buffer.batch.extra[0].fill_(2.f);
  replay->put_back(buffer);
  const int64_t written = replay->columns().extra[0].count_nonzero().item<int64_t>();
  EXPECT_GT(written, 0);
  const auto visit = [&](StateVisitor& v) { replay->visit_rewritten(v); };
  const StateSnapshot snapshot(visit);
  replay->columns().extra[0].zero_();
  snapshot.restore(visit);
  EXPECT_EQ(replay->columns().extra[0].count_nonzero().item<int64_t>(), written);
}

// loads what three processes wrote of all rows: the second one twos, the last one threes
class OfThree : public PartialVisitor {
 public:
  bool loads() const override { return true; }

 private:
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    EXPECT_EQ(name, "rewritten.latent");
    ASSERT_EQ(value.size(1), 3);
    for (int64_t p = 0; p < 3; ++p) value.select(1, p).fill_(double(p + 1));
  }
};

TEST_F(Dataset, of_another_number_of_processes_goes_on_from_what_one_of_them_wrote) {
  DataPlan plan{.collect_steps = 1,
                .columns = {{.name = "latent", .shape = {3}, .rewritten = true}}};
  plan.replay = ReplayPlan{.length = 3};
  const auto replay =
      load_dataset(files(path_), experiment_->spec(), plan, {.device = at::kCPU, .threads = 1});
  OfThree visitor;
  replay->visit_rewritten_of(visitor, /*processes=*/3, /*of=*/1);
  const at::Tensor column = replay->columns().extra[0].narrow(0, 0, rows_);
  EXPECT_TRUE(column.eq(2).all().item<bool>());
}

// columns of more bytes than are read at once, in pieces that end within rows' episodes
TEST_F(Dataset, of_any_size_is_read_piece_by_piece) {
  const std::string content = read_file(path_, 1 << 24), large = path_ + ".large";
  const SafeTensors tensors = parse_safetensors(FileReader(path_));
  const int64_t times = (int64_t{20} << 20) / (rows_ * 16) + 1;
  std::vector<SafeTensorInfo> infos(tensors.tensors.begin(), tensors.tensors.end());
  std::map<std::string, std::string> columns, hashes;
  for (auto& info : infos) {
    const SafeTensor& tensor = *tensors.find(info.name);
    for (int64_t i = 0; i < times; ++i)
      columns[info.name] += content.substr(tensor.begin, tensor.bytes);
    info.shape[0] *= times;
    hashes["hash." + info.name] = maglev::hash_of(columns[info.name]);
  }
  FileWriter out(large);
  write_safetensors(out, infos, hashes,
                    [&](size_t i) { return std::as_bytes(std::span(columns[infos[i].name])); });
  out.finish();

  DataPlan plan{.collect_steps = 1};
  plan.replay = ReplayPlan{.length = 3};
  const auto replay =
      load_dataset(files(large), experiment_->spec(), plan, {.device = at::kCPU, .threads = 1});
  const int64_t rows = rows_ * times;
  ASSERT_EQ(replay->counters().now + 1, rows);
  const auto seen = replay->columns().obs[0].narrow(0, 0, rows).contiguous();
  ASSERT_EQ(seen.nbytes(), columns["obs.vector"].size());
  EXPECT_EQ(std::memcmp(seen.const_data_ptr(), columns["obs.vector"].data(), seen.nbytes()), 0);
  // one number in the last piece
  columns["obs.vector"].back() ^= 64;
  std::filesystem::remove(large);
  FileWriter again(large);
  write_safetensors(again, infos, hashes,
                    [&](size_t i) { return std::as_bytes(std::span(columns[infos[i].name])); });
  again.finish();
  expect_error(
      [&] {
        load_dataset(files(large), experiment_->spec(), plan, {.device = at::kCPU, .threads = 1});
      },
      "'obs.vector' does not match the hash");
}

TEST_F(Dataset, that_does_not_fit_says_what_it_lacks) {
  const auto pendulum = Experiment("linear_q", "pendulum").spec();
  DataPlan plan{.collect_steps = 1};
  plan.replay = ReplayPlan{.length = 3};
  expect_error(
      [&] { load_dataset(files(path_), pendulum, plan, {.device = at::kCPU, .threads = 1}); },
      "'obs.vector' must be F32 [N, 3] with N = " + std::to_string(rows_));
  expect_error(
      [&] { load_dataset(files(path_ + "x"), pendulum, plan, {.device = at::kCPU, .threads = 1}); },
      path_ + "x");
  plan.columns = {{.name = "value"}};
  expect_error(
      [&] {
        load_dataset(files(path_), experiment_->spec(), plan, {.device = at::kCPU, .threads = 1});
      },
      "value");
}

TEST_F(Dataset, damage_is_found_by_its_hashes_and_a_file_without_them_is_read_with_a_note) {
  const auto spec = experiment_->spec();
  DataPlan plan{.collect_steps = 1};
  plan.replay = ReplayPlan{.length = 3};
  const std::string content = read_file(path_, 1 << 24);
  const SafeTensors tensors = parse_safetensors(FileReader(path_));
  EXPECT_TRUE(dataset_notes(files(path_), "cartpole").empty());
  const auto other = dataset_notes(files(path_), "hockey");
  ASSERT_EQ(other.size(), 1u);
  EXPECT_TRUE(contains(other[0], "was recorded in cartpole, and is learned from for hockey"));
  for (const SafeTensor& tensor : tensors.tensors) {
    std::string changed = content;
    // the last bit of a mantissa, or of a byte: nothing else would notice
    changed[tensor.begin + tensor.bytes / 8 * 4] ^= 1;
    write_atomic(path_, changed);
    expect_error(
        [&] { load_dataset(files(path_), spec, plan, {.device = at::kCPU, .threads = 1}); },
        "'" + tensor.name + "' does not match the hash");
  }
  std::filesystem::remove(path_);
  FileWriter out(path_);
  write_safetensors(out, {tensors.tensors.begin(), tensors.tensors.end()}, {}, [&](size_t i) {
    const SafeTensor& tensor = tensors.tensors[i];
    return std::as_bytes(std::span(content)).subspan(tensor.begin, tensor.bytes);
  });
  out.finish();
  EXPECT_EQ(
      load_dataset(files(path_), spec, plan, {.device = at::kCPU, .threads = 1})->counters().now +
          1,
      rows_);
  ASSERT_EQ(dataset_notes(files(path_), "cartpole").size(), 1u);
  EXPECT_TRUE(contains(dataset_notes(files(path_), "cartpole")[0], "no hashes"));
}

}  // namespace
}  // namespace maglev
