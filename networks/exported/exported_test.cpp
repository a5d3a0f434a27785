// Files of networks that were written in Python: what they may hold, what is made of them, and that
// whatever is wrong with one is one error that names it.

#include <cstring>
#include <fstream>
#include <map>
#include <random>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "engine/host/machine.h"
#include "engine/nn/flat_params.h"
#include "engine/nn/network.h"
#include "tests/close.h"
#include "tests/errors.h"
#include "tests/exported_file.h"
#include "tests/folder.h"
#include "tests/random_rollouts.h"

namespace maglev {
namespace {

NetworkOptions options_of(const ExportedFile& file, const std::string& weights = "given") {
  NetworkOptions options{.kind = &find_network("exported")};
  OptionTable table;
  options.describe(table);
  table.set("exported.file", file.written(test_folder() + "/one.safetensors"));
  table.set("exported.weights", weights);
  if (file.json.find("\"memory\": ") != file.json.npos) options.memory = ExportedFile::kMemory;
  return options;
}

std::shared_ptr<ActorCritic> network_of(const ExportedFile& file, const EnvSpec& spec,
                                        const std::string& weights = "given") {
  claim_threads();
  return make_network(options_of(file, weights), {.spec = spec}, Initializer(1));
}

std::string error_with(const std::string& from, const std::string& to) {
  const ExportedFile file = ExportedFile(vectors()).with(from, to);
  return error_of([&] { network_of(file, vectors()); });
}

TEST(ExportedNetwork, computes_what_its_operations_say_with_the_weights_of_its_file) {
  const ExportedFile file(privileged());
  const auto network = network_of(file, privileged());
  at::manual_seed(3);
  const auto seen = at::randn({7, 5}), secret = at::randn({7, 3});
  const auto layer = [&](const at::Tensor& x, const std::string& name) {
    return at::linear(x, file.tensors.at(name + ".weight"), file.tensors.at(name + ".bias"));
  };
  const auto logits = layer(layer(layer(seen, "pi.0").tanh(), "pi.2").tanh(), "pi.4");
  const auto value = layer(layer(at::cat({seen, secret}, 1), "v.0").tanh(), "v.2").squeeze(1);
  const auto out = network->forward({seen, secret}, {});
  EXPECT_TRUE(close(out.logits, logits, 1e-5));
  EXPECT_TRUE(close(out.value, value, 1e-5));
}

TEST(ExportedNetwork, has_its_parameters_by_the_modules_names) {
  const auto names = network_of(ExportedFile(vectors()), vectors())->named_parameters().keys();
  EXPECT_EQ(names,
            (std::vector<std::string>{"policy.pi.0.weight", "policy.pi.0.bias",
                                      "policy.pi.2.weight", "policy.pi.2.bias",
                                      "policy_head.weight", "policy_head.bias", "value.v.0.weight",
                                      "value.v.0.bias", "value_head.weight", "value_head.bias"}));
}

TEST(ExportedNetwork, of_fully_connected_layers_runs_on_panels_and_of_others_does_not) {
  const ExportedFile file(vectors());
  const auto stacks = network_of(file, vectors())->dense();
  ASSERT_TRUE(stacks.has_value());
  EXPECT_EQ(stacks->policy.size(), 3u);
  EXPECT_EQ(stacks->value.size(), 2u);
  EXPECT_TRUE(stacks->shared.empty());
  EXPECT_FALSE(network_of(file.with("aten::tanh", "aten::sigmoid"), vectors())->dense());
  EXPECT_FALSE(network_of(ExportedFile(pixels()), pixels())->dense());
}

TEST(ExportedNetwork,
     has_panels_for_layers_that_both_begin_with_and_for_no_others_with_one_weight) {
  const auto tied = ExportedFile(vectors()).with("\"%v.0.weight\", \"%v.0.bias\"",
                                                 "\"%pi.0.weight\", \"%pi.0.bias\"");
  const auto stacks = network_of(tied, vectors())->dense();
  ASSERT_TRUE(stacks.has_value());
  EXPECT_EQ(stacks->shared.size(), 1u);
  EXPECT_EQ(stacks->value.size(), 1u);
  // the same sums, and other units of them
  const auto apart =
      tied.with("\"v.0_units\", \"op\": \"aten::tanh\"", "\"v.0_units\", \"op\": \"aten::relu\"");
  EXPECT_FALSE(network_of(apart, vectors())->dense());
  const auto other_bias = ExportedFile(vectors()).with("\"%v.0.weight\"", "\"%pi.0.weight\"");
  EXPECT_FALSE(network_of(other_bias, vectors())->dense());
}

TEST(ExportedNetwork, whose_bias_is_one_number_for_all_units_has_no_panels) {
  ExportedFile file(vectors());
  file.tensors.at("pi.0.bias") = at::full({1}, 0.5);
  EXPECT_FALSE(network_of(file, vectors())->dense());
}

TEST(ExportedNetwork, shows_its_layers_to_people) {
  const auto network = network_of(ExportedFile(vectors()), vectors());
  std::vector<LayerOutput> layers;
  const auto seen = network->encode({at::zeros({2, 5})});
  network->look(seen.value(), &layers);
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].name, "pi.0");
  EXPECT_EQ(layers[0].output.sizes(), (std::vector<int64_t>{2, 24}));
}

