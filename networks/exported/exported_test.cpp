// Files of networks that were written in Python: what they may hold, what is made of them, and that
// whatever is wrong with one is one error that names it.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "engine/host/machine.h"
#include "engine/nn/network.h"
#include "tests/close.h"
#include "tests/errors.h"
#include "tests/exported_file.h"
#include "tests/folder.h"
#include "tests/random_rollouts.h"

namespace maglev {
namespace {

std::shared_ptr<ActorCritic> network_of(const ExportedFile& file, const EnvSpec& spec,
                                        const std::string& weights = "given") {
  claim_threads();
  NetworkOptions options{.kind = &find_network("exported")};
  OptionTable table;
  options.describe(table);
  table.set("exported.file", file.written(test_folder() + "/one.safetensors"));
  table.set("exported.weights", weights);
  return make_network(options, {.spec = spec}, Initializer(1));
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
                       "its policy sees what is for the value alone"));
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
