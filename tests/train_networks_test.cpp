// What the table of networks promises (docs/architecture.md), of each one on everything it suits:
// what forward gives, that it learns as a whole, that replicas are the same, that both learners of
// PPO make the same of it, that a run continues to the bit. And how settings name networks.

#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "engine/nn/flat_params.h"
#include "engine/nn/network.h"
#include "engine/run/checkpoint.h"
#include "engine/run/kept_files.h"
#include "engine/train/trainer.h"
#include "tests/close.h"
#include "tests/errors.h"
#include "tests/exported_file.h"
#include "tests/folder.h"
#include "tests/random_rollouts.h"

namespace maglev {
namespace {

const std::vector<std::pair<const char*, EnvSpec>>& specs() {
  static const std::vector<std::pair<const char*, EnvSpec>> list{
      {"a vector", vectors()},   {"heads with masks", masked_heads()},
      {"one", one_continuous()}, {"secrets", privileged()},
      {"pixels", pixels()},      {"cells", cells()},
      {"goals", goals()}};
  return list;
}

std::vector<at::Tensor> observations(const EnvSpec& spec, int64_t rows) {
  at::manual_seed(4);
  std::vector<at::Tensor> columns;
  for (const auto& o : spec.observations) {
    std::vector<int64_t> sizes{rows};
    sizes.insert(sizes.end(), o.shape.begin(), o.shape.end());
    constexpr at::ScalarType kTypes[] = {at::kByte, at::kInt, at::kFloat};
    columns.push_back(at::empty(sizes, kTypes[size_t(o.dtype)]));
    fill_random(columns.back(), o);
  }
  return columns;
}

// what a network needs of its own: the layers of one that was exported are a file's
std::vector<std::pair<std::string, std::string>> own_settings_of(const NetworkEntry& entry,
                                                                 const EnvSpec& spec) {
  if (entry.name != std::string("exported")) return {};
  const std::string path = test_folder() + "/network.safetensors";
  return {{"exported.file", ExportedFile(spec).written(path)}, {"exported.weights", "drawn"}};
}

class ANetwork : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override { claim_threads(); }
  const NetworkEntry& entry() const { return network_table()[GetParam()]; }
  NetworkOptions options(const EnvSpec& spec) const {
    NetworkOptions options{.kind = &entry(), .hidden = {24, 16}};
    OptionTable table;
    options.describe(table);
    for (const auto& [name, value] : own_settings_of(entry(), spec)) table.set(name, value);
    return options;
  }
  std::shared_ptr<ActorCritic> made(const EnvSpec& spec, Initializer init = Initializer(1)) const {
    return make_network(options(spec), {.spec = spec}, init);
  }
  /// Calls `check` with everything the network suits.
  void on_each(const std::function<void(const EnvSpec&)>& check) const {
    int count = 0;
    for (const auto& [name, spec] : specs()) {
      if (entry().suits(spec) == Suits::no) continue;
      SCOPED_TRACE(std::string(entry().name) + " on " + name);
      check(spec), ++count;
    }
    EXPECT_GT(count, 0) << entry().name << " suits nothing";
  }
};

TEST_P(ANetwork, gives_a_row_of_logits_and_a_value_for_each_row_or_what_is_asked_of_them) {
  on_each([&](const EnvSpec& spec) {
    const auto network = made(spec);
    const auto columns = observations(spec, 9);
    at::NoGradGuard no_grad;
    const auto both = network->forward(columns, {});
    const int64_t width = spec.action.discrete() ? spec.action.categories() : spec.action.dims();
    EXPECT_EQ(both.logits.sizes(), (std::vector<int64_t>{9, width}));
    EXPECT_EQ(both.value.sizes(), std::vector<int64_t>{9});
    EXPECT_EQ(both.logits.scalar_type(), at::kFloat);
    EXPECT_EQ(both.value.scalar_type(), at::kFloat);
    EXPECT_EQ(network->log_std().defined(), !spec.action.discrete());
    const auto policy = network->forward(columns, {.policy = true, .value = false});
    const auto value = network->forward(columns, {.policy = false, .value = true});
    EXPECT_TRUE(close(policy.logits, both.logits, 0));
    EXPECT_TRUE(close(value.value, both.value, 0));
    EXPECT_FALSE(policy.value.defined() || value.logits.defined());
  });
}

TEST_P(ANetwork, learns_with_every_parameter_from_policy_and_value) {
  on_each([&](const EnvSpec& spec) {
    const auto network = made(spec);
    const auto out = network->forward(observations(spec, 9), {});
    (out.logits * at::randn_like(out.logits)).sum().add(out.value.sum()).backward();
    for (const auto& p : network->named_parameters()) {
      // deviations are the distribution's, behind the network
      if (p.value().is_same(network->log_std())) continue;
      EXPECT_TRUE(p.value().grad().defined() && p.value().grad().abs().sum().item<float>() > 0)
          << p.key();
    }
  });
}

TEST_P(ANetwork, has_the_parameters_of_each_part_side_by_side) {
  on_each([&](const EnvSpec& spec) {
    const auto network = made(spec);
    const FlatParams flat(*network, 1, [&](const std::string& p) { return network->part_of(p); });
    std::set<std::string> parts;
    for (const auto& range : flat.module_ranges())
      EXPECT_TRUE(parts.insert(range.name).second) << range.name;
    EXPECT_GE(parts.size(), 2u) << "the policy and the value are clipped apart";
  });
}

TEST_P(ANetwork, shows_the_critics_columns_to_the_value_alone) {
  if (entry().suits(privileged()) == Suits::no) GTEST_SKIP() << "does not suit vectors";
  at::NoGradGuard no_grad;
  const auto network = made(privileged());
  auto columns = observations(privileged(), 9);
  const auto before = network->forward(columns, {});
  columns[1] = columns[1] + 1;
  const auto after = network->forward(columns, {});
  EXPECT_TRUE(close(after.logits, before.logits, 0));
  EXPECT_TRUE((after.value != before.value).all().item<bool>());
}

TEST_P(ANetwork, is_a_function_of_its_seed) {
  on_each([&](const EnvSpec& spec) {
    const auto weights = [&](uint64_t seed) {
      return FlatParams(*made(spec, Initializer(seed))).data();
    };
    const auto one = weights(5);
    at::manual_seed(77);
    EXPECT_TRUE(close(weights(5), one, 0)) << "weights that Initializer did not draw";
    EXPECT_FALSE(at::equal(weights(6), one));
  });
}

TEST_P(ANetwork, says_what_it_costs_without_being_made) {
  on_each([&](const EnvSpec& spec) {
    const RowCost made_cost = made(spec)->cost();
    const RowCost cost = made(spec, Initializer::shapes())->cost();
    EXPECT_EQ(cost.multiply_adds, made_cost.multiply_adds);
    EXPECT_EQ(cost.outputs, made_cost.outputs);
    EXPECT_GT(cost.multiply_adds, cost.outputs);
  });
}

// in f32, and rounding its own weights where it does
TEST_P(ANetwork, has_replicas_that_give_the_same_and_read_what_it_has_learned) {
  for (bool bf16 : {false, true})
    on_each([&](const EnvSpec& spec) {
      at::NoGradGuard no_grad;
      const NetworkContext context{.spec = spec, .bf16 = bf16};
      const auto network = make_network(options(spec), context, Initializer(1));
      const auto replica = make_network(options(spec), context, Initializer::none());
      const FlatParams params(*network);
      const auto grad = at::zeros_like(params.data());
      params.bind(*network, *replica, grad);
      network->round_weights();
      replica->share_rounded(*network);
      const auto columns = observations(spec, 9);
      for (int step = 0; step < 2; ++step) {
        const auto ours = replica->forward(columns, {}), theirs = network->forward(columns, {});
        EXPECT_TRUE(close(ours.logits, theirs.logits, 0));
        EXPECT_TRUE(close(ours.value, theirs.value, 0));
        auto learned = params.data();
        learned.mul_(1.25);
        network->round_weights();
      }
    });
}

// rounding is far below what a step that one learner left out would move: lr
TEST_P(ANetwork, learns_the_same_by_the_fused_and_by_the_reference_learner) {
  on_each([&](const EnvSpec& spec) {
    auto settings = small();
    settings.network = options(spec);
    settings.minibatch = 80, settings.epochs = 2, settings.lr = 1e-3, settings.adam_eps = 1e-3;
    RandomRollouts fused(spec, 12, settings, 2);
    settings.fused = false;
    RandomRollouts reference(spec, 12, settings);
    const auto before = reference.weights();
    const Batch& batch = fused.collect(0);
    reference.learn(relived(reference, batch));
    fused.learn(batch);
    EXPECT_TRUE(close(fused.weights(), reference.weights(), 0.02 * settings.lr));
    EXPECT_FALSE(close(reference.weights(), before, settings.lr));
  });
}

TEST_P(ANetwork, has_value_heads_that_popart_rescales_with_the_optimisers_moments) {
  on_each([&](const EnvSpec& spec) {
    auto settings = small();
    settings.network = options(spec);
    settings.network.value_head = ValueHeadKind::popart;
    RandomRollouts rollouts(spec, 12, settings);
    const Batch& batch = rollouts.collect(0);
    batch.reward.mul_(30);
    at::NoGradGuard no_grad;
    const auto before = rollouts.ppo.policy().last_value(batch, 0, 12);
    rollouts.learner().prepare(batch);
    EXPECT_TRUE(close(rollouts.ppo.policy().last_value(batch, 0, 12), before, 1e-4));
    EXPECT_TRUE(rollouts.ppo.policy().network().value_head().normalizes());
  });
}

/// An environment of the table that the network suits, small.
std::unique_ptr<Experiment> experiment_with(const NetworkEntry& entry) {
  for (const EnvEntry& env : env_table()) {
    auto made = std::make_unique<Experiment>("ppo", env.name);
    if (entry.suits(made->spec()) == Suits::no) continue;
    for (const char* setting :
         {"env.count=6", "ppo.rollout=8", "ppo.minibatch=20", "ppo.epochs=2",
          "ppo.network.hidden=[16]", "ppo.network.cnn.channels=[3, 4, 5]", "seed=3"})
      made->table().override_with(setting);
    made->table().set("ppo.network.kind", entry.name);
    for (const auto& [name, value] : own_settings_of(entry, made->spec()))
      made->table().set("ppo.network." + name, value);
    return made;
  }
  throw Error(std::string(entry.name) + " suits no environment");
}

// PopArt rescales the optimiser's moments of both as one stretch
TEST_P(ANetwork, has_a_value_head_whose_bias_follows_its_weights_however_parameters_are_aligned) {
  on_each([&](const EnvSpec& spec) {
    for (int64_t alignment : {1, 16}) {
      const auto network = made(spec);
      const FlatParams params(*network, alignment);
      const ValueHead& head = network->value_head();
      EXPECT_EQ(head.bias().data_ptr<float>(),
                head.weight().data_ptr<float>() + head.weight().numel());
    }
  });
}

TEST_P(ANetwork, trains_and_continues_from_a_checkpoint_as_the_unbroken_run_does) {
  const auto experiment = experiment_with(entry());
  const auto trainer = [&](int threads) {
    return std::make_unique<Trainer>(*experiment,
                                     Placement{.device = at::kCPU, .threads = threads});
  };
  const auto hash = [](Trainer& run) {
    return state_hash([&](StateVisitor& v) { run.visit_state(v); });
  };
  const auto whole = trainer(2), first = trainer(1), second = trainer(1);
  for (int i = 0; i < 4; ++i) whole->iterate();
  for (int i = 0; i < 2; ++i) first->iterate();
  const CheckpointIdentity identity{.algo = "ppo", .env = experiment->env().name};
  const auto path = save_checkpoint(test_folder() + "/" + entry().name, identity,
                                    [&](StateVisitor& v) { first->visit_state(v); });
  load_checkpoint(path, identity, [&](StateVisitor& v) { second->visit_state(v); });
  EXPECT_EQ(hash(*second), hash(*first));
  for (int i = 0; i < 2; ++i) second->iterate();
  EXPECT_NE(hash(*second), hash(*first)) << "nothing was learned";
  EXPECT_EQ(hash(*second), hash(*whole));
}

TEST_P(ANetwork, is_a_kind_and_its_settings_are_a_section_of_its_name) {
  NetworkOptions options;
  OptionTable table;
  options.describe(table);
  table.set("kind", entry().name);
  EXPECT_EQ(options.kind, &entry());
  EXPECT_EQ(table.find("kind")->text(), entry().name);
  EXPECT_EQ(table.find(entry().name), nullptr) << "a common setting is called so";
  const std::string section = std::string(entry().name) + ".";
  bool listed = false;
  for (const Field& field : table.fields()) listed |= field.name.starts_with(section);
  EXPECT_EQ(listed, entry().own.defaults.has_value());
}

TEST_P(ANetwork, on_what_it_does_not_suit_says_what_it_needs) {
  for (const auto& [name, spec] : specs()) {
    const bool refused = entry().suits(spec) == Suits::no;
    const auto error = error_of([&, &spec = spec] { made(spec); });
    EXPECT_EQ(contains(error, std::string("needs ") + entry().needs), refused) << name << error;
  }
}

INSTANTIATE_TEST_SUITE_P(OfTheTable, ANetwork, testing::Range<size_t>(0, network_table().size()),
                         [](const auto& info) {
                           return std::string(network_table()[info.param].name);
                         });

TEST(Networks, whose_file_changed_while_a_run_began_are_not_kept) {
  Experiment experiment("ppo", "cartpole");
  EXPECT_EQ(held_by_files(experiment), "");
  const std::string file =
      ExportedFile(experiment.spec()).written(test_folder() + "/begun.safetensors");
  experiment.table().set("ppo.network.kind", "exported");
  experiment.table().set("ppo.network.exported.file", file);
  RunDir dir = RunDir::create({.out = test_folder() + "/run", .algo = "ppo", .env = "cartpole"});
  std::vector<std::string> command{"ppo.network.exported.file=" + file};
  const std::string held = held_by_files(experiment);
  const auto keep = [&](const std::string& of) {
    return error_of([&] { keep_files(dir, experiment, command, of); });
  };
  EXPECT_TRUE(contains(keep("of another"), file + " changed while the run began with it"));
  EXPECT_EQ(keep(held), "");
  EXPECT_EQ(held_by_files(experiment), held);
  EXPECT_TRUE(contains(command[0], "/run/network.safetensors"));
  // which the run has by itself
  remove_path(file);
  EXPECT_EQ(keep(""), "");
}

TEST(Networks, auto_knows_one_for_everything_that_environments_show) {
  for (const EnvEntry& env : env_table()) {
    const Experiment experiment("ppo", env.name);
    const auto network = make_network({}, {.spec = experiment.spec()}, Initializer::shapes());
    EXPECT_GT(network->cost().multiply_adds, 0) << env.name;
  }
}

TEST(Networks, a_wrong_kind_is_answered_with_a_near_one) {
  NetworkOptions options;
  OptionTable table;
  options.describe(table);
  EXPECT_TRUE(contains(error_of([&] { table.set("kind", "mpl"); }), "did you mean mlp?"));
  EXPECT_TRUE(contains(error_of([] { find_network("ccn"); }), "did you mean cnn?"));
}

TEST(Networks, settings_that_became_a_networks_own_are_answered_with_their_place) {
  Experiment experiment("ppo", "cartpole");
  for (const char* name : {"ppo.network.channels", "ppo.network.fused_layers", "channels"}) {
    const std::string leaf = name + std::string(name).rfind('.') + 1;
    EXPECT_TRUE(contains(error_of([&] { experiment.table().set(name, "[8]"); }),
                         "did you mean ppo.network.cnn." + leaf))
        << name;
  }
}

TEST(Networks, copies_of_settings_have_values_of_their_own) {
  NetworkOptions one;
  const NetworkOptions before = one;
  OptionTable table;
  one.describe(table);
  table.set("cnn.channels", "[8]");
  NetworkOptions two = one, old = before;
  OptionTable of_two, of_old;
  two.describe(of_two), old.describe(of_old);
  of_two.set("cnn.channels", "[4]");
  EXPECT_EQ(table.find("cnn.channels")->text(), "[8]");
  EXPECT_EQ(of_two.find("cnn.channels")->text(), "[4]");
  EXPECT_EQ(of_old.find("cnn.channels")->text(), "[32, 64, 64]");
}

}  // namespace
}  // namespace maglev
