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

Matrix multiplied(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b.size(), 0));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < b.size(); ++k)
      for (size_t j = 0; j < b.size(); ++j) c[i][j] += a[i][k] * b[k][j];
  return c;
}

// of a difference between the two
void add_pair(Matrix& to, const Meeting& m, double c) {
  to[m.first][m.first] += c, to[m.second][m.second] += c;
  to[m.first][m.second] -= c, to[m.second][m.first] -= c;
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
  // by the logarithms of strengths: the likelihood's curvature, and the variance of its slope
  Matrix curvature(players, std::vector<double>(players, 0)), slope = curvature;
  const auto spread = [](double a, double b) { return a * b / ((a + b) * (a + b)); };
  for (size_t i = 0; i < players; ++i) curvature[i][i] = slope[i][i] = spread(strength[i], 1);
  for (const Meeting& m : meetings) {
    const double decided = spread(strength[m.first], strength[m.second]);
    add_pair(curvature, m, double(m.games) * decided);
    // a draw is half of a game, never more nor less; where all were drawn one more is decided
    const double drawn = double(m.draws) / double(m.games + 1);
    add_pair(slope, m, double(m.games) * std::max(0., decided - drawn / 4));
  }
  // distances from the mean: what is unknown of all alike is no error
  const Matrix inverse = inverse_of(curvature);
  const Matrix covariance = multiplied(multiplied(inverse, slope), inverse);
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
