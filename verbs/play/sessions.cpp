#include "verbs/play/sessions.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include <ATen/ATen.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/json_quoted.h"
#include "base/picture/animation.h"
#include "base/web/answer.h"

namespace maglev::verbs::play {
namespace {

constexpr int kPictureWidth = 540, kPictureHeight = 450;
/// Units of a layer that are shown one by one; of more, neighbours are joined.
constexpr int64_t kMostUnits = 512;
constexpr int kDigits = 4;
// actions may be whole numbers of any size up to what a float tells apart
constexpr int kActionDigits = 9;

template <class Numbers>
std::string numbers_json(const Numbers& numbers, int digits = kDigits) {
  std::string text = "[";
  for (const auto& number : numbers) {
    if (text.size() > 1) text += ',';
    if constexpr (std::is_integral_v<std::decay_t<decltype(number)>>)
      text += std::to_string(number);
    else add_number(text, double(number), digits);
  }
  return text + "]";
}

std::string numbers_json(const at::Tensor& t) {
  const at::Tensor flat = t.detach().to(at::kCPU, at::kFloat).contiguous();
  return numbers_json(std::span(flat.const_data_ptr<float>(), size_t(flat.numel())));
}

// a layer's outputs [1, units] or [1, C, H, W] as at most kMostUnits numbers
at::Tensor units_of(const at::Tensor& output) {
  at::Tensor units = output[0].detach().to(at::kFloat);
  if (units.dim() > 1) units = units.flatten(1).mean(1);
  const int64_t joined = (units.numel() + kMostUnits - 1) / kMostUnits;
  if (joined == 1) return units;
  std::vector<at::Tensor> means;
  for (const at::Tensor& some : units.split(joined)) means.push_back(some.mean());
  return at::stack(means);
}

std::string frame_json(const Frame& frame) {
  const auto truth = [](bool value) { return value ? "true" : "false"; };
  std::string text =
      "{\"n\":" + std::to_string(frame.number) + ",\"episode\":" + std::to_string(frame.episode) +
      ",\"step\":" + std::to_string(frame.step) + ",\"acted\":" + truth(frame.acted) +
      ",\"over\":" + truth(frame.over) +
      ",\"action\":" + numbers_json(frame.action, kActionDigits) +
      ",\"rewards\":" + numbers_json(frame.rewards) +
      ",\"returns\":" + numbers_json(frame.returns, 7) + ",\"events\":" + json_quoted(frame.events);
  if (frame.policy) {
    const Explanation& policy = *frame.policy;
    if (policy.log_probs.defined()) text += ",\"probs\":" + numbers_json(policy.log_probs.exp());
    if (policy.mean.defined()) text += ",\"mean\":" + numbers_json(policy.mean);
    if (policy.deviation.defined()) text += ",\"deviation\":" + numbers_json(policy.deviation);
    if (policy.value) add_number(text += ",\"value\":", *policy.value, 6);
  }
  return text + ",\"picture\":\"" + data_address("image/png", frame.picture) + "\"}";
}

// what a kept step holds in memory
int64_t bytes_of(const Frame& frame) {
  int64_t bytes = int64_t(frame.picture.size());
  const auto add = [&](const at::Tensor& t) { bytes += t.defined() ? int64_t(t.nbytes()) : 0; };
  for (const at::Tensor& column : frame.by.step.obs) add(column);
  for (const Carry* carry : {&frame.by.before, &frame.by.after})
    for (const at::Tensor& part : carry->parts) add(part);
  add(frame.by.step.mask);
  return bytes;
}

}  // namespace

RunningGame::RunningGame(std::unique_ptr<Match> match, int64_t most_frames)
    : match_(std::move(match)), most_frames_(most_frames) {}

const Frame& RunningGame::frame(int64_t number) const {
  if (number < first() || number >= next_)
    throw Error("[play] step " + std::to_string(number) + " is not kept; kept are " +
                std::to_string(first()) + " to " + std::to_string(next_ - 1));
  return frames_[size_t(number - first())];
}

void RunningGame::advance() {
  Canvas finer(2 * kPictureWidth, 2 * kPictureHeight);
  match_->paint(finer);
  // of the state before the step, which begins another episode where one has ended
  Frame frame{.number = next_, .picture = still_png(finer.reduced(2))};
  const bool ended = match_->episode_over();
  frame.step = ended ? match_->steps() : 0;
  frame.returns = match_->returns();
  frame.acted = match_->step();
  frame.episode = match_->episodes() + (frame.acted && !match_->episode_over());
  if (frame.acted) {
    frame.step = match_->steps();
    frame.over = match_->episode_over();
    frame.action = match_->action();
    frame.rewards = match_->rewards();
    frame.returns = match_->returns();
    // the first player that tells what it makes of things
    const auto& players = match_->players();
    while (explained_ < players.size()) {
      frame.by = match_->acted(explained_);
      frame.policy = players[explained_]->explain(frame.by, {});
      if (frame.policy) break;
      ++explained_;
    }
    // layers are computed again for the steps that are looked at
    if (frame.policy) frame.policy->layers.clear();
  }
  frame.events = match_->events();
  bytes_ += bytes_of(frame);
  frames_.push_back(std::move(frame));
  ++next_;
  // the newest is kept whatever its size
  while (frames_.size() > 1 && (int64_t(frames_.size()) > most_frames_ || bytes_ > kMostBytes)) {
    bytes_ -= bytes_of(frames_.front());
    frames_.pop_front();
  }
}

std::optional<Explanation> RunningGame::explain(int64_t number, Asked asked) const {
  const Frame& kept = frame(number);
  if (!kept.policy) return std::nullopt;
  return match_->players()[explained_]->explain(kept.by, asked);
}

PlaySessions::Open& PlaySessions::game_of(const GameKey& key) {
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return open.key == key; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
  } else {
    // room first: a game may hold a large policy
    if (open_.size() == kMostGames) open_.pop_back();
    open_.push_front({key, ++begun_, std::make_unique<RunningGame>(make_(key))});
  }
  return open_.front();
}

