#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/search/draws.h"
#include "base/search/sampler.h"
#include "base/search/tpe.h"

namespace maglev::search {
namespace {

using Rows = std::vector<std::vector<double>>;  // a square matrix

constexpr double kFirstSigma = 1. / 6;
// a draw outside the cube is drawn again so often, then moved to its border
constexpr int kRedraws = 100;
constexpr int kSweeps = 50;

// eigenvalues of a symmetric matrix in `values`, its eigenvectors in the columns of `vectors`, by
// Jacobi's rotations (Golub and Van Loan, section 8.5)
void decompose(Rows a, std::vector<double>& values, Rows& vectors) {
  const size_t n = a.size();
  vectors.assign(n, std::vector<double>(n, 0));
  for (size_t i = 0; i < n; ++i) vectors[i][i] = 1;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double off = 0;
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) off += a[p][q] * a[p][q];
    if (off < 1e-30) break;
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        if (a[p][q] == 0) continue;
        const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::hypot(theta, 1));
        const double c = 1 / std::hypot(t, 1), s = t * c;
        for (size_t k = 0; k < n; ++k) {
          const double akp = a[k][p], akq = a[k][q];
          a[k][p] = c * akp - s * akq, a[k][q] = s * akp + c * akq;
        }
        for (size_t k = 0; k < n; ++k) {
          const double apk = a[p][k], aqk = a[q][k];
          a[p][k] = c * apk - s * aqk, a[q][k] = s * apk + c * aqk;
          const double vp = vectors[k][p], vq = vectors[k][q];
          vectors[k][p] = c * vp - s * vq, vectors[k][q] = s * vp + c * vq;
        }
      }
  }
  values.resize(n);
  for (size_t i = 0; i < n; ++i) values[i] = a[i][i];
}

// the tutorial's names: m, sigma, C = B D^2 B', p_c, p_sigma; its equation in brackets
class Cma {
 public:
  explicit Cma(size_t dimensions)
      : n(dimensions),
        lambda(4 + int64_t(3 * std::log(double(n)))),
        mu(size_t(lambda / 2)),
        weights(size_t(lambda)),
        m(n, 0.5),
        path_c(n, 0),
        path_sigma(n, 0),
        covariance(n, std::vector<double>(n, 0)) {
    const double N = double(n);
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = std::log((double(lambda) + 1) / 2) - std::log(double(i) + 1);  // (49)
    // the better half moves the mean, the worse half pushes the covariance away
    double sums[2] = {}, squares[2] = {};
    for (size_t i = 0; i < weights.size(); ++i)
      sums[i >= mu] += weights[i], squares[i >= mu] += weights[i] * weights[i];
    mu_eff = sums[0] * sums[0] / squares[0];
    const double mu_eff_worse = sums[1] * sums[1] / squares[1];
    c_sigma = (mu_eff + 2) / (N + mu_eff + 5);  // (55)
    d_sigma = 1 + 2 * std::max(0., std::sqrt((mu_eff - 1) / (N + 1)) - 1) + c_sigma;
    c_c = (4 + mu_eff / N) / (N + 4 + 2 * mu_eff / N);                                       // (56)
    c_1 = 2 / ((N + 1.3) * (N + 1.3) + mu_eff);                                              // (57)
    c_mu = std::min(1 - c_1, 2 * (mu_eff - 2 + 1 / mu_eff) / ((N + 2) * (N + 2) + mu_eff));  // (58)
    const double worse = std::min({1 + c_1 / c_mu, 1 + 2 * mu_eff_worse / (mu_eff + 2),
                                   (1 - c_1 - c_mu) / (N * c_mu)});  // (50) to (52)
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] *= (i < mu ? 1 / sums[0] : worse / -sums[1]);  // (53)
    norm = std::sqrt(N) * (1 - 1 / (4 * N) + 1 / (21 * N * N));
    for (size_t i = 0; i < n; ++i) covariance[i][i] = 1;
    decompose(covariance, variances, basis);
  }

  // points of a generation, best first
  void learn(const Rows& points) {
    ++generations;
    std::vector<double> step(n, 0);  // <y>_w
    for (size_t k = 0; k < mu; ++k)
      for (size_t i = 0; i < n; ++i) step[i] += weights[k] * (points[k][i] - m[i]) / sigma;
    Rows y(weights.size(), std::vector<double>(n));
    for (size_t k = 0; k < weights.size(); ++k)
      for (size_t i = 0; i < n; ++i) y[k][i] = (points[k][i] - m[i]) / sigma;
    for (size_t i = 0; i < n; ++i) m[i] += sigma * step[i];  // (42)

    const std::vector<double> white = whitened(step);
    double length = 0;
    for (size_t i = 0; i < n; ++i) {  // (43)
      path_sigma[i] =
          (1 - c_sigma) * path_sigma[i] + std::sqrt(c_sigma * (2 - c_sigma) * mu_eff) * white[i];
      length += path_sigma[i] * path_sigma[i];
    }
    length = std::sqrt(length);
    sigma = std::min(sigma * std::exp(c_sigma / d_sigma * (length / norm - 1)), 1.);  // (44)
    const double grown = std::sqrt(1 - std::pow(1 - c_sigma, 2. * double(generations)));
    const bool moves = length / grown < (1.4 + 2 / (double(n) + 1)) * norm;
    for (size_t i = 0; i < n; ++i)  // (45)
      path_c[i] =
          (1 - c_c) * path_c[i] + (moves ? std::sqrt(c_c * (2 - c_c) * mu_eff) * step[i] : 0);
    const double lost = moves ? 0 : c_1 * c_c * (2 - c_c);
    // (46): a worse point counts by its length, so that the covariance stays positive definite
    std::vector<double> pulls = weights;
    double total = 0;
    for (size_t k = 0; k < weights.size(); ++k) {
      total += weights[k];
      if (k < mu) continue;
      double square = 0;
      for (double v : whitened(y[k])) square += v * v;
      pulls[k] *= double(n) / std::max(square, 1e-12);
    }
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {  // (47)
        double rank_mu = 0;
        for (size_t k = 0; k < weights.size(); ++k) rank_mu += pulls[k] * y[k][i] * y[k][j];
        covariance[i][j] = (1 - c_1 - c_mu * total + lost) * covariance[i][j] +
                           c_1 * path_c[i] * path_c[j] + c_mu * rank_mu;
      }
    decompose(covariance, variances, basis);
    for (double& variance : variances) variance = std::max(variance, 1e-20);
  }

  std::vector<double> draw(Draws& draws) const {
    std::vector<double> x(n, 0);
    std::vector<double> z(n);
    for (double& value : z) value = draws.normal();
    for (size_t i = 0; i < n; ++i) {
      x[i] = m[i];
      for (size_t e = 0; e < n; ++e) x[i] += sigma * basis[i][e] * std::sqrt(variances[e]) * z[e];
    }
    return x;
  }

  double deviation(size_t i) const { return sigma * std::sqrt(covariance[i][i]); }

  const size_t n;
  const int64_t lambda;

 private:
  // C^-1/2 y
  std::vector<double> whitened(const std::vector<double>& y) const {
    std::vector<double> white(n, 0);
    for (size_t e = 0; e < n; ++e) {
      double along = 0;
      for (size_t i = 0; i < n; ++i) along += basis[i][e] * y[i];
      for (size_t i = 0; i < n; ++i) white[i] += basis[i][e] * along / std::sqrt(variances[e]);
    }
    return white;
  }

  size_t mu;
  std::vector<double> weights;
  double mu_eff, c_sigma, d_sigma, c_c, c_1, c_mu, norm;
  std::vector<double> m, path_c, path_sigma;
  Rows covariance, basis;
  std::vector<double> variances;
  double sigma = kFirstSigma;
  int64_t generations = 0;
};

}  // namespace

