#include "base/config/options.h"

#include <cstring>
#include <type_traits>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "tests/errors.h"

namespace maglev {
namespace {

enum class Network { mlp, cnn };
constexpr auto names_of(Network) { return std::array{"mlp", "cnn"}; }

struct Demo {
  double lr = 3e-4;
  int64_t steps = 1000;
  bool fast = false;
  Network network = Network::cnn;
  std::optional<Network> second;
  OnOff graph;
  std::vector<int64_t> hidden{64, 64};
  void bind(OptionTable& t) {
    t.add("seed", steps, "seed", {.min = 0});
    t.section("ppo", [&](OptionTable& s) {
      s.add("lr", lr, "learning rate", {.min = 0, .max = 1});
      s.add("fast", fast, "fast");
      s.add("network", network, "network");
      s.add("second", second, "another network");
      s.add("graph", graph, "graph");
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
  ta.override_with("ppo.network=mlp");
  ta.override_with("ppo.second=cnn");
  ta.override_with("ppo.graph=off");
  tb.load_text(ta.yaml(), "saved");
  EXPECT_EQ(ta.yaml(), tb.yaml());
  EXPECT_EQ(b.steps, 1000000);
  EXPECT_EQ(b.lr, 0.1234567890123);
  EXPECT_EQ(b.network, Network::mlp);
  EXPECT_EQ(b.second, Network::cnn);
  EXPECT_EQ(b.graph, false);
  EXPECT_EQ(b.hidden, (std::vector<int64_t>{7, 9}));
}

TEST(Options, a_switch_that_may_be_auto_is_given_by_a_bool_and_by_nothing_else) {
  static_assert(std::is_assignable_v<OnOff&, bool>);
  static_assert(!std::is_assignable_v<OnOff&, const char*>);
  static_assert(!std::is_assignable_v<OnOff&, int>);
  Demo demo;
  OptionTable table;
  demo.bind(table);
  for (bool automatic : {false, true}) EXPECT_EQ(demo.graph.value_or(automatic), automatic);
  table.override_with("ppo.graph=false");
  EXPECT_FALSE(demo.graph.value_or(true));
  table.override_with("ppo.graph=auto");
  EXPECT_EQ(demo.graph, OnOff());
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
  text = error_of([&] { t.load_text("ppo: 3\n", "f.yaml"); });
  EXPECT_NE(text.find("'ppo' is a section; give its settings, e.g. ppo."), std::string::npos)
      << text;
}

TEST(Options, a_file_is_refused_once_for_all_its_unknown_names) {
  Demo a;
  OptionTable t;
  a.bind(t);
  EXPECT_EQ(error_of([&] {
              t.load_text("learning_rate: 1\nppo:\n  fast: true\n  lrr: 2\nppo.graf: on\n",
                          "f.yaml");
            }),
            "[f.yaml] gives 3 names that are no settings:\n"
            "  [f.yaml:1] learning_rate is ppo.lr here\n"
            "  [f.yaml:4] unknown setting 'ppo.lrr'; did you mean ppo.lr?\n"
            "  [f.yaml:5] unknown setting 'ppo.graf'; did you mean ppo.graph?");
}

TEST(Options, a_command_line_is_refused_once_for_all_its_unknown_names) {
  Demo a;
  OptionTable t;
  a.bind(t);
  const std::vector<std::string> words{"ppo.fast=true", "learning_rate=1", "ppo.lrr=2"};
  EXPECT_EQ(error_of([&] { t.override_with(words); }),
            "[command line] gives 2 names that are no settings:\n"
            "  learning_rate is ppo.lr here\n"
            "  unknown setting 'ppo.lrr'; did you mean ppo.lr?");
  EXPECT_FALSE(a.fast);
  EXPECT_EQ(error_of([&] {
              t.override_with(std::vector{words[0], words[2]});
            }),
            "[command line] unknown setting 'ppo.lrr'; did you mean ppo.lr?");
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

TEST(Options, a_choice_that_nobody_made_is_auto_and_says_what_it_may_be) {
  Demo a;
  OptionTable t;
  a.bind(t);
  EXPECT_EQ(t.find("ppo.second")->text(), "auto");
  EXPECT_TRUE(contains(t.help(), "another network (default auto; auto | mlp | cnn)")) << t.help();
  t.override_with("ppo.second=mlp");
  t.load_text("ppo: {second: auto, graph: true}", "f.yaml");
  EXPECT_EQ(a.second, std::nullopt);
  EXPECT_EQ(a.graph, true);
  EXPECT_TRUE(contains(error_of([&] { t.set("ppo.second", "MLP"); }), "did you mean mlp?"));
}

TEST(Options, booleans_are_taken_as_python_and_yaml_write_them) {
  Demo a;
  OptionTable t;
  a.bind(t);
  for (const char* yes : {"True", "TRUE", "yes", "On", "1"}) {
    a.fast = false;
    t.set("ppo.fast", yes);
    EXPECT_TRUE(a.fast) << yes;
  }
  t.set("ppo.fast", "False");
  EXPECT_FALSE(a.fast);
}

TEST(Options, help_shows_the_value_in_force_and_the_bare_one) {
  Demo a;
  OptionTable t;
  a.bind(t);
  t.load_text("ppo: {lr: 0.5}", "proven.yaml", Origin::proven);
  EXPECT_TRUE(contains(t.help(), "learning rate (default 0.5, bare 3e-04; [0, 1])")) << t.help();
  EXPECT_EQ(t.find("ppo.lr")->origin, Origin::proven);
  EXPECT_EQ(t.find("seed")->origin, Origin::built_in);
  // what a person gave is no default
  t.override_with("ppo.lr=0.25");
  EXPECT_TRUE(contains(t.help(), "learning rate (given 0.25, built in 3e-04; [0, 1])")) << t.help();
}

TEST(Options, help_shows_what_is_free_to_tune) {
  int64_t threads = 0, seed = 0;
  OptionTable t;
  t.add("threads", threads, "threads", {.min = 0, .free = true});
  t.add("seed", seed, "seed", {.min = 0});
  EXPECT_TRUE(contains(t.help(), "threads (default 0; >= 0; free)")) << t.help();
  EXPECT_TRUE(contains(t.help(), "seed (default 0; >= 0)")) << t.help();
}

TEST(Options, a_sequence_in_a_file_is_a_list_of_names_too) {
  std::string names;
  OptionTable t;
  t.add("names", names, "names");
  for (const char* yaml : {"names: [weak, strong]", "names:\n- weak\n- strong\n",
                           "{\"names\": [\"weak\", \"strong\"]}", "names: weak,strong"}) {
    names = "";
    t.load_text(yaml, "mine.yaml");
    EXPECT_EQ(names, "weak,strong") << yaml;
  }
  t.load_text("names: [\"my runs/a\", b]", "mine.yaml");
  EXPECT_EQ(names, "my runs/a,b");
  Text<16> bytes;
  t.add("bytes", bytes, "bytes");
  t.load_text("bytes: [1-3, 5]", "mine.yaml");
  EXPECT_EQ(bytes.view(), "1-3,5");
}

TEST(Options, what_stands_for_others_takes_their_place_where_it_is_given_later) {
  int64_t size = 1, width = 0, depth = 0;
  OptionTable t;
  t.section("model", [&](OptionTable& s) {
    s.add("size", size, "size");
    s.add("width", width, "width");
    s.add("depth", depth, "depth");
    s.stands_for("size", {"width", "depth"});
  });
  t.load_text("model: {size: 2, width: 64, depth: 3}", "proven.yaml", Origin::proven);
  EXPECT_EQ(width, 64) << "of one origin, in whatever order";
  t.load_text("model: {depth: 5}", "mine.yaml", Origin::file);
  t.override_with("model.size=4");
  EXPECT_EQ(width, 0);
  EXPECT_EQ(depth, 0);
  EXPECT_EQ(t.find("model.width")->origin, Origin::built_in);
  // what is given beside it stays, before it and behind
  for (const auto& order :
       {std::array{"model.width=7", "model.size=5"}, std::array{"model.size=5", "model.width=7"}}) {
    for (const char* word : order) t.override_with(word);
    EXPECT_EQ(width, 7);
  }
}

TEST(Options, a_file_may_have_settings_that_are_left_out) {
  Demo a;
  OptionTable t;
  a.bind(t);
  std::vector<std::string> left_out;
  t.load_text("other: {rate: 1}\nppo: {lr: 0.5}\n", "profile.yaml", Origin::profile,
              [&](const std::string& name) {
                if (!name.starts_with("other.")) return false;
                left_out.push_back(name);
                return true;
              });
  EXPECT_EQ(left_out, std::vector<std::string>{"other.rate"});
  EXPECT_EQ(t.find("ppo.lr")->text(), "0.5");
  EXPECT_EQ(t.find("ppo.lr")->origin, Origin::profile);
}

TEST(Options, a_file_gives_each_setting_once_and_is_one_document) {
  const std::pair<const char*, const char*> files[] = {
      {"seed: 1\nseed: 2\n", "[f.yaml:2] has a second 'seed'"},
      {"ppo: {lr: 0.1}\nppo: {fast: true}\n", "[f.yaml:2] has a second 'ppo'"},
      {"ppo: {lr: 0.1}\nppo.lr: 0.2\n", "[f.yaml:2] gives ppo.lr a second time"},
      {"seed: 1\n---\nseed: 2\n", "[f.yaml] holds 2 YAML documents"}};
  for (const auto& [text, complaint] : files) {
    Demo a;
    OptionTable t;
    a.bind(t);
    const auto load = [&, yaml = text] { t.load_text(yaml, "f.yaml"); };
    EXPECT_TRUE(contains(error_of(load), complaint)) << error_of(load);
  }
}

TEST(Options, a_list_within_a_list_is_refused_with_the_setting_it_was_for) {
  Demo a;
  std::string names;
  OptionTable t;
  a.bind(t);
  t.add("names", names, "names");
  const auto complaint = [&](const char* yaml) {
    return error_of([&] { t.load_text(yaml, "f.yaml"); });
  };
  EXPECT_EQ(
      complaint("ppo:\n  hidden: [[64, 64], [32]]\n"),
      "[f.yaml:2] ppo.hidden must be a list of whole numbers such as [64, 64], got '[[64, 64], "
      "[32]]'");
  EXPECT_TRUE(contains(complaint("ppo: {lr: [{a: 1}]}"), "ppo.lr must be a number, got '[{...}]'"));
  EXPECT_TRUE(contains(complaint("names: [a, [b, c]]"), "names must be a text or a list of texts"));
  EXPECT_TRUE(contains(complaint("? [a, b]\n: 1\n"), "[f.yaml:1] a name or a plain value was"));
  std::string deep = "ppo: {hidden: ";
  for (int i = 0; i < 100; ++i) deep += "[";
  for (int i = 0; i < 100; ++i) deep += "]";
  EXPECT_TRUE(contains(complaint((deep + "}").c_str()), "nested deeper than 64"));
}

// twice as many maps at each level: 2^40 of them at the bottom
TEST(Options, aliases_of_aliases_are_refused_at_once) {
  std::string bomb = "a0: &a0 {}\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string now = "a" + std::to_string(i), before = "a" + std::to_string(i - 1);
    bomb += now + ": &" + now + " {x: *" + before + ", y: *" + before + "}\n";
  }
  Demo a;
  OptionTable t;
  a.bind(t);
  EXPECT_TRUE(contains(error_of([&] { t.load_text(bomb, "bomb.yaml"); }), "names more than 20000"));
}

TEST(Options, text_of_fixed_size_is_kept_whole_or_refused) {
  struct {
    Text<8> name = "family";
  } a, b;
  static_assert(std::is_trivially_copyable_v<decltype(a)>);
  OptionTable ta, tb;
  ta.add("name", a.name, "a name");
  tb.add("name", b.name, "a name");
  EXPECT_EQ(ta.find("name")->initial, "family");
  ta.set("name", "./a: b");
  tb.load_text(ta.yaml(), "saved");
  EXPECT_EQ(b.name.view(), "./a: b");
  EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0);
  EXPECT_TRUE(contains(error_of([&] { ta.set("name", "families"); }),
                       "name must be at most 7 bytes long, got 'families'"));
  EXPECT_EQ(a.name.view(), "./a: b");
  // what was there is gone to its last byte
  ta.set("name", "x");
  EXPECT_EQ(std::string(a.name.bytes, 8), std::string("x\0\0\0\0\0\0\0", 8));
}

TEST(Options, a_folder_is_no_settings_file) {
  Demo a;
  OptionTable t;
  a.bind(t);
  EXPECT_TRUE(contains(error_of([&] { t.load("/"); }), "[/] is a folder"));
}

}  // namespace
}  // namespace maglev
