#include "engine/nn/panel_sequences.h"

#include <string>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/nn/flat_params.h"
#include "engine/nn/network.h"
#include "tests/close.h"

namespace maglev {
namespace {

// a network that remembers, and rows [T * R] it has seen
struct Remembering {
  EnvSpec spec;
  std::shared_ptr<ActorCritic> network;
  std::unique_ptr<FlatParams> flat;
  std::unique_ptr<PanelNetwork> panels;
  std::vector<at::Tensor> obs;
};

constexpr int64_t kSeen = 400, kCategories = 3;

Remembering remembering_network(const NetworkOptions& options, bool privileged) {
  Remembering made;
  made.spec.observations = {{.name = "vector", .shape = {5}}};
  if (privileged)
    made.spec.observations.push_back({.name = "truth", .shape = {3}, .audience = Audience::critic});
  made.spec.action.heads = {kCategories};
  made.network = make_network(options, {.spec = made.spec}, Initializer(7));
  made.flat = std::make_unique<FlatParams>(*made.network);
  auto gen = at::make_generator<at::CPUGeneratorImpl>(5);
  // biases too, and more than the policy's small last layer
  made.flat->data().add_(at::randn({made.flat->size()}, gen) * 0.1);
  for (const ObsColumn& column : made.spec.observations)
    made.obs.push_back(at::randn({kSeen, column.shape[0]}, gen));
  made.network->absorb(made.obs, /*is_first=*/{}, kSeen, /*group=*/nullptr);
  made.panels = std::make_unique<PanelNetwork>(*made.network, made.spec, made.flat->data());
  ThreadPool pool(1);
  made.panels->round_weights(pool);
  return made;
}

ObsRows columns_of(const Remembering& of) {
  ObsRows rows;
  for (size_t i = 0; i < of.obs.size(); ++i)
    rows.column[i] = static_cast<const std::byte*>(of.obs[i].data_ptr());
  return rows;
}

// L steps of B sequences, and what they begin with
struct Steps {
  int64_t L, B;
  at::Tensor index, is_first, state;  ///< [L * B], [L, B], [B, memory]
};

Steps steps_of(const Remembering& of, int64_t L, int64_t B) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(L * 100 + B));
  return {L, B, at::randint(kSeen, {L * B}, gen, at::kLong),
          (at::rand({L, B}, gen) < 0.2).to(at::kByte),
          at::randn({B, of.network->memory_size()}, gen)};
}

void go_forward(const Remembering& of, const Steps& steps, PanelSequences& through) {
  through.load(columns_of(of), steps.index.const_data_ptr<int64_t>(), 0, steps.L, steps.B);
  for (int64_t r = 0; r < steps.L * steps.B; ++r)
    through.keep()[r] = steps.is_first.flatten()[r].item<bool>() ? 0.f : 1.f;
  int64_t begin = 0;
  for (size_t c = 0; c < of.panels->cells().size(); ++c) {
    const int64_t H = of.panels->cells()[c].units;
    at::from_blob(through.state(c), {steps.B, H}).copy_(steps.state.narrow(1, begin, H));
    begin += H;
    through.forward_cell(c);
  }
}

at::Tensor read_columns(const PanelNetwork::Panel& panel, float* columns, int64_t features) {
  return at::from_blob(columns, {features, panel.stride()}).narrow(1, 0, panel.rows()).t().clone();
}

at::Tensor logits_of(PanelSequences& through) {
  std::vector<at::Tensor> rows;
  for (int64_t p = 0; p < through.panels(); ++p) {
    through.forward(p, /*policy=*/true, /*value=*/false);
    rows.push_back(read_columns(through.panel(p), through.panel(p).logits(), kCategories));
  }
  return at::cat(rows);
}

