#include "engine/run/checkpoint.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/core/error.h"
#include "base/core/file_fault.h"
#include "base/core/philox.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/snapshot.h"
#include "tests/errors.h"

namespace maglev {
namespace {

// [N, ...] of which three come at a time
class ByThree : public InPieces {
 public:
  explicit ByThree(at::Tensor whole) : whole_(std::move(whole)) {}
  at::Tensor like() const override { return whole_; }
  at::Tensor like(int64_t piece) const override {
    return whole_.narrow(0, 3 * piece, std::min<int64_t>(3, whole_.size(0) - 3 * piece));
  }
  int64_t count() const override { return (whole_.size(0) + 2) / 3; }
  at::Tensor get(int64_t piece) override { return like(piece).contiguous(); }
  void put(int64_t piece, const at::Tensor& values) override { like(piece).copy_(values); }

 private:
  at::Tensor whole_;
};

// a small run: tensors of several dtypes, one of them a view, one in pieces, and numbers
struct State {
  at::Tensor weight = at::arange(12, at::kFloat).view({3, 4}).set_requires_grad(true);
  at::Tensor transposed = at::arange(6, at::kDouble).view({2, 3}).t();
  at::Tensor half = at::ones({5}, at::kBFloat16);
  at::Tensor slots = at::arange(64, at::kByte);
  at::Tensor flag = at::zeros({2}, at::kBool);
  at::Tensor scalar = at::scalar_tensor(7, at::kLong);
  at::Tensor empty = at::empty({0, 3}, at::kFloat);
  at::Tensor rows = at::arange(40, at::kShort).view({2, 10, 2}).select(0, 1);
  int64_t updates = 3;
  double lr = 0.1;
  double unset = std::nan("");
  std::string note = "text with \xff a byte that is no UTF-8\n";

  void visit_state(StateVisitor& v) {
    v.section("net", [&](StateVisitor& s) {
      s.tensor("weight", weight);
      s.tensor("transposed", transposed);
      s.tensor("half", half);
    });
    v.tensor("slots", slots);
    v.tensor("flag", flag);
    v.tensor("scalar", scalar);
    v.tensor("empty", empty);
    v.pieces("z_rows", std::make_shared<ByThree>(rows));
    v.pieces("z_none", std::make_shared<ByThree>(empty));
    v.integer("updates", updates);
    v.real("lr", lr);
    v.real("unset", unset);
    v.text("note", note);
  }
  VisitState visit() {
    return [this](StateVisitor& v) { visit_state(v); };
  }
  void change(int64_t by) {
    at::NoGradGuard no_grad;
    weight.add_(double(by) / 3);
    transposed.mul_(1.1);
    slots.add_(by);
    rows.add_(by);
    flag.logical_not_();
    updates += by;
    lr /= 3;
    note += "x";
  }
};

CheckpointIdentity identity(int64_t step, double return_mean = std::nan(""),
                            bool evaluate = false) {
  return {.algo = "ppo",
          .env = "cartpole",
          .engine_version = "0.1.0",
          .torch_version = "t",
          .options_yaml = "seed: 1\n",
          .step = step,
          .updates = step / 10,
          .return_mean = return_mean,
          .evaluate = evaluate};
}

class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    // children are forked: no thread pool may be running
    at::set_num_threads(1);
    dir_ = (std::filesystem::temp_directory_path() / ("maglev-ckpt-" + std::to_string(::getpid())))
               .string();
    std::filesystem::remove_all(dir_);
  }
  void TearDown() override {
    set_file_fault({});
    std::filesystem::remove_all(dir_);
  }
  std::string save(State& state, int64_t step) {
    return save_checkpoint(dir_, identity(step), state.visit());
  }

  std::string dir_;
};