/// A network's file that remembers, as a few lines of ATen.
struct Remembering {
  std::map<std::string, at::Tensor> tensors;

  at::Tensor layer(const at::Tensor& x, const std::string& name) const {
    return at::linear(x, tensors.at(name + ".weight"), tensors.at(name + ".bias"));
  }
  // seen [L * B, 5], secret [L * B, 3]
  NetworkOutput through(const at::Tensor& seen, const at::Tensor& secret, Recall& recall) const {
    const int64_t L = recall.is_first.size(0), B = recall.is_first.size(1);
    NetworkOutput out;
    std::vector<at::Tensor> logits, values;
    for (int64_t l = 0; l < L; ++l) {
      const auto x = seen.narrow(0, l * B, B), hidden = secret.narrow(0, l * B, B);
      const auto before =
          at::where(recall.is_first[l].to(at::kBool).unsqueeze(1), 0.f, recall.state);
      recall.state = (layer(x, "pi.0") + layer(before, "past")).tanh();
      logits.push_back(layer(layer(recall.state, "pi.2").tanh(), "pi.4"));
      const auto all = at::cat({x, hidden, recall.state}, 1);
      values.push_back(layer(layer(all, "v.0").tanh(), "v.2").squeeze(1));
    }
    return {at::cat(logits), at::cat(values)};
  }
};

TEST(ExportedNetwork, that_remembers_gives_step_by_step_what_its_operations_say_and_learns_so) {
  const ExportedFile file(privileged(), /*remembers=*/true);
  const auto network = network_of(file, privileged());
  EXPECT_EQ(network->memory_size(), ExportedFile::kMemory);
  EXPECT_FALSE(network->dense().has_value());
  Remembering same{file.tensors};
  for (auto& [name, tensor] : same.tensors) tensor = tensor.clone().requires_grad_();
  at::manual_seed(3);
  for (const int64_t L : {1, 5}) {
    constexpr int64_t B = 4;
    const auto seen = at::randn({L * B, 5}), secret = at::randn({L * B, 3});
    const Recall begin{at::randn({B, ExportedFile::kMemory}),
                       (at::rand({L, B}) < 0.3).to(at::kByte)};
    Recall recall = begin, expected = begin;
    const auto out = network->forward_through({seen, secret}, {}, recall);
    const auto by_hand = same.through(seen, secret, expected);
    EXPECT_TRUE(close(out.logits, by_hand.logits, 1e-5));
    EXPECT_TRUE(close(out.value, by_hand.value, 1e-5));
    EXPECT_TRUE(close(recall.state, expected.state, 1e-5));

    // through all steps, of what is given and of what is remembered behind them
    const auto loss = [](const NetworkOutput& o, const Recall& r) {
      return o.logits.square().sum() + o.value.sin().sum() + r.state.sum();
    };
    network->zero_grad();
    for (auto& [name, tensor] : same.tensors) tensor.mutable_grad() = at::Tensor();
    loss(out, recall).backward(), loss(by_hand, expected).backward();
    const auto learned = network->named_parameters();
    for (const auto& [name, tensor] : same.tensors)
      for (const auto& parameter : learned) {
        std::string own = parameter.key().substr(parameter.key().find('.') + 1);
        if (parameter.key().starts_with("policy_head.")) own = "pi.4." + own;
        else if (parameter.key().starts_with("value_head.")) own = "v.2." + own;
        if (own != name) continue;
        EXPECT_TRUE(close(parameter.value().grad(), tensor.grad(), 1e-4)) << name;
      }

    // what is wanted of it is the same, and it goes on alike
    Recall of_policy = begin, of_value = begin;
    const auto policy =
        network->forward_through({seen, secret}, {.policy = true, .value = false}, of_policy);
    const auto value =
        network->forward_through({seen, secret}, {.policy = false, .value = true}, of_value);
    EXPECT_TRUE(close(policy.logits, out.logits, 0));
    EXPECT_TRUE(close(value.value, out.value, 0));
    EXPECT_TRUE(close(of_policy.state, recall.state, 0));
    EXPECT_TRUE(close(of_value.state, recall.state, 0));
  }
}