std::optional<Proposal> ask_cmaes(const Question& question, const SamplerOptions& options) {
  const auto& dimensions = question.space.dimensions();
  std::vector<size_t> numbers, choices;
  for (size_t d = 0; d < dimensions.size(); ++d)
    (dimensions[d].kind == Dimension::Kind::choice ? choices : numbers).push_back(d);
  const std::vector<const SearchTrial*> best_first = by_score(question.trials);
  Draws draws(question.seed, question.number);
  Values values(dimensions.size());

  if (!numbers.empty()) {
    // every lambda trials, in the order in which they ended, are a generation
    Cma cma(numbers.size());
    std::vector<SearchTrial> done;
    for (const SearchTrial* trial : best_first) done.push_back(*trial);
    std::ranges::sort(done, {}, &SearchTrial::ended);
    const size_t each = size_t(cma.lambda);
    for (size_t begin = 0; begin + each <= done.size(); begin += each) {
      Rows points;
      for (const SearchTrial* trial : by_score(std::span(done).subspan(begin, each))) {
        auto& point = points.emplace_back();
        for (size_t d : numbers) point.push_back(dimensions[d].to_unit(trial->values[d]));
      }
      cma.learn(points);
    }
    const auto outside = [](double unit) { return unit < 0 || unit > 1; };
    std::vector<double> point = cma.draw(draws);
    for (int again = 0; again < kRedraws && std::ranges::any_of(point, outside); ++again)
      point = cma.draw(draws);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const Dimension& d = dimensions[numbers[i]];
      // a whole number whose deviation shrank below half its cell would never change again
      const double least = 0.5 * d.cell(d.from_unit(point[i])), own = cma.deviation(i);
      if (own < least) point[i] += std::sqrt(least * least - own * own) * draws.normal();
      values[numbers[i]] = d.from_unit(point[i]);
    }
  }
  // behind the numbers, whose draws those of a choice must not be
  for (size_t d : choices) values[d] = dimensions[d].from_unit(draws.uniform());
  if (int64_t(best_first.size()) >= options.start)
    for (size_t d : choices) draw_by_parzen(question, best_first, std::array{d}, draws, values);
  return Proposal{values};
}

}  // namespace maglev::search
