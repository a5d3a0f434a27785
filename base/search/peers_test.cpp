// The embedded samplers beside Optuna's, on functions whose least value is known, by the figures
// that tests/parity/optuna_fixture.py wrote. Standard test functions; Branin's as Dixon and
// Szego's.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/core/file.h"
#include "base/search/sampler.h"
#include "base/statistics/distributions.h"
#include "tests/places.h"

namespace maglev::search {
namespace {

using std::numbers::pi;
using Kind = Dimension::Kind;

struct Function {
  const char* name;
  SearchSpace space;
  double (*value)(const Values& x);
};

SearchSpace cube(double low, double high, int count = 5) {
  SearchSpace space;
  for (int i = 0; i < count; ++i)
    space.add({.name = "x" + std::to_string(i), .low = low, .high = high});
  return space;
}

double sphere(const Values& x) {
  double sum = 0;
  for (double v : x) sum += (v - 1) * (v - 1);
  return sum;
}
double rosenbrock(const Values& x) {
  double sum = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i)
    sum += 100 * std::pow(x[i + 1] - x[i] * x[i], 2) + std::pow(1 - x[i], 2);
  return sum;
}
double ackley(const Values& x) {
  double square = 0, wave = 0;
  for (double v : x)
    square += (v - 3) * (v - 3) / double(x.size()),
        wave += std::cos(2 * pi * (v - 3)) / double(x.size());
  return -20 * std::exp(-0.2 * std::sqrt(square)) - std::exp(wave) + 20 + std::numbers::e;
}
double rastrigin(const Values& x) {
  double sum = 0;
  for (double v : x) sum += (v - 1) * (v - 1) - 10 * std::cos(2 * pi * (v - 1)) + 10;
  return sum;
}
double branin(const Values& x) {
  const double b = 5.1 / (4 * pi * pi), c = 5 / pi, t = 1 / (8 * pi);
  return std::pow(x[1] - b * x[0] * x[0] + c * x[0] - 6, 2) + 10 * (1 - t) * std::cos(x[0]) + 10;
}
double mixed(const Values& x) {
  constexpr double kRaised[] = {1, 0.5, 0, 2};
  return kRaised[size_t(x[4])] + std::pow(std::log10(x[0]) + 2 + 0.3 * x[4], 2) +
         std::pow((x[1] - 20) / 10, 2) + std::pow(std::log2(x[2]) - 6, 2) / 4 +
         4 * std::pow(x[3] - 0.7, 2);
}

std::vector<Function> functions() {
  SearchSpace plane, several;
  plane.add({.name = "x0", .low = -5, .high = 10});
  plane.add({.name = "x1", .low = 0, .high = 15});
  several.add({.name = "x0", .low = 1e-5, .high = 1e-1, .log = true});
  several.add({.name = "x1", .kind = Kind::integer, .low = 1, .high = 30});
  several.add({.name = "x2", .kind = Kind::integer, .low = 8, .high = 512, .log = true});
  several.add({.name = "x3", .low = 0, .high = 1});
  several.add({.name = "x4", .kind = Kind::choice, .choices = {"a", "b", "c", "d"}});
  return {{"sphere", cube(-5, 5), sphere},   {"rosenbrock", cube(-2, 2), rosenbrock},
          {"ackley", cube(-15, 15), ackley}, {"rastrigin", cube(-5.12, 5.12), rastrigin},
          {"branin", plane, branin},         {"mixed", several, mixed}};
}

// the least value after so many trials, one after another
double least(const Function& function, const std::string& sampler, int64_t trials, uint64_t seed) {
  const auto ask = sampler == "cmaes" ? ask_cmaes : ask_tpe;
  std::vector<SearchTrial> done;
  double best = std::numeric_limits<double>::infinity();
  for (int64_t n = 0; n < trials; ++n) {
    const auto proposal = ask({.space = function.space, .trials = done, .seed = seed, .number = n},
                              {.independent = sampler == "tpe_independent"});
    const double value = function.value(proposal->values);
    best = std::min(best, value);
    done.push_back({.number = n,
                    .values = proposal->values,
                    .state = TrialState::finished,
                    .score = -value,
                    .cost = 1,
                    .ended = n + 1});
  }
  return best;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// How likely `ours` would rank as far behind `theirs`, or farther, if both were of one population:
// Mann and Whitney's test by its normal approximation, ties as halves. Theirs have six digits.
double chance_of_being_behind(const std::vector<double>& ours, const std::vector<double>& theirs) {
  double behind = 0;
  for (double a : ours)
    for (double b : theirs) {
      const bool alike = std::abs(a - b) <= 1e-5 * std::abs(b);
      behind += alike ? 0.5 : a > b;
    }
  const double m = double(ours.size()), n = double(theirs.size());
  return 1 - normal_cdf((behind - m * n / 2) / std::sqrt(m * n * (m + n + 1) / 12));
}

TEST(Samplers, are_no_worse_than_optunas) {
  const auto reference = nlohmann::json::parse(
      read_file(in_checkout("tests/parity/optuna_reference.json"), size_t(1) << 20));
  for (const auto& row : reference.at("results")) {
    const std::string sampler = row.at("sampler"), name = row.at("function");
    const std::vector<double> theirs = row.at("least");
    const auto all = functions();
    const Function& function = *std::ranges::find(all, name, &Function::name);
    std::vector<double> ours;
    for (uint64_t seed = 1; seed <= theirs.size(); ++seed)
      ours.push_back(least(function, sampler, row.at("trials"), seed));
    EXPECT_GT(chance_of_being_behind(ours, theirs), 0.01)
        << sampler << " on " << name << ": median " << median(ours) << ", Optuna's "
        << median(theirs);
    // read by the table of docs/sweeps.md
    std::printf("%-16s %-11s ours %.4g, Optuna's %.4g\n", sampler.c_str(), name.c_str(),
                median(ours), median(theirs));
  }
}

}  // namespace
}  // namespace maglev::search