TEST(ExportedNetwork, that_remembers_shows_its_layers_and_its_memory) {
  at::NoGradGuard no_grad;
  const auto network = network_of(ExportedFile(vectors(), true), vectors());
  const auto columns = std::vector<at::Tensor>{at::randn({2, 5})};
  Recall recall{at::randn({2, ExportedFile::kMemory}), at::zeros({1, 2}, at::kByte)};
  Recall again = recall;
  const auto out = network->forward_through(columns, {}, recall);
  std::vector<LayerOutput> layers;
  const auto seen = network->look(network->encode(columns).value(), &layers, &again);
  EXPECT_TRUE(close(seen.logits, out.logits, 0));
  EXPECT_TRUE(close(seen.value, out.value, 0));
  EXPECT_EQ(layers.back().name, "memory");
  EXPECT_TRUE(close(layers.back().output, recall.state, 0));
  EXPECT_GE(layers.size(), 5u);
}

ppo::Options remembering(const EnvSpec& spec) {
  auto settings = small();
  settings.network = options_of(ExportedFile(spec, true), "drawn");
  settings.sequence = 4, settings.minibatch = 48, settings.epochs = 2;
  settings.lr = 1e-3, settings.adam_eps = 1e-3;
  return settings;
}

TEST(ExportedNetwork, that_remembers_learns_the_same_by_both_learners_and_of_any_threads) {
  for (const EnvSpec& spec : {privileged(), masked_heads(), pixels()}) {
    auto settings = remembering(spec);
    RandomRollouts fused(spec, 12, settings, 2), alone(spec, 12, settings, 1);
    settings.fused = false;
    RandomRollouts reference(spec, 12, settings);
    const auto before = reference.weights();
    const Batch& batch = fused.collect(0);
    EXPECT_GT(batch.extra[ppo::memory_column].abs().sum().item<double>(), 1);
    reference.learn(relived(reference, batch));
    fused.learn(batch), alone.update(0);
    EXPECT_TRUE(close(fused.weights(), reference.weights(), 0.02 * settings.lr));
    EXPECT_TRUE(at::equal(fused.weights(), alone.weights()));
    EXPECT_FALSE(close(reference.weights(), before, settings.lr));
  }
}