std::string PlaySessions::about_json(const GameKey& key) {
  const std::lock_guard lock(mutex_);
  const Match& match = game_of(key).game->match();
  const ActionSpec& action = match.spec().action;
  std::string players;
  for (const auto& player : match.players())
    players += (players.empty() ? "" : ",") + json_quoted(player->name());
  std::string names;
  for (const std::string& name : action.names)
    names += (names.empty() ? "" : ",") + json_quoted(name);
  return "{\"env\":" + json_quoted(match.entry().name) + ",\"players\":[" + players +
         "],\"heads\":" + numbers_json(action.heads) + ",\"names\":[" + names +
         "],\"low\":" + numbers_json(action.low) + ",\"high\":" + numbers_json(action.high) +
         ",\"fps\":" + std::to_string(std::lround(match.spec().render_fps)) +
         ",\"seed\":" + std::to_string(key.seed) +
         ",\"actions\":" + json_quoted(names_of(ActMode{})[size_t(key.mode)]) + "}";
}

std::string PlaySessions::frames_json(const GameKey& key, int64_t from, int64_t count) {
  const std::lock_guard lock(mutex_);
  Open& open = game_of(key);
  RunningGame& game = *open.game;
  const int64_t begin = std::clamp(from, game.first(), game.next());
  const int64_t end = begin + std::clamp<int64_t>(count, 1, kMostSteps);
  // at least one, then as many as the time allows
  for (const double until = steady_s() + kSeconds;
       game.next() < end && (game.next() == begin || steady_s() < until);)
    game.advance();
  std::string frames;
  for (int64_t n = std::max(begin, game.first()); n < std::min(end, game.next()); ++n)
    frames += (frames.empty() ? "" : ",") + frame_json(game.frame(n));
  return "{\"game\":" + std::to_string(open.begun) + ",\"first\":" + std::to_string(game.first()) +
         ",\"next\":" + std::to_string(game.next()) + ",\"frames\":[" + frames + "]}";
}

std::string PlaySessions::insight_json(const GameKey& key, int64_t number, Asked asked) {
  const std::lock_guard lock(mutex_);
  const auto found = game_of(key).game->explain(number, asked);
  std::string text = "{\"layers\":[", inputs;
  if (!found) return text + "],\"inputs\":[]}";
  for (const LayerOutput& layer : found->layers)
    text += (text.back() == '[' ? "" : ",") + ("{\"name\":" + json_quoted(layer.name)) +
            ",\"shape\":" + numbers_json(layer.output.sizes().slice(1)) +
            ",\"values\":" + numbers_json(units_of(layer.output)) + "}";
  for (const InputAttribution& input : found->inputs) {
    const auto of_places = [](const at::Tensor& t) { return t.dim() == 3 ? t.sum(0) : t; };
    inputs += (inputs.empty() ? "" : ",") + ("{\"name\":" + json_quoted(input.name)) +
              ",\"shape\":" + numbers_json(input.seen.sizes()) +
              ",\"seen\":" + numbers_json(input.seen) +
              ",\"gradient\":" + numbers_json(of_places(input.gradient)) +
              ",\"integrated\":" + numbers_json(of_places(input.integrated)) + "}";
  }
  text += "],\"inputs\":[" + inputs + "],\"question\":" + json_quoted(found->question);
  add_number(text += ",\"asked\":", found->asked, 6);
  add_number(text += ",\"baseline\":", found->baseline, 6);
  return text + "}";
}

}  // namespace maglev::verbs::play
