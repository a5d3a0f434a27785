#include "base/statistics/ratings.h"

#include <algorithm>
#include <cmath>

#include "base/statistics/samples.h"

namespace maglev {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr double kMiddle = 1000;             // mean of all
const double kPoints = 400 / std::log(10.);  // of a factor e
constexpr double kNearEnough = 1e-10;        // of a strength, from one step to the next
constexpr int kMostSteps = 100'000;

// of a positive definite matrix, by Gauss and Jordan without pivots
Matrix inverse_of(Matrix a) {
  const size_t n = a.size();
  Matrix inverse(n, std::vector<double>(n, 0));
  for (size_t i = 0; i < n; ++i) inverse[i][i] = 1;
  for (size_t k = 0; k < n; ++k) {
    const double pivot = a[k][k];
    for (size_t j = 0; j < n; ++j) a[k][j] /= pivot, inverse[k][j] /= pivot;
    for (size_t i = 0; i < n; ++i) {
      const double factor = a[i][k];
      if (i == k || factor == 0) continue;
      for (size_t j = 0; j < n; ++j)
        a[i][j] -= factor * a[k][j], inverse[i][j] -= factor * inverse[k][j];
    }
  }
  return inverse;
}

}  // namespace

std::vector<Rating> ratings(size_t players, std::span<const Meeting> meetings) {
  // everybody's points, with half a game of the drawn one
  std::vector<double> points(players, 0.5), strength(players, 1);
  for (const Meeting& m : meetings) {
    points[m.first] += m.score;
    points[m.second] += double(m.games) - m.score;
  }
  // a strength becomes its points over what games give at the strengths there are
  double moved = 1;
  for (int step = 0; moved > kNearEnough && step < kMostSteps; ++step) {
    std::vector<double> weight(players);
    for (size_t i = 0; i < players; ++i) weight[i] = 1 / (strength[i] + 1);
    for (const Meeting& m : meetings) {
      const double each = double(m.games) / (strength[m.first] + strength[m.second]);
      weight[m.first] += each, weight[m.second] += each;
    }
    moved = 0;
    for (size_t i = 0; i < players; ++i) {
      const double next = points[i] / weight[i];
      moved = std::max(moved, std::fabs(next / strength[i] - 1));
      strength[i] = next;
    }
  }
  // curvature by the logarithms of strengths
  Matrix curvature(players, std::vector<double>(players, 0));
  const auto spread = [](double a, double b) { return a * b / ((a + b) * (a + b)); };
  for (size_t i = 0; i < players; ++i) curvature[i][i] = spread(strength[i], 1);
  for (const Meeting& m : meetings) {
    const double c = double(m.games) * spread(strength[m.first], strength[m.second]);
    curvature[m.first][m.first] += c, curvature[m.second][m.second] += c;
    curvature[m.first][m.second] -= c, curvature[m.second][m.first] -= c;
  }
  // distances from the mean: what is unknown of all alike is no error
  const Matrix covariance = inverse_of(curvature);
  std::vector<double> shared, log_strength;
  for (const auto& row : covariance) shared.push_back(mean_of(row));
  for (double s : strength) log_strength.push_back(std::log(s));
  std::vector<Rating> result;
  for (size_t i = 0; i < players; ++i) {
    const double variance = covariance[i][i] - 2 * shared[i] + mean_of(shared);
    result.push_back({.elo = kMiddle + kPoints * (log_strength[i] - mean_of(log_strength)),
                      .error = kPoints * std::sqrt(std::max(0., variance))});
  }
  return result;
}

}  // namespace maglev