TEST(ExportedNetwork, that_remembers_is_valued_with_what_led_there_wherever_a_sequence_begins) {
  const auto settings = remembering(vectors());
  constexpr int64_t kRows = 6;
  RandomRollouts run(vectors(), kRows, settings);
  const Batch& batch = run.collect(1);
  ASSERT_GT(batch.is_first.sum().item<int64_t>(), 0) << "episodes begin within sequences";
  auto& policy = run.ppo.policy();
  at::NoGradGuard no_grad;
  // all steps in one go, from the beginning
  Recall recall{batch.extra[ppo::memory_column][0].clone(), batch.is_first};
  const auto out = policy.forward(policy.network(), {batch.obs[0].flatten(0, 1)}, {}, &recall);
  const int64_t T = batch.reward.size(0);
  EXPECT_TRUE(close(out.value.narrow(0, 0, T * kRows),
                    batch.extra[ppo::value_column].narrow(0, 0, T).flatten(), 1e-5));
  EXPECT_TRUE(close(policy.last_value(batch, 2, 3), out.value.narrow(0, T * kRows + 2, 3), 1e-5));
}

TEST(ExportedNetwork, that_remembers_and_does_not_fit_its_settings_or_itself_says_so) {
  const auto error = [](const ExportedFile& file, int64_t memory) {
    auto options = options_of(file);
    options.memory = memory;
    return error_of([&] { make_network(options, {.spec = vectors()}, Initializer(1)); });
  };
  const ExportedFile file(vectors(), true);
  EXPECT_EQ(error(file, 24), "");
  EXPECT_TRUE(
      contains(error(file, 8), "remembers 24 numbers a row, ppo.network.memory is 8; give"));
  EXPECT_TRUE(contains(error(file, 0), "give ppo.network.memory=24"));
  EXPECT_TRUE(contains(error(ExportedFile(vectors()), 8), "remembers nothing from step to step"));
  EXPECT_TRUE(contains(error(file.with("\"memory\": \"%pi.0_units\", ", ""), 24),
                       "a memory is both taken and given"));
  EXPECT_TRUE(
      contains(error(file.with("\"memory\": \"%pi.0_units\"", "\"memory\": \"%pi.2_units\""), 24),
               "what it remembers must be [1, 24] for as many rows, got [1, 16]"));
  // secrets that are remembered reach the policy
  const auto peeks = ExportedFile(privileged(), true)
                         .with("\"memory\": \"%pi.0_units\"", "\"memory\": \"%v.0_units\"");
  EXPECT_TRUE(contains(error_of([&] { network_of(peeks, privileged()); }),
                       "or what it remembers, sees what is for the value alone"));
}

TEST(ExportedNetwork, has_replicas_that_never_read_its_file) {
  claim_threads();
  const auto options = options_of(ExportedFile(vectors()));
  const auto network = make_network(options, {.spec = vectors()}, Initializer(1));
  remove_path(test_folder() + "/one.safetensors");
  const auto replica =
      make_network(options, {.spec = vectors(), .original = network.get()}, Initializer::none());
  const FlatParams params(*network);
  params.bind(*network, *replica, at::zeros_like(params.data()));
  const auto seen = at::randn({3, 5});
  EXPECT_TRUE(close(replica->forward({seen}, {}).logits, network->forward({seen}, {}).logits, 0));
}

TEST(ExportedNetwork, tells_two_apart_that_differ_in_an_operation_alone) {
  const auto hash = [](ExportedFile file, double weight) {
    file.tensors.at("v.2.bias").fill_(weight);
    NetworkOptions options{.kind = &find_network("exported")};
    OptionTable table;
    options.describe(table);
    table.set("exported.file", file.written(test_folder() + "/told.safetensors"));
    return options.kind->computes(options);
  };
  const ExportedFile file(vectors());
  EXPECT_EQ(hash(file, 1), hash(file, 2));
  EXPECT_NE(hash(file.with("aten::tanh", "aten::sin"), 1), hash(file, 1));
}

