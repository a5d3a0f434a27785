#include "base/config/options.h"

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "tests/errors.h"

namespace maglev {
namespace {

struct Demo {
  double lr = 3e-4;
  int64_t steps = 1000;
  int32_t mode = 1;
  bool fast = false;
  std::string network = "mlp";
  std::vector<int64_t> hidden{64, 64};
  void bind(OptionTable& t) {
    t.add("seed", steps, "seed", {.min = 0});
    t.section("ppo", [&](OptionTable& s) {
      s.add("lr", lr, "learning rate", {.min = 0, .max = 1});
      s.add("mode", mode, "mode", {.choices = {"a", "b"}});
      s.add("fast", fast, "fast");
      s.add("network", network, "network", {.choices = {"mlp", "cnn"}});
      s.add("hidden", hidden, "layers", {.min = 1, .max = 4096});
    });
  }
};

TEST(Options, saved_yaml_restores_every_value) {
  Demo a, b;
  OptionTable ta, tb;
  a.bind(ta);
  b.bind(tb);
  ta.override_with("ppo.lr=0.1234567890123");
  ta.override_with("ppo.hidden=[7, 9]");
  ta.override_with("seed=1e6");
  ta.override_with("ppo.mode=a");
  tb.load_text(ta.yaml(), "saved");
  EXPECT_EQ(ta.yaml(), tb.yaml());
  EXPECT_EQ(b.steps, 1000000);
  EXPECT_EQ(b.lr, 0.1234567890123);
  EXPECT_EQ(b.hidden, (std::vector<int64_t>{7, 9}));
}

TEST(Options, json_and_dotted_keys_are_the_same_settings) {
  Demo a;
  OptionTable t;
  a.bind(t);
  t.load_text(R"({"ppo": {"lr": 0.5}, "ppo.fast": true})", "x.json");
  EXPECT_EQ(a.lr, 0.5);
  EXPECT_TRUE(a.fast);
}

TEST(Options, unknown_names_are_answered_with_near_ones) {
  Demo a;
  OptionTable t;
  a.bind(t);
  auto text = error_of([&] { t.override_with("ppo.lrr=0.1"); });
  EXPECT_NE(text.find("unknown setting 'ppo.lrr'"), std::string::npos) << text;
  EXPECT_NE(text.find("ppo.lr"), std::string::npos) << text;
  EXPECT_NE(
      error_of([&] { t.load_text("a: 1\nppo:\n  netwrok: mlp\n", "f.yaml"); }).find("f.yaml:1"),
      std::string::npos);
}

TEST(Options, values_out_of_range_or_of_another_type_are_refused) {
  Demo a;
  OptionTable t;
  a.bind(t);
  EXPECT_NE(error_of([&] { t.override_with("ppo.lr=2"); }).find("[0, 1]"), std::string::npos);
  EXPECT_NE(error_of([&] { t.override_with("ppo.lr=nan"); }), "");
  EXPECT_NE(error_of([&] { t.override_with("seed=1.5"); }), "");
  EXPECT_NE(error_of([&] { t.override_with("ppo.fast=maybe"); }), "");
  EXPECT_NE(error_of([&] { t.override_with("ppo.network=mpl"); }).find("mlp"), std::string::npos);
  EXPECT_NE(error_of([&] { t.override_with("ppo.hidden=[0]"); }), "");
  EXPECT_EQ(a.lr, 3e-4);
}

}  // namespace
}  // namespace maglev
