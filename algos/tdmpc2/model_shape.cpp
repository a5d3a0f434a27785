#include "algos/tdmpc2/model_shape.h"

#include <algorithm>
#include <string>

#include "base/core/error.h"
#include "base/env/pictures.h"

namespace maglev::tdmpc2 {
namespace {

struct Widths {
  int64_t enc_dim, mlp_dim, latent, enc_layers, num_q;
};
// in the order of ModelSize
constexpr Widths kWidths[] = {{256, 384, 128, 2, 2},
                              {256, 512, 512, 2, 5},
                              {1024, 1024, 768, 3, 5},
                              {1792, 1792, 768, 4, 5},
                              {4096, 4096, 1376, 5, 8}};
static_assert(std::size(kWidths) == names_of(ModelSize{}).size());

// windows and strides of the convolutions; an image of 64 x 64 leaves 4 x 4 places
constexpr int64_t kWindows[] = {7, 5, 3, 3};
constexpr int64_t kFilters = 32, kPlaces = 16;

void take_observations(const EnvSpec& spec, ModelShape& shape) {
  // the critic's columns and the task's are no observations of the encoder
  std::vector<ObsColumn> columns = spec.observations;
  std::erase_if(columns, [&](const ObsColumn& column) {
    return column.audience == Audience::critic || (column.name == "task" && !spec.tasks.empty());
  });
  // before its size: a picture of another one beside numbers would do as little
  if (std::ranges::any_of(columns, is_picture) &&
      std::ranges::any_of(columns, [](const auto& c) { return c.dtype == DType::f32; }))
    throw Error(
        "[tdmpc2] takes an image or columns of numbers, not both; use dreamer, which does, or ppo");
  for (const auto& column : columns) {
    const bool image = is_picture(column);
    const bool square = image && column.shape[0] == kImageSide && column.shape[1] == kImageSide;
    if (square && shape.channels == 0) shape.channels = column.shape[2];
    else if (column.dtype == DType::f32) shape.obs += column.elements();
    else
      throw Error("[tdmpc2] takes columns of numbers or one image of 64 x 64, not column '" +
                  column.name + "'" +
                  (image && !square ? " of " + std::to_string(column.shape[0]) + " x " +
                                          std::to_string(column.shape[1]) +
                                          "; env.image.resize=64 where the environment has that "
                                          "setting, else use ppo"
                                    : "; use ppo"));
  }
  if (shape.channels == 0 && shape.obs == 0)
    throw Error("[tdmpc2] the environment shows nothing that the policy may see");
}

// appends layers behind `offset`
MlpPlaces place(int64_t in, const std::vector<int64_t>& hidden, int64_t out, bool last_normed,
                int64_t alignment, int64_t& offset) {
  MlpPlaces layers;
  for (size_t i = 0; i <= hidden.size(); ++i) {
    const bool last = i == hidden.size();
    layers.push_back({.in = in,
                      .out = last ? out : hidden[i],
                      .normed = !last || last_normed,
                      .begin = offset,
                      .alignment = alignment});
    in = layers.back().out, offset = layers.back().end();
  }
  return layers;
}

MlpPlaces place_convolutions(const ModelShape& shape, int64_t& offset) {
  MlpPlaces layers;
  int64_t channels = shape.channels;
  for (int64_t window : kWindows) {
    const bool last = layers.size() + 1 == std::size(kWindows);
    layers.push_back({.in = channels * window * window,
                      .out = last ? shape.latent / kPlaces : kFilters,
                      .begin = offset,
                      .kernel = window,
                      .alignment = shape.alignment});
    channels = layers.back().out;
    offset = layers.back().end();
  }
  return layers;
}

}  // namespace

std::vector<int64_t> ModelShape::head_widths() const {
  std::vector<int64_t> widths;
  for (const NetworkWidths& head : kHeads) {
    const auto& net = hidden.*head.widths;
    if (episodic || head.widths != &HiddenWidths::termination)
      widths.insert(widths.end(), net.begin(), net.end());
  }
  return widths;
}

int64_t ModelShape::widest() const { return std::max(latent, std::ranges::max(head_widths())); }

ModelShape model_shape(const Options& options, const EnvSpec& spec) {
  if (spec.action.discrete())
    throw Error(
        std::string("[tdmpc2] plans continuous actions, this environment's are categories; ") +
        (spec.action.masked ? "use ppo, or dreamer where masks of gymnasium's are advice alone "
                              "(env.masks=false)"
                            : "use ppo or dreamer"));
  const Widths& size = kWidths[size_t(options.size)];
  // widths that were given go before those of the named size
  auto given = [](int64_t option, int64_t named) { return option > 0 ? option : named; };
  const int64_t enc_layers = given(options.enc_layers, size.enc_layers);
  const std::vector<int64_t> encoder(size_t(std::max<int64_t>(enc_layers - 1, 1)),
                                     given(options.enc_dim, size.enc_dim));
  const std::vector<int64_t> head(2, given(options.mlp_dim, size.mlp_dim));
  auto hidden = [](const std::vector<int64_t>& option, const std::vector<int64_t>& named) {
    return option.empty() ? named : option;
  };
  const HiddenWidths& widths = options.hidden;
  ModelShape shape{.image_shift = options.image_shift,
                   .actions = spec.action.dims(),
                   .tasks = int64_t(spec.tasks.size()),
                   .task_dim = spec.tasks.empty() ? 0 : options.task_dim,
                   .hidden = {.encoder = hidden(widths.encoder, encoder),
                              .dynamics = hidden(widths.dynamics, head),
                              .reward = hidden(widths.reward, head),
                              .termination = hidden(widths.termination, head),
                              .q = hidden(widths.q, head),
                              .policy = hidden(widths.policy, head)},
                   .latent = given(options.latent_dim, size.latent),
                   .num_q = given(options.num_q, size.num_q),
                   .episodic = options.episodic.value_or(spec.tasks.empty())};
  take_observations(spec, shape);
  if (shape.image()) shape.hidden.encoder.clear();
  // what the model cannot be
  if (shape.episodic && shape.tasks > 0)
    throw Error("[tdmpc2] tdmpc2.episodic=on is for one task, got " + std::to_string(shape.tasks) +
                "; use auto or off");
  if (shape.latent % shape.simnorm != 0)
    throw Error("[tdmpc2] tdmpc2.latent_dim must be a multiple of " +
                std::to_string(shape.simnorm) + ", got " + std::to_string(shape.latent));
  if (shape.image() && shape.latent % kPlaces != 0)
    throw Error("[tdmpc2] tdmpc2.latent_dim must be a multiple of 16 for images, got " +
                std::to_string(shape.latent));
  if (shape.image() && shape.tasks > 0)
    throw Error("[tdmpc2] several tasks are told apart by vectors, not by images");
  if (shape.num_q < 2)
    throw Error("[tdmpc2] tdmpc2.num_q must be at least 2, got " + std::to_string(shape.num_q));
  return shape;
}

ModelLayout model_layout(const ModelShape& s) {
  ModelLayout layout;
  int64_t offset = 0;
  // what the model's optimiser moves: encoder, heads, value networks, embeddings
  if (s.image()) {
    layout.encoder = place_convolutions(s, offset);
  } else {
    layout.encoder =
        place(s.obs + s.task_dim, s.hidden.encoder, s.latent, true, s.alignment, offset);
  }
  const int64_t state = s.latent + s.task_dim, both = state + s.actions;
  const auto head = [&](int64_t in, const std::vector<int64_t>& hidden, int64_t out,
                        bool last_normed = false) {
    return place(in, hidden, out, last_normed, s.alignment, offset);
  };
  // of the last layers only that of the dynamics is normalised: it ends in SimNorm
  layout.dynamics = head(both, s.hidden.dynamics, s.latent, true);
  layout.reward = head(both, s.hidden.reward, kBins);
  if (s.episodic) layout.termination = head(state, s.hidden.termination, 1);
  for (int64_t i = 0; i < s.num_q; ++i) layout.q.push_back(head(both, s.hidden.q, kBins));
  layout.embedding = offset;
  offset = flat_begin(offset + s.tasks * s.task_dim, false, s.alignment);
  // behind the rest, so that the policy's parameters are one range for its optimiser
  layout.policy = head(state, s.hidden.policy, 2 * s.actions);
  return layout;
}

int64_t plan_iterations(const Options& options, int64_t actions) {
  return options.iterations + (actions >= 20 ? 2 : 0);
}

double discount_of(int64_t max_steps) {
  constexpr double kLeast = 0.95, kMost = 0.995;
  if (max_steps <= 0) return kMost;
  // a horizon, 1 / (1 - discount), of a fifth of the episode
  return std::clamp(1 - 5 / double(max_steps), kLeast, kMost);
}

std::vector<float> discounts(const Options& options, const EnvSpec& spec) {
  auto one = [&](int64_t max_steps) {
    // a discount that was given holds for every task
    return float(options.discount > 0 ? options.discount : discount_of(max_steps));
  };
  std::vector<float> all;
  for (const auto& task : spec.tasks) all.push_back(one(task.max_steps));
  if (all.empty()) all.push_back(one(spec.max_steps));
  return all;
}

int64_t seed_steps(const Options& options, const EnvSpec& spec, int64_t rows) {
  if (options.seed_steps > 0) return options.seed_steps;
  // one of each row at least: before its end there is nothing to learn from
  return std::max<int64_t>(1000, std::max<int64_t>(5, rows) * spec.longest_episode());
}

}  // namespace maglev::tdmpc2