TEST(ExportedNetwork, may_hold_functions_of_tensors_alone) {
  const auto why = [](const std::string& operation, const std::string& arguments = "") {
    return error_with(R"("op": "aten::tanh", "args": ["%pi.0_sums"])",
                      "\"op\": \"" + operation + "\", \"args\": [\"%pi.0_sums\"" + arguments + "]");
  };
  EXPECT_EQ(why("aten::sin"), "");
  EXPECT_TRUE(contains(why("aten::tanh_"), "it writes what it is given"));
  EXPECT_TRUE(contains(why("aten::dropout", ", 0.5, true"), "it draws random numbers"));
  EXPECT_TRUE(contains(why("aten::nonzero"), "depends on numbers"));
  EXPECT_TRUE(contains(why("aten::item"), "the host would wait"));
  EXPECT_TRUE(contains(why("aten::empty_like"), "memory as it was"));
  EXPECT_TRUE(contains(why("aten::from_file"), "it takes no tensors"));
  EXPECT_TRUE(contains(why("aten::_print"), "none that a network may have"));
  EXPECT_TRUE(contains(why("prim::Print"), "has no operation prim::Print"));
  EXPECT_TRUE(
      contains(why("aten::tahn"), "has no operation aten::tahn; it was written by torch here"));
  EXPECT_TRUE(contains(why("aten::tanh", ", 3"), "takes no such arguments"));
  EXPECT_TRUE(contains(why("aten::softmax.int", ", 0.5"), "0.5 is no int"));
  EXPECT_TRUE(contains(why("aten::reshape", ", [\"%pi.0.bias\"]"), "is no network"));
  EXPECT_TRUE(contains(why("aten::batch_norm", ", null, null, null, null, true, 0.1, 1e-5, false"),
                       "it learns by itself"));
}

TEST(ExportedNetwork, that_is_wrong_is_one_error_that_says_where) {
  EXPECT_TRUE(
      contains(error_with("\"%vector\"", "\"%vectro\""), "there is no '%vectro' before it"));
  EXPECT_TRUE(contains(error_with("\"format\": 1", "\"format\": 2"), "it is of format 2"));
  EXPECT_TRUE(
      contains(error_with("{\"format\"", "{\"format"), "is no network that can be trained"));
  EXPECT_TRUE(contains(error_with("\"inputs\"", "\"outputs\""), "inputs"));
  EXPECT_TRUE(contains(error_with("\"shape\": [5]", "\"shape\": [6]"),
                       "it takes rows of vector [6], this environment shows [5]"));
  EXPECT_TRUE(contains(error_with("\"pi.0_units\"", "\"pi.0_sums\""), "is there twice"));
  EXPECT_TRUE(
      contains(error_with("\"%pi.0_units\", \"%pi.2.weight\"", "\"%vector\", \"%pi.2.weight\""),
               "its operation 'pi.2_sums' does not run: mat1 and mat2"));
  EXPECT_TRUE(
      contains(error_with("\"input\": \"%v.0_units\"", "\"input\": \"%pi.2_units\""),
               "what its last value layer takes must be [1, 24] for as many rows, got [1, 16]"));
  EXPECT_TRUE(contains(error_with("\"pi.0.weight\", \"pi.0.bias\"", "\"pi.0.bias\", \"pi.0.bias\""),
                       "'pi.0.bias' is learned twice"));
  EXPECT_TRUE(contains(error_with(", \"v.2.bias\"]", "]"), "'v.2.bias' must be learned"));
  EXPECT_TRUE(contains(error_with(R"("weight": "pi.4.weight", "bias": "pi.4.bias")",
                                  R"("weight": "pi.2.weight", "bias": "pi.2.bias")"),
                       "'pi.2.weight' is a last layer's or log_std, and something else besides"));
  const std::string other = error_of([] { network_of(ExportedFile(masked_heads()), vectors()); });
  EXPECT_TRUE(
      contains(other, "its policy gives 7 numbers a row, this environment's actions want 3"));
  EXPECT_TRUE(contains(error_of([] { network_of(ExportedFile(pixels()), vectors()); }),
                       "this environment shows none"));
  const auto peeks =
      ExportedFile(privileged()).with("\"%pi.2_units\", \"weight\"", "\"%v.0_units\", \"weight\"");
  EXPECT_TRUE(contains(error_of([&] { network_of(peeks, privileged()); }),
                       "sees what is for the value alone"));
}

