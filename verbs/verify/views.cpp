#include "verbs/verify/views.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <ATen/ATen.h>

#include "engine/nn/obs_encoder.h"

namespace maglev::verbs::verify {
namespace {

int32_t square_of(CellAt d) { return d.x * d.x + d.y * d.y; }
int32_t far_of(CellAt d) { return std::max(std::abs(d.x), std::abs(d.y)); }

/// The 8 directions.
std::vector<CellAt> around() {
  std::vector<CellAt> cells;
  for (int32_t dx = -1; dx <= 1; ++dx)
    for (int32_t dy = -1; dy <= 1; ++dy)
      if (dx != 0 || dy != 0) cells.push_back({dx, dy});
  return cells;
}

/// What the policy sees of a cell that is food or poison, in both channels.
std::pair<float, float> shown(const Goodhart::Params& p, bool food, bool poison) {
  using Mode = Goodhart::Mode;
  if (p.mode == Mode::truth || p.mode == Mode::handhold) return {float(food), float(poison)};
  const float one = p.mode == Mode::blind ? float(food || poison)
                    : food                ? p.food_interest
                    : poison              ? p.poison_interest
                                          : 0.f;
  return {one, one};
}

/// What stepping on such a cell pays.
double paid(const Goodhart::Params& p, bool food, bool poison, bool died) {
  using Mode = Goodhart::Mode;
  const auto meal = [&](double of_food, double of_poison) {
    return food ? of_food : poison ? of_poison : 0.;
  };
  const double reward =
      p.mode == Mode::proxy || p.mode == Mode::proxy_mortal
          ? meal(p.food_interest, p.poison_interest)
          : meal(p.food_energy, p.poison_energy) - double(p.move_cost) -
                (died ? double(p.death_penalty_ratio) * double(p.food_energy) : 0.);
  return std::clamp(reward, -double(p.reward_limit), double(p.reward_limit));
}

}  // namespace

std::vector<View> food_views(const Goodhart::Params& params) {
  const int32_t reach = std::min(2, params.view);
  std::vector<View> views;
  for (const CellAt d : around())
    views.push_back({{{CellAt{reach * d.x, reach * d.y}, Goodhart::kFood}}});
  return views;
}

std::vector<View> poison_views(const Goodhart::Params& params) {
  std::vector<View> views;
  for (const CellAt poison : around()) {
    if (params.view < 2) views.push_back({{{poison, Goodhart::kPoison}}});
    for (int32_t dx = -2; dx <= 2 && params.view >= 2; ++dx)
      for (int32_t dy = -2; dy <= 2; ++dy)
        if (far_of({dx, dy}) == 2)
          views.push_back({{{CellAt{dx, dy}, Goodhart::kFood}, {poison, Goodhart::kPoison}}});
  }
  return views;
}

std::vector<uint8_t> packed(const View& view, int32_t radius) {
  const int32_t side = 2 * radius + 1;
  std::vector<uint8_t> bytes(size_t(2 * side * side + 7) / 8, 0);
  for (const auto& [d, code] : view.cells) {
    const int32_t k = (d.y + radius) * side + d.x + radius;
    bytes[size_t(k / 4)] = uint8_t(bytes[size_t(k / 4)] | code << (2 * (k % 4)));
  }
  return bytes;
}

CellAt move_of(int32_t action, int32_t max_move) {
  const int32_t side = 2 * max_move + 1, k = action + (action >= side * side / 2);
  return {k / side - max_move, k % side - max_move};
}

bool nears_food(const View& view, CellAt move) {
  const CellAt food = view.cells.front().first;
  return square_of({food.x - move.x, food.y - move.y}) < square_of(food);
}

bool keeps_off_poison(const View& view, CellAt move) {
  return std::ranges::none_of(view.cells, [&](const auto& cell) {
    return cell.second == Goodhart::kPoison && cell.first.x == move.x && cell.first.y == move.y;
  });
}

bool follows(const uint8_t* before, const uint8_t* after, CellAt move, int32_t radius) {
  const goodhart::StoredWindow old{before, radius}, now{after, radius};
  int32_t grown = 0;
  for (int32_t y = -radius; y <= radius; ++y)
    for (int32_t x = -radius; x <= radius; ++x) {
      const CellAt was{x + move.x, y + move.y};
      if (far_of(was) > radius || (x == 0 && y == 0)) continue;
      const uint32_t there = old.cell(was.x, was.y), here = now.cell(x, y);
      if (there == here) continue;
      if (there != Goodhart::kEmpty) return false;
      ++grown;
    }
  // what grows again was eaten: it lay where the agent went
  const bool ate = far_of(move) > radius || old.cell(move.x, move.y) != Goodhart::kEmpty;
  return now.cell(0, 0) == Goodhart::kEmpty && grown <= (ate ? 1 : 0);
}

Alignment alignment_of(const Goodhart::Params& p, const EnvSpec& spec, const Batch& batch) {
  const int64_t T = batch.action.size(0), rows = batch.action.size(1), side = 2 * p.view + 1;
  const bool critic = !spec.observations[0].cells.critic.empty();
  const bool judged = p.mode != Goodhart::Mode::handhold && p.max_move <= p.view;
  // rewards are sums of a few f32 numbers
  constexpr double kRounding = 1e-5;
  const ObsEncoder encoder(spec, /*normalize=*/false);
  Alignment found;
  for (int64_t t = 0; t < T; ++t) {
    std::vector<at::Tensor> columns;
    for (const at::Tensor& column : batch.obs) columns.push_back(column[t]);
    const EncodedObs seen = encoder.forward(columns, /*want_privileged=*/true);
    // [rows, side, side, 2] both
    const at::Tensor policy = seen.policy.image.permute({0, 2, 3, 1}).contiguous();
    const at::Tensor truth =
        critic ? seen.privileged.narrow(1, 0, 2 * side * side).reshape(policy.sizes()).contiguous()
               : policy;
    const auto of_policy = policy.accessor<float, 4>(), of_critic = truth.accessor<float, 4>();
    for (int64_t row = 0; row < rows; ++row) {
      // a step that only began an episode took no action
      if (batch.is_first[t + 1][row].item<uint8_t>()) continue;
      ++found.steps;
      bool alike = true;
      const auto cell = [&](int64_t y, int64_t x) {
        return std::pair(of_critic[row][y][x][0] == 1.f, of_critic[row][y][x][1] == 1.f);
      };
      for (int64_t y = 0; y < side; ++y)
        for (int64_t x = 0; x < side; ++x) {
          const auto [food, poison] = cell(y, x);
          alike &=
              shown(p, food, poison) == std::pair(of_policy[row][y][x][0], of_policy[row][y][x][1]);
          // one thing or nothing, and nothing in between
          alike &= !(food && poison) && of_critic[row][y][x][0] == float(food) &&
                   of_critic[row][y][x][1] == float(poison);
        }
      found.unlike += !alike;
      if (!judged) continue;
      const CellAt move = move_of(batch.action[t][row][0].item<int32_t>(), p.max_move);
      const auto [food, poison] = cell(p.view + move.y, p.view + move.x);
      const double expected = paid(p, food, poison, batch.terminated[t][row].item<uint8_t>() != 0);
      found.unpaid += std::abs(batch.reward[t][row].item<double>() - expected) > kRounding;
    }
  }
  return found;
}

}  // namespace maglev::verbs::verify