void expect_what_the_module_gives(const Remembering& of, const Steps& steps) {
  PanelSequences through(*of.panels, steps.L * steps.B);
  go_forward(of, steps, through);
  std::vector<at::Tensor> chosen;
  for (const auto& o : of.obs) chosen.push_back(o.index_select(0, steps.index));
  Recall recall{steps.state, steps.is_first};
  const auto out = of.network->forward_through(chosen, {}, recall);
  std::vector<at::Tensor> value, memory;
  for (int64_t p = 0; p < through.panels(); ++p) {
    through.forward(p, /*policy=*/false, /*value=*/true);
    value.push_back(read_columns(through.panel(p), through.panel(p).value(), 1));
  }
  for (size_t c = 0; c < of.panels->cells().size(); ++c)
    memory.push_back(at::from_blob(const_cast<float*>(through.behind(c, steps.L - 1)),
                                   {steps.B, of.panels->cells()[c].units})
                         .clone());
  EXPECT_TRUE(close(logits_of(through), out.logits.detach(), 1e-5));
  EXPECT_TRUE(close(at::cat(value).squeeze(1), out.value.detach(), 1e-5));
  EXPECT_TRUE(close(at::cat(memory, 1), recall.state.detach(), 1e-5));

  // gradients, which are added to what is there
  for (const auto& p : of.network->parameters()) p.mutable_grad() = at::Tensor();
  const auto d_logits = at::randn_like(out.logits), d_value = at::randn_like(out.value);
  ((out.logits * d_logits).sum() + (out.value * d_value).sum()).backward();
  auto grad = at::ones({of.flat->size()});
  const auto into = of.panels->gradients(grad.data_ptr<float>());
  for (int64_t p = 0; p < through.panels(); ++p) {
    PanelNetwork::Panel& panel = through.panel(p);
    through.forward(p, /*policy=*/true, /*value=*/true);
    const auto fill = [&](float* columns, const at::Tensor& rows) {
      auto to = at::from_blob(columns, {rows.size(1), panel.stride()});
      to.zero_().narrow(1, 0, panel.rows()).copy_(rows.narrow(0, p * kPanelRows, panel.rows()).t());
    };
    fill(panel.d_logits(), d_logits), fill(panel.d_value(), d_value.unsqueeze(1));
    through.backward(p, into);
  }
  for (size_t c = 0; c < of.panels->cells().size(); ++c) through.backward_cell(c, into);
  int64_t offset = 0;
  for (const auto& p : of.network->named_parameters()) {
    const int64_t count = p.value().numel();
    EXPECT_TRUE(close(grad.narrow(0, offset, count) - 1, p.value().grad().reshape(-1), 2e-4))
        << p.key();
    offset += count;
  }
}

TEST(PanelSequences, give_what_the_module_gives_and_its_gradients) {
  for (const HiddenActivation activation : {HiddenActivation::tanh, HiddenActivation::silu})
    for (const bool shared : {false, true})
      for (const bool privileged : {false, true}) {
        SCOPED_TRACE(std::string(name_of(activation)) + (shared ? " shared" : "") +
                     (privileged ? " privileged" : ""));
        NetworkOptions options;
        options.hidden = {24, 17}, options.memory = 9;
        options.activation = activation, options.shared = shared;
        options.critic_hidden = privileged ? std::vector<int64_t>{7} : std::vector<int64_t>{};
        options.normalize_obs = privileged;
        const Remembering of = remembering_network(options, privileged);
        ASSERT_EQ(of.panels->cells().size(), shared ? 1u : 2u);
        // a step, a panel that is not full, sequences over several panels
        for (const auto& [L, B] : {std::pair<int64_t, int64_t>{1, 5}, {8, 3}, {30, 5}, {128, 1}})
          expect_what_the_module_gives(of, steps_of(of, L, B));
      }
}

TEST(PanelSequences, a_cell_on_what_is_seen_alone_and_of_whole_vectors) {
  NetworkOptions options;
  options.hidden = {}, options.memory = 32;
  const Remembering of = remembering_network(options, false);
  expect_what_the_module_gives(of, steps_of(of, 16, 4));
}

// what a policy said of a step when it acted is what it says of it when it learns, to the bit
TEST(PanelSequences, a_step_gives_the_same_bits_alone_and_among_others) {
  for (const int64_t units : {9, 32}) {
    NetworkOptions options;
    options.memory = units;
    const Remembering of = remembering_network(options, false);
    const Steps all = steps_of(of, 6, 13);
    PanelSequences together(*of.panels, 6 * 13), alone(*of.panels, 3);
    go_forward(of, all, together);
    const auto logits = logits_of(together);
    // three of them from their third step on, one step at a time
    Steps one{1, 3, {}, {}, at::empty({3, 2 * units})};
    for (int64_t c = 0; c < 2; ++c)
      one.state.narrow(1, c * units, units)
          .copy_(at::from_blob(const_cast<float*>(together.behind(size_t(c), 1)), {13, units})
                     .narrow(0, 4, 3));
    for (int64_t l = 2; l < 6; ++l) {
      one.index = all.index.view({6, 13})[l].narrow(0, 4, 3).contiguous();
      one.is_first = all.is_first[l].narrow(0, 4, 3).unsqueeze(0);
      go_forward(of, one, alone);
      EXPECT_TRUE(at::equal(logits_of(alone), logits.narrow(0, l * 13 + 4, 3))) << l;
      for (int64_t c = 0; c < 2; ++c)
        one.state.narrow(1, c * units, units)
            .copy_(at::from_blob(const_cast<float*>(alone.behind(size_t(c), 0)), {3, units}));
    }
  }
}

}  // namespace
}  // namespace maglev