TEST(ExportedNetwork, may_neither_draw_nor_write_where_a_schema_does_not_tell) {
  const auto why = [](const std::string& operation, const std::string& arguments) {
    return error_with(R"("op": "aten::tanh", "args": ["%pi.0_sums"])",
                      "\"op\": \"" + operation + "\", \"args\": [" + arguments + "]");
  };
  EXPECT_TRUE(contains(why("aten::sym_constrain_range_for_size", "3"), "it gives nothing"));
  EXPECT_TRUE(contains(why("aten::instance_norm",
                           "\"%pi.0_sums\", null, null, \"%pi.0.bias\", \"%pi.0.bias\", true, 0.1, "
                           "1e-5, false"),
                       "it writes its statistics"));
  EXPECT_TRUE(contains(
      why("aten::batch_norm_update_stats", "\"%pi.0_sums\", \"%pi.0.bias\", \"%pi.0.bias\", 0.1"),
      "it writes what it is given"));
  EXPECT_TRUE(contains(why("aten::scaled_dot_product_attention",
                           "\"%pi.0_sums\", \"%pi.0_sums\", \"%pi.0_sums\", null, 0.5"),
                       "it drops at random, by its dropout_p"));
  EXPECT_TRUE(
      contains(why("aten::batch_norm",
                   "\"%pi.0_sums\", null, null, null, null, \"%pi.0.bias\", 0.1, 1e-5, false"),
               "training is to be a constant"));
  const std::string cell =
      "\"%pi.0_sums\", \"%pi.0_sums\", [\"%pi.0.weight\", \"%pi.0.weight\"], false, 1, ";
  EXPECT_TRUE(contains(why("aten::gru.input", cell + "0.5, true, false, false"),
                       "it drops at random, by its dropout"));
  // it says only that there will be gradients; these weights are of no such layer
  EXPECT_TRUE(contains(why("aten::gru.input", cell + "0.0, true, false, false"), "does not run"));
}

TEST(ExportedNetwork, with_odd_names_sizes_or_numbers_is_one_error) {
  const auto renamed = [](const std::string& name) {
    ExportedFile file(vectors());
    file.tensors[name] = at::zeros({2});
    return error_of([&] { network_of(file, vectors()); });
  };
  EXPECT_EQ(renamed("spare.tensor"), "");
  for (const char* name : {"a..b", ".a", "a.", "."})
    EXPECT_TRUE(contains(renamed(name), "is no name of a module's tensor")) << name;

  // one that is learned and has no numbers, with weights drawn and given
  for (const char* weights : {"given", "drawn"}) {
    ExportedFile empty(vectors());
    empty.tensors.at("pi.0.weight") = at::zeros({0, 5});
    EXPECT_TRUE(contains(error_of([&] { network_of(empty, vectors(), weights); }),
                         "'pi.0.weight' is learned and has no numbers"));
  }

  const std::string tanh = R"("op": "aten::tanh", "args": ["%pi.0_sums"], "row": 24)";
  for (const char* operation : {"add", "mul"}) {
    const std::string node =
        std::string(R"({"name": "rows", "op": "size", "args": ["%vector", 0]}, )") +
        R"({"name": "much", "op": ")" + operation +
        R"(", "args": [9223372036854775807, "%rows"]}, )" + R"({"name": "n", "op": ")" + operation +
        R"(", "args": ["%much", "%much"]}, {"name": "pi.0_sums")";
    const auto file =
        ExportedFile(vectors())
            .with("{\"name\": \"pi.0_sums\"", node)
            .with(tanh, R"("op": "aten::reshape", "args": ["%pi.0_sums", ["%n", 24]], "row": 24)");
    EXPECT_TRUE(
        contains(error_of([&] { network_of(file, vectors()); }), "a size does not fit 64 bits"))
        << operation;
  }
  EXPECT_TRUE(
      contains(error_with("\"row\": 24", "\"row\": -5"), "its numbers a row must be in 0.."));
  EXPECT_TRUE(
      contains(error_with("\"row\": 24", "\"row\": 1e300"), "its numbers a row must be in 0.."));
  EXPECT_TRUE(contains(
      error_with("[\"%pi.0_sums\"]", std::string(100'000, '[') + std::string(100'000, ']')),
      "lists and objects within each other"));
  EXPECT_TRUE(contains(error_with("\"%pi.0_sums\"]", "[[1, 2]]]"), "a list is no Tensor"));
}