TEST_F(Checkpoint, what_is_loaded_equals_what_was_saved_to_the_bit) {
  State saved, loaded;
  saved.change(5);
  std::string path = save(saved, 1234), hash = state_hash(saved.visit());
  EXPECT_EQ(path, dir_ + "/step_000000001234");
  loaded.change(1);
  ASSERT_NE(state_hash(loaded.visit()), hash);
  void* storage = loaded.weight.data_ptr();
  CheckpointIdentity found = load_checkpoint(path, identity(0), loaded.visit());
  EXPECT_EQ(state_hash(loaded.visit()), hash);
  EXPECT_EQ(read_manifest(path).state.hash(), hash);
  EXPECT_EQ(loaded.weight.data_ptr(), storage) << "tensors are loaded in place";
  EXPECT_TRUE(loaded.weight.requires_grad());
  EXPECT_EQ(loaded.note, saved.note);
  EXPECT_EQ(found.step, 1234);
  EXPECT_EQ(found.options_yaml, "seed: 1\n");
  EXPECT_TRUE(std::isnan(found.return_mean));
}

TEST_F(Checkpoint, a_tensor_in_pieces_is_the_whole_one) {
  State state;
  const auto whole = [&](StateVisitor& v) { v.tensor("rows", state.rows); };
  const auto pieces = [&](StateVisitor& v) {
    v.pieces("rows", std::make_shared<ByThree>(state.rows));
  };
  EXPECT_EQ(state_hash(whole), state_hash(pieces));
  // who asks for tensors alone is given the whole, and gives it back so
  StateSnapshot before(pieces);
  const at::Tensor was = state.rows.clone();
  state.rows.zero_();
  before.restore(pieces);
  EXPECT_TRUE(at::equal(state.rows, was));
}

