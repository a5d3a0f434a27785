#include "algos/dreamer/actions.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "base/env/pictures.h"
#include "kernels/action_head/action_head.h"
#include "kernels/cells/cells_op.h"

namespace maglev::dreamer {
namespace {

at::Tensor side_by_side(const std::vector<at::Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : at::cat(parts, -1);
}

// what each byte of cells is in pixels: 0 is 0 and 1 is 255 where no number of the palette is
// beyond, else the least and the largest of them
at::Tensor pixels_of(const CellCoding& cells) {
  const auto [least, most] = std::ranges::minmax(cells.policy);
  const double low = std::min(0.f, least), high = std::max(1.f, most);
  const auto table = make_cell_table(cells, cells.policy);
  return (255 * (table - low) / (high - low)).round().to(at::kByte);
}

}  // namespace

Columns::Columns(const EnvSpec& spec, const ModelShape& shape, at::Device device)
    : heads_(shape.heads) {
  // the critic's columns stay unseen; model_shape() has refused what is no vector or image
  for (size_t i = 0; i < spec.observations.size(); ++i) {
    const ObsColumn& column = spec.observations[i];
    if (column.audience == Audience::critic) continue;
    if (column.dtype == DType::f32) vectors_.push_back(i);
    else images_.push_back({.column = i, .cells = column.cells});
    if (is_cells(column)) images_.back().pixels = pixels_of(column.cells).to(device);
  }
  if (!heads_.empty()) return;
  const auto low = at::tensor(spec.action.low), high = at::tensor(spec.action.high);
  middle_ = ((high + low) / 2).to(device);
  half_ = ((high - low) / 2).to(device);
}

Observation Columns::seen(const std::vector<at::Tensor>& obs, int64_t lead) const {
  Observation seen;
  std::vector<at::Tensor> images, vectors;
  for (const Image& image : images_) images.push_back(image_of(image, obs[image.column]));
  for (size_t i : vectors_) vectors.push_back(obs[i].flatten(lead));
  if (!images.empty()) seen.image = side_by_side(images);
  if (!vectors.empty()) seen.vector = side_by_side(vectors);
  return seen;
}

at::Tensor Columns::image_of(const Image& image, const at::Tensor& column) {
  if (!image.pixels.defined()) return column;
  const auto lead = column.sizes().slice(0, size_t(column.dim()) - 1);
  const auto packed = column.reshape({-1, column.size(-1)});
  return decode_cells(packed, image.pixels, image.cells).unflatten(0, lead);
}

std::vector<at::Tensor> Columns::shown(const std::vector<at::Tensor>& obs) const {
  std::vector<at::Tensor> shown(obs.size());
  for (const Image& image : images_) shown[image.column] = image_of(image, obs[image.column]);
  for (size_t i : vectors_) shown[i] = obs[i];
  return shown;
}

at::Tensor Columns::to_model(const at::Tensor& action) const {
  if (heads_.empty()) return ((action - middle_) / half_).clamp(-1, 1);
  std::vector<at::Tensor> parts;
  for (size_t h = 0; h < heads_.size(); ++h)
    parts.push_back(one_hot(action.select(-1, int64_t(h)), heads_[h], at::kFloat));
  return side_by_side(parts);
}

at::Tensor Columns::to_environment(const at::Tensor& action) const {
  if (heads_.empty()) return middle_ + half_ * action.clamp(-1, 1);
  std::vector<at::Tensor> categories;
  int64_t begin = 0;
  for (int64_t head : heads_) {
    categories.push_back(action.narrow(1, begin, head).argmax(1, /*keepdim=*/true));
    begin += head;
  }
  return side_by_side(categories).to(at::kInt);
}

void Columns::to_environment(const at::Tensor& action, at::Tensor& out) const {
  out.copy_(to_environment(action));
}

ActionDistribution::Normal ActionDistribution::normal(const at::Tensor& head) const {
  const auto parts = head.chunk(2, -1);
  return {at::tanh(parts[0]),
          (kMostActionStd - kLeastActionStd) * at::sigmoid(parts[1] + kFirstActionStd) +
              kLeastActionStd};
}

std::vector<at::Tensor> ActionDistribution::log_probs(const at::Tensor& head) const {
  std::vector<at::Tensor> all;
  for (const auto& logits : head.split_with_sizes(heads_, -1))
    all.push_back(at::log_softmax(logits, -1));
  return all;
}

at::Tensor ActionDistribution::draw(const at::Tensor& head, const at::Tensor& numbers,
                                    float temperature) const {
  if (heads_.empty()) {
    const auto [mean, std] = normal(head);
    return mean + (temperature == 1 ? std : std * temperature) * numbers;
  }
  std::vector<at::Tensor> parts;
  for (auto& log_probs : log_probs(head)) {
    const auto number = numbers.select(-1, int64_t(parts.size()));
    if (temperature != 1) log_probs = at::log_softmax(log_probs / temperature, -1);
    parts.push_back(
        one_hot(drawn_category(log_probs.exp(), number), log_probs.size(-1), head.options()));
  }
  return side_by_side(parts);
}

at::Tensor ActionDistribution::mode(const at::Tensor& head) const {
  if (heads_.empty()) return normal(head).mean;
  std::vector<at::Tensor> parts;
  for (const auto& log_probs : log_probs(head))
    parts.push_back(one_hot(log_probs.argmax(-1), log_probs.size(-1), head.options()));
  return side_by_side(parts);
}

at::Tensor ActionDistribution::log_prob(const at::Tensor& head, const at::Tensor& action) const {
  if (heads_.empty()) {
    const auto [mean, std] = normal(head);
    const auto deviations = (action - mean) / std;
    return (-0.5 * deviations.square() - std.log() - 0.5 * std::log(2 * M_PI)).sum(-1);
  }
  return (side_by_side(log_probs(head)) * action).sum(-1);
}

at::Tensor ActionDistribution::entropy(const at::Tensor& head) const {
  if (heads_.empty()) return (normal(head).std.log() + 0.5 * std::log(2 * M_PI * M_E)).sum(-1);
  const auto all = side_by_side(log_probs(head));
  return -(all.exp() * all).sum(-1);
}

}  // namespace maglev::dreamer