// whatever bytes change, it is a network or one error that names the file
TEST(ExportedNetwork, of_a_spoilt_file_is_made_or_refused) {
  claim_threads();
  const ExportedFile file(privileged(), /*remembers=*/true);
  const std::string path = test_folder() + "/one.safetensors";
  const auto options = options_of(file);
  const std::string whole = read_file(path, 1 << 20);
  const size_t text = whole.find(R"({\"format)");
  ASSERT_NE(text, whole.npos);
  std::mt19937 random(7);
  const auto any = [&](size_t below) {
    return std::uniform_int_distribution<size_t>(0, below - 1)(random);
  };
  // what stands for something in the text, in place of what stands there
  const std::vector<std::string> words{"null",
                                       "-1",
                                       "0",
                                       "9223372036854775807",
                                       "1e400",
                                       "[]",
                                       "{}",
                                       "[[1]]",
                                       "true",
                                       R"(\"%vector\")",
                                       R"(\"%memory\")",
                                       R"(\"%pi.2.weight\")",
                                       R"({\"dtype\": \"int64\"})",
                                       R"(\"item\")",
                                       R"(\"floordiv\")",
                                       R"(\"aten::chunk\")",
                                       R"(\"aten::as_strided\")",
                                       R"(\"aten::unbind.int\")"};
  int made = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string spoilt = whole;
    const size_t header = whole.find("}}\"", text) + 2;
    for (size_t change = 0, changes = 1 + any(2); change < changes; ++change) {
      const size_t place = text + any(header - text);
      switch (any(5)) {
        case 0:
          spoilt[place] = char(any(256));
          break;
        case 1:
          spoilt.replace(place, 1, std::string(1, "0123456789\"[]{},:%"[any(18)]));
          break;
        case 2: {
          // one word of the text in place of another
          const size_t begin = spoilt.find_first_of(" [", place);
          const size_t end = spoilt.find_first_of(",]}", begin + 1);
          if (begin < end && end < header)
            spoilt.replace(begin + 1, end - begin - 1, words[any(words.size())]);
          break;
        }
        case 3:
          spoilt.erase(place, 1 + any(40));
          break;
        default:
          spoilt.insert(place, spoilt.substr(text + any(header - text), 1 + any(60)));
      }
    }
    // the header's length again, so that what is in it is read
    const int64_t more = int64_t(spoilt.size()) - int64_t(whole.size());
    uint64_t length = 0;
    std::memcpy(&length, whole.data(), sizeof length);
    if (any(20) > 0) length += uint64_t(more);
    std::memcpy(spoilt.data(), &length, sizeof length);
    std::ofstream(path, std::ios::binary) << spoilt;
    try {
      make_network(options, {.spec = privileged()}, Initializer(1));
      ++made;
    } catch (const Error& e) {
      ++refused;
      EXPECT_TRUE(contains(e.what(), path)) << i << ": " << e.what();
      EXPECT_LT(std::string(e.what()).size(), 1000u) << i;
    }
  }
  EXPECT_GT(made, 10);
  EXPECT_GT(refused, 1000);
}

TEST(ExportedNetwork, of_a_file_that_is_cut_or_none_says_so) {
  NetworkOptions options{.kind = &find_network("exported")};
  const auto error = [&] {
    return error_of([&] { make_network(options, {.spec = vectors()}, Initializer(1)); });
  };
  EXPECT_TRUE(contains(error(), "needs network.exported.file"));
  OptionTable table;
  options.describe(table);
  const std::string path = ExportedFile(vectors()).written(test_folder() + "/cut.safetensors");
  table.set("exported.file", path);
  EXPECT_EQ(error(), "");
  const std::string whole = read_file(path, 1 << 20);
  write_atomic(path, whole.substr(0, whole.size() - 40));
  EXPECT_TRUE(contains(error(), "[" + path + "]"));
  remove_path(path);
  EXPECT_TRUE(contains(error(), "[" + path + "]"));
}

}  // namespace
}  // namespace maglev