TEST_F(Checkpoint, the_hash_sees_every_value) {
  State base;
  std::string hash = state_hash(base.visit());
  std::vector<std::function<void(State&)>> changes = {
      [](State& s) { s.weight.detach().view(-1)[11] = std::nextafter(11.f, 12.f); },
      [](State& s) { s.transposed[2][1] = -1; },
      [](State& s) { s.half[4] = 1.0078125; },
      [](State& s) { s.slots[63] = 0; },
      [](State& s) { s.flag[1] = true; },
      [](State& s) { s.scalar.fill_(8); },
      [](State& s) {
        s.empty = at::empty({0, 4});
      },
      [](State& s) {
        s.weight = s.weight.detach().view({4, 3});
      },
      [](State& s) { s.updates++; },
      [](State& s) { s.lr = std::nextafter(s.lr, 1.0); },
      [](State& s) { s.unset = 0; },
      [](State& s) { s.note += "!"; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    State other;
    changes[i](other);
    EXPECT_NE(state_hash(other.visit()), hash) << "change " << i;
  }
  State same;
  EXPECT_EQ(state_hash(same.visit()), hash);
}

TEST_F(Checkpoint, every_kind_of_real_number_comes_back_exactly) {
  for (double value : {0.0, -0.0, 0.1, 1e-310, 1.7976931348623157e308, double(INFINITY),
                       -double(INFINITY), std::nan("7")}) {
    State saved, loaded;
    saved.lr = value;
    std::string path = save(saved, 1);
    load_checkpoint(path, identity(0), loaded.visit());
    EXPECT_EQ(std::memcmp(&loaded.lr, &value, sizeof value), 0) << value;
  }
}

TEST_F(Checkpoint, another_environment_is_one_error_that_names_both) {
  State state;
  std::string path = save(state, 1);
  CheckpointIdentity other = identity(1);
  other.env = "pendulum";
  std::string error = error_of([&] { load_checkpoint(path, other, state.visit()); });
  EXPECT_TRUE(contains(error, "ppo on cartpole") && contains(error, "ppo on pendulum")) << error;
}

TEST_F(Checkpoint, other_tokens_are_refused_and_none_fit_any) {
  State state;
  CheckpointIdentity trained = identity(1);
  trained.tokens = "00aa";
  const std::string path = save_checkpoint(dir_, trained, state.visit());
  CheckpointIdentity now = identity(1);
  load_checkpoint(path, now, state.visit());
  now.tokens = trained.tokens;
  EXPECT_EQ(load_checkpoint(path, now, state.visit()).tokens, "00aa");
  now.tokens = "00ab";
  EXPECT_TRUE(contains(error_of([&] { load_checkpoint(path, now, state.visit()); }),
                       "was trained on other names than cartpole"));
}

TEST_F(Checkpoint, names_and_shapes_that_differ_are_listed_and_nothing_live_is_touched) {
  State saved;
  saved.change(2);
  std::string path = save(saved, 1);
  State live;
  at::Tensor extra = at::zeros({1});
  live.half = at::ones({6}, at::kBFloat16);
  VisitState visit = [&](StateVisitor& v) {
    v.section("net", [&](StateVisitor& s) {
      s.tensor("weight", live.weight);
      s.tensor("half", live.half);
      s.tensor("extra", extra);
    });
    v.integer("updates", live.updates);
  };
  std::string before = state_hash(visit);
  std::string error = error_of([&] { load_checkpoint(path, identity(0), visit); });
  EXPECT_TRUE(contains(error, "it lacks 'net.extra'")) << error;
  EXPECT_TRUE(contains(error, "'net.transposed'") && contains(error, "'slots'")) << error;
  EXPECT_TRUE(contains(error, "'net.half' is BF16 [6] here and BF16 [5] there")) << error;
  EXPECT_EQ(state_hash(visit), before);
}

TEST_F(Checkpoint, a_part_of_a_section_loads_alone_and_a_name_it_lacks_is_refused) {
  State saved;
  saved.change(5);
  const VisitState whole = [&](StateVisitor& v) { v.section("algo", saved.visit()); };
  const std::string path = save_checkpoint(dir_, identity(1), whole);
  at::Tensor weight = at::zeros({3, 4}), other = at::zeros({2});
  load_section(path, "algo", identity(0), [&](StateVisitor& v) {
    v.section("net", [&](StateVisitor& s) { s.tensor("weight", weight); });
  });
  EXPECT_TRUE(at::equal(weight, saved.weight));
  weight.zero_();
  const auto text = error_of([&] {
    load_section(path, "algo", identity(0), [&](StateVisitor& v) {
      v.section("net", [&](StateVisitor& s) {
        s.tensor("weight", weight), s.tensor("bias", other), s.tensor("half", other);
      });
    });
  });
  EXPECT_NE(text.find("it lacks 'algo.net.bias'"), std::string::npos) << text;
  EXPECT_NE(text.find("'algo.net.half' is"), std::string::npos) << text;
  EXPECT_EQ(weight.abs().max().item<float>(), 0) << "nothing live is touched";
}

TEST_F(Checkpoint, every_changed_byte_is_found_before_anything_live_is_touched) {
  State saved;
  saved.change(2);
  std::string path = save(saved, 1);
  State live;
  std::string before = state_hash(live.visit());
  Rng rng(5, 1, 0);
  for (const char* name : {kStateFile, kManifestFile}) {
    std::string file = path + "/" + name, content = read_file(file, 1 << 20);
    for (int round = 0; round < 1000; ++round) {
      std::string changed = content;
      if (rng.below(4) == 0) changed.resize(rng.below(uint32_t(content.size())));
      else changed[rng.below(uint32_t(content.size()))] ^= char(1 << rng.below(8));
      std::filesystem::remove(file);
      std::ofstream(file, std::ios::binary) << changed;
      std::string error = error_of([&] { load_checkpoint(path, identity(0), live.visit()); });
      ASSERT_TRUE(contains(error, path)) << name << ", round " << round << ": '" << error << "'";
    }
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  }
  EXPECT_EQ(state_hash(live.visit()), before);
  load_checkpoint(path, identity(0), live.visit());
}

TEST_F(Checkpoint, damage_names_the_tensor) {
  State state;
  std::string file = save(state, 1) + "/" + kStateFile, content = read_file(file, 1 << 20);
  content[content.size() - 66] ^= 1;  // the last are 2 flags behind 64 slots
  std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  std::string error = error_of([&] { verify_checkpoint(parent_of(file)); });
  EXPECT_TRUE(contains(error, "'slots' does not match its hash")) << error;
}

TEST_F(Checkpoint, a_file_that_is_cut_or_changed_after_it_was_verified_is_an_error) {
  State state;
  const std::string path = save(state, 1), file = path + "/" + kStateFile;
  const std::string content = read_file(file, 1 << 20);
  const auto checkpoint = verify_checkpoint(path);
  std::string changed = content;
  changed[changed.size() - 66] ^= 1;
  std::ofstream(file, std::ios::binary) << changed;
  EXPECT_TRUE(contains(error_of([&] { load_checkpoint(checkpoint, identity(0), state.visit()); }),
                       "'slots' was changed while it was loaded"));
  // a mapping of what is not there any more would end the process
  std::filesystem::resize_file(file, 0);
  EXPECT_TRUE(contains(error_of([&] { load_checkpoint(checkpoint, identity(0), state.visit()); }),
                       "was cut to"));
}

TEST_F(Checkpoint, a_newer_format_says_so) {
  State state;
  std::string file = save(state, 1) + "/" + kManifestFile, content = read_file(file, 1 << 20);
  size_t place = content.find("\"format_version\": 1");
  ASSERT_NE(place, std::string::npos);
  content.replace(place, 19, "\"format_version\": 2");
  std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  EXPECT_TRUE(contains(error_of([&] { read_manifest(parent_of(file)); }), "checkpoint format 2"));
}

TEST_F(Checkpoint, nothing_is_renamed_into_place_before_it_is_synced) {
  State state;
  save(state, 1);
  std::map<std::string, bool> synced;  // each path written to or renamed into, with its folder
  bool in_place = false, committed = false;
  set_file_fault([&](FileOp op, const std::string& path) {
    bool file = path.ends_with(kStateFile) || path.ends_with(kManifestFile);
    if (op == FileOp::write) synced[path] = synced[parent_of(path)] = false;
    if (op == FileOp::sync && (file || synced.contains(path))) synced[path] = true;
    if (op == FileOp::sync && path == dir_ && in_place) committed = true;
    if (op == FileOp::rename && path == dir_ + "/step_000000000002") {
      in_place = true;
      EXPECT_EQ(synced.size(), 3u) << "state, manifest and their folder";
      for (const auto& [name, done] : synced) EXPECT_TRUE(done) << name;
    }
    return kFaultNone;
  });
  save(state, 2);
  EXPECT_TRUE(committed) << "the folder of the new name must be synced at the end";
}

TEST_F(Checkpoint, the_same_step_is_saved_beside_and_not_over) {
  State state;
  std::string first = save(state, 7), second = save(state, 7);
  EXPECT_EQ(second, first + "_2");
  EXPECT_EQ(read_manifest(first).sequence + 1, read_manifest(second).sequence);
}

TEST_F(Checkpoint, an_unwritable_folder_is_one_error) {
  State state;
  set_file_fault(parse_file_fault("open:EACCES:1"));
  std::string error = error_of([&] { save(state, 1); });
  EXPECT_TRUE(contains(error, "was not saved") && contains(error, "Permission denied") &&
              contains(error, "mend its permissions"))
      << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

class Store : public Checkpoint {
 protected:
  // runs `work` in a child that ends at its k-th file operation; false when it came through
  static bool killed_at(int k, const std::function<void()>& work) {
    pid_t child = ::fork();
    if (child == 0) {
      set_file_fault(parse_file_fault("any:EXIT:" + std::to_string(k)));
      try {
        work();
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    EXPECT_TRUE(code == 137 || code == 0) << "operation " << k << " ended with " << code;
    return code == 137;
  }
  std::vector<int64_t> steps(const CheckpointStore& store) {
    std::vector<int64_t> found;
    for (const auto& row : store.list()) found.push_back(row.identity.step);
    return found;
  }
};

TEST_F(Store, keeps_the_last_and_the_best) {
  CheckpointStore store(dir_, 2);
  State state;
  double returns[] = {10, 50, 20, 30, 40};
  for (int i = 0; i < 5; ++i) store.save(identity(100 * (i + 1), returns[i]), state.visit());
  EXPECT_EQ(steps(store), (std::vector<int64_t>{200, 400, 500}));
  EXPECT_EQ(read_link(store.dir() + "/best"), "step_000000000200");
  EXPECT_EQ(store.best(), store.dir() + "/step_000000000200");
  EXPECT_EQ(store.newest_valid(), store.dir() + "/step_000000000500");
  store.save(identity(600, 50), state.visit());
  EXPECT_EQ(steps(store), (std::vector<int64_t>{500, 600}))
      << "of equal returns the newest is the best";
}

TEST_F(Store, one_between_others_goes_with_the_next) {
  CheckpointStore store(dir_, 3);
  State state;
  for (int64_t step : {100, 200, 300}) store.save(identity(step), state.visit());
  const std::string first = store.save(identity(310), state.visit());
  EXPECT_EQ(steps(store), (std::vector<int64_t>{200, 300, 310}));
  const std::string second = store.save(identity(320), state.visit(), nullptr, first);
  EXPECT_EQ(steps(store), (std::vector<int64_t>{200, 300, 320}));
  store.save(identity(400), state.visit(), nullptr, second);
  EXPECT_EQ(steps(store), (std::vector<int64_t>{200, 300, 400}));
  // gone already
  store.save(identity(500), state.visit(), nullptr, second);
  EXPECT_EQ(steps(store), (std::vector<int64_t>{300, 400, 500}));
}

TEST_F(Store, newest_is_the_last_saved_even_after_going_back) {
  CheckpointStore store(dir_, 0);
  State state;
  store.save(identity(100), state.visit());
  store.save(identity(900), state.visit());
  store.save(identity(200), state.visit());
  EXPECT_EQ(store.newest_valid(), store.dir() + "/step_000000000200");
  EXPECT_EQ(store.best(), "") << "no episode had ended";
}

TEST_F(Store, skips_damaged_ones_with_a_note_and_keeps_the_only_valid_one) {
  State state;
  CheckpointStore all(dir_, 0), last(dir_, 1);
  for (int64_t step : {100, 200, 300}) all.save(identity(step), state.visit());
  std::ofstream(all.dir() + "/step_000000000300/" + kStateFile, std::ios::trunc) << "torn";
  std::vector<std::string> notes;
  EXPECT_EQ(last.newest_valid([&](const std::string& n) { notes.push_back(n); }),
            all.dir() + "/step_000000000200");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(contains(notes[0], "step_000000000300")) << notes[0];
  last.collect_garbage();
  EXPECT_EQ(steps(last).size(), 3u) << "the one to keep is damaged, so nothing may go";
  std::ofstream(all.dir() + "/step_000000000200/" + kManifestFile, std::ios::trunc) << "{}";
  EXPECT_EQ(last.newest_valid(), all.dir() + "/step_000000000100");
}

TEST_F(Store, an_empty_run_has_no_checkpoint) {
  CheckpointStore store(dir_, 1);
  EXPECT_EQ(store.newest_valid(), "");
  EXPECT_EQ(store.best(), "");
  EXPECT_FALSE(path_exists(store.dir())) << "looking must not write";
}

TEST_F(Store, a_kill_at_any_file_operation_leaves_a_valid_newest_checkpoint) {
  State first, second, third;
  second.change(1);
  third.change(2);
  std::string hashes[] = {state_hash(first.visit()), state_hash(second.visit()),
                          state_hash(third.visit())};
  int kills = 0;
  for (int k = 1;; ++k) {
    std::filesystem::remove_all(dir_);
    CheckpointStore store(dir_, 1);
    store.save(identity(100, 1), first.visit());
    store.save(identity(200, 2), second.visit());
    // the third save also moves `best` and deletes the second
    bool killed = killed_at(k, [&] { store.save(identity(300, 3), third.visit()); });
    std::string newest = store.newest_valid();
    ASSERT_NE(newest, "") << "killed at operation " << k;
    State loaded;
    int64_t step = load_checkpoint(newest, identity(0), loaded.visit()).step;
    ASSERT_EQ(state_hash(loaded.visit()), hashes[step / 100 - 1]) << "killed at operation " << k;
    ASSERT_GE(step, 200) << "killed at operation " << k;
    ASSERT_NE(store.best(), "") << "killed at operation " << k;
    // the next save goes on from there and sweeps what was left
    store.save(identity(400, 4), third.visit());
    ASSERT_EQ(list_dir(store.dir()), (std::vector<std::string>{"best", "step_000000000400"}))
        << "operation " << k;
    if (!killed) {
      EXPECT_EQ(step, 300);
      break;
    }
    ++kills;
  }
  EXPECT_GE(kills, 15);
  RecordProperty("kills", kills);
}

TEST_F(Store, sixty_kills_at_random_times_lose_no_committed_checkpoint) {
  Rng rng(3, 1, 0);
  // kills fall anywhere in the time that three saves take on this machine
  State first;
  auto begin = std::chrono::steady_clock::now();
  for (int64_t step : {1, 2, 3}) {
    first.updates = step;
    CheckpointStore(dir_, 2).save(identity(step), first.visit());
  }
  std::chrono::microseconds window = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin);
  int64_t committed = 3;
  for (int kill = 0; kill < 60 || (committed <= 10 && kill < 1000); ++kill) {
    const int64_t before = committed;
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    pid_t child = ::fork();
    if (child == 0) {
      CheckpointStore store(dir_, 2);
      State state;
      for (int64_t step = committed + 1;; ++step) {
        state.updates = step;
        store.save(identity(step, double(step % 7)), state.visit());
        if (::write(told[1], &step, sizeof step) != sizeof step) ::_exit(1);
      }
    }
    ::usleep(rng.below(uint32_t(window.count())));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(told[1]);
    for (int64_t step; ::read(told[0], &step, sizeof step) == sizeof step;) committed = step;
    ::close(told[0]);
    std::string newest = CheckpointStore(dir_, 2).newest_valid();
    ASSERT_NE(newest, "") << "after kill " << kill;
    State loaded;
    int64_t step = load_checkpoint(newest, identity(0), loaded.visit()).step;
    ASSERT_GE(step, committed) << "after kill " << kill;
    ASSERT_EQ(loaded.updates, step) << "after kill " << kill;
    committed = step;
    // a machine that has become busy saves nothing in that time
    if (kill > 60 && committed == before) window += window / 8;
  }
  EXPECT_GT(committed, 10) << "the machine is too slow for this test to show anything";
}

TEST_F(Store, a_full_disk_at_any_operation_is_one_error_and_earlier_checkpoints_are_intact) {
  State first, second;
  second.change(1);
  std::string before = state_hash(first.visit());
  for (const char* op : {"open", "write", "sync", "rename", "unlink"}) {
    for (int k = 1;; ++k) {
      std::filesystem::remove_all(dir_);
      CheckpointStore store(dir_, 1);
      store.save(identity(100, 1), first.visit());
      set_file_fault(parse_file_fault(std::string(op) + ":ENOSPC:" + std::to_string(k)));
      std::string error = error_of([&] { store.save(identity(200, 2), second.visit()); });
      set_file_fault({});
      State loaded;
      int64_t step = load_checkpoint(store.newest_valid(), identity(0), loaded.visit()).step;
      if (error.empty()) {
        EXPECT_GT(k, 1) << op << " was never asked";
        EXPECT_EQ(step, 200);
        break;
      }
      EXPECT_EQ(error.find('\n'), std::string::npos) << error;
      EXPECT_TRUE(contains(error, "No space left on device") && contains(error, "free space"))
          << error;
      bool saved = !contains(error, "was not saved");
      EXPECT_EQ(step, saved ? 200 : 100) << error;
      // then the link or the deletion of old ones failed, which the next save takes up again
      if (saved) continue;
      EXPECT_EQ(state_hash(loaded.visit()), before);
      EXPECT_EQ(list_dir(store.dir()), (std::vector<std::string>{"best", "step_000000000100"}))
          << op << " " << k;
    }
  }
}

TEST_F(Checkpoint, a_number_that_indexes_is_refused_out_of_its_range_before_anything_is_loaded) {
  // a forger writes the hashes too
  int64_t index = 99;
  const std::string path =
      save_checkpoint(dir_, identity(1), [&](StateVisitor& v) { v.integer("index", index); });
  index = 2;
  const std::string error = error_of([&] {
    load_checkpoint(path, identity(0), [&](StateVisitor& v) { v.integer("index", index, 0, 3); });
  });
  EXPECT_TRUE(contains(error, "'index' must lie in 0 to 3, the checkpoint says 99")) << error;
  EXPECT_EQ(index, 2);
}

TEST_F(Store, best_is_chosen_by_evaluation_where_there_is_one) {
  CheckpointStore store(dir_, 1);
  State state;
  const std::string first = store.save(identity(100, 90, /*evaluate=*/true), state.visit());
  const std::string second = store.save(identity(200, 10), state.visit());
  store.save(identity(300, 20), state.visit());
  EXPECT_EQ(steps(store), (std::vector<int64_t>{100, 300})) << "what is being judged stays";
  EXPECT_EQ(store.unjudged(), std::vector<std::string>{first});
  store.judge(first, 5);
  EXPECT_TRUE(store.unjudged().empty());
  EXPECT_EQ(store.best(), first);
  const std::string fourth = store.save(identity(400, 0), state.visit());
  store.judge(fourth, 6);
  EXPECT_EQ(store.best(), fourth) << "though training's return was higher before";
  store.save(identity(500, 99), state.visit());
  EXPECT_EQ(steps(store), (std::vector<int64_t>{400, 500}));
  EXPECT_EQ(store.best(), fourth) << "one that was not judged does not compete";
}

TEST_F(Store, what_was_judged_by_another_measure_is_judged_anew) {
  CheckpointStore store(dir_, 1);
  State state;
  const std::string path = store.save(identity(100, 90, /*evaluate=*/true), state.visit());
  store.judge(path, 5);
  store.forget_evaluations();
  EXPECT_EQ(store.unjudged(), std::vector<std::string>{path});
}

TEST_F(Store, a_checkpoint_to_be_evaluated_says_so_from_the_moment_it_is_there) {
  State state;
  int kills = 0;
  for (int k = 1;; ++k) {
    std::filesystem::remove_all(dir_);
    CheckpointStore store(dir_, 1);
    store.save(identity(100, 1), state.visit());
    const bool killed =
        killed_at(k, [&] { store.save(identity(200, 2, /*evaluate=*/true), state.visit()); });
    const std::string newest = store.newest_valid();
    const auto unjudged = store.unjudged();
    if (newest.ends_with("200"))
      ASSERT_EQ(unjudged, std::vector<std::string>{newest}) << "killed at operation " << k;
    else ASSERT_TRUE(unjudged.empty()) << "killed at operation " << k;
    if (!killed) break;
    ++kills;
  }
  EXPECT_GE(kills, 10);
}

TEST_F(Store, an_evaluation_that_told_nothing_is_over_and_a_verdict_goes_with_its_checkpoint) {
  CheckpointStore store(dir_, 1);
  State state;
  const std::string first = store.save(identity(100, 1, /*evaluate=*/true), state.visit());
  store.judge(first, std::nan(""));
  EXPECT_TRUE(store.unjudged().empty());
  const std::string second = store.save(identity(200, 2, /*evaluate=*/true), state.visit());
  EXPECT_EQ(steps(store), std::vector<int64_t>{200});
  store.judge(second, 7);
  std::filesystem::remove_all(first);
  // the same step again, as after going back
  const std::string again = store.save(identity(100, 1, /*evaluate=*/true), state.visit());
  EXPECT_EQ(again, first);
  EXPECT_EQ(store.unjudged(), std::vector<std::string>{again});
}

TEST_F(Store, a_folder_in_the_place_of_best_is_moved_aside_and_old_checkpoints_still_go) {
  CheckpointStore store(dir_, 1);
  State state;
  make_dirs(store.dir() + "/best");
  write_atomic(store.dir() + "/best/notes.txt", "mine");
  store.save(identity(100, 1), state.visit());
  std::string trouble;
  store.save(identity(200, 2), state.visit(), &trouble);
  EXPECT_EQ(trouble, "");
  EXPECT_EQ(steps(store), std::vector<int64_t>{200});
  EXPECT_EQ(read_link(store.dir() + "/best"), "step_000000000200");
  EXPECT_EQ(read_file(store.dir() + "/best.old-1/notes.txt", 100), "mine");
}

}  // namespace
}  // namespace maglev
