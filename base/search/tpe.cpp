#include "base/search/tpe.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace maglev::search {
namespace {

constexpr int kCandidates = 24;
constexpr size_t kMostGood = 25;
// a tenth is good, at most kMostGood (Bergstra et al.'s later code, and Optuna's)
size_t good_of(size_t trials) { return std::min<size_t>((trials + 9) / 10, kMostGood); }

// the newest count fully, older ones of a long search less
constexpr size_t kFresh = 25;
std::vector<double> weights_of(size_t count) {
  std::vector<double> weights(count, 1);
  const size_t old = count > kFresh ? count - kFresh : 0;
  for (size_t i = 0; i < old; ++i)
    weights[i] = old == 1
                     ? 1. / double(count)
                     : 1. / double(count) + (1 - 1. / double(count)) * double(i) / double(old - 1);
  return weights;
}

double log_sum(const std::vector<double>& terms) {
  const double most = *std::ranges::max_element(terms);
  double sum = 0;
  for (double term : terms) sum += std::exp(term - most);
  return most + std::log(sum);
}

// one kernel a trial and a wide one over the whole space; each a product over the dimensions of
// truncated normals, of a choice's probabilities
class Mixture {
 public:
  Mixture(const SearchSpace& space, std::span<const size_t> chosen,
          std::vector<const SearchTrial*> trials)
      : space_(space), chosen_(chosen) {
    std::ranges::sort(trials, {}, [](const SearchTrial* t) { return t->number; });
    weights_ = weights_of(trials.size());
    weights_.push_back(1);
    const double total = std::accumulate(weights_.begin(), weights_.end(), 0.);
    for (double& weight : weights_) weight /= total;
    for (size_t d : chosen) {
      std::vector<double> centres;
      for (const SearchTrial* trial : trials)
        centres.push_back(is_choice(d) ? trial->values[d] : dimension(d).to_unit(trial->values[d]));
      auto& widths = widths_.emplace_back();
      auto& masses = log_mass_.emplace_back();
      if (!is_choice(d)) {
        widths = widths_of(centres);
        for (size_t k = 0; k < centres.size(); ++k)
          masses.push_back(log_mass(centres[k], widths[k]));
        masses.push_back(log_mass(0.5, 1));
      }
      centres_.push_back(std::move(centres));
    }
  }

  // of the dimensions chosen; a choice as its index, else units
  std::vector<double> draw(Draws& draws) const {
    size_t kernel = 0;
    for (double u = draws.uniform(); kernel + 1 < weights_.size() && u >= weights_[kernel];)
      u -= weights_[kernel++];
    const bool wide = kernel + 1 == weights_.size();
    std::vector<double> point;
    for (size_t i = 0; i < chosen_.size(); ++i) {
      const size_t d = chosen_[i];
      const double u = draws.uniform();
      if (is_choice(d)) {
        const double stray = stray_of(d);
        const double count = double(dimension(d).choices.size());
        point.push_back(wide || u < stray ? std::floor(draws.uniform() * count)
                                          : centres_[i][kernel]);
        continue;
      }
      const double centre = wide ? 0.5 : centres_[i][kernel];
      const double width = wide ? 1 : widths_[i][kernel];
      const double low = normal_cdf(-centre / width), high = normal_cdf((1 - centre) / width);
      const double p = std::clamp(low + u * (high - low), 1e-300, 1 - 1e-16);
      point.push_back(std::clamp(centre + width * normal_quantile(p), 0., 1.));
    }
    return point;
  }

  double log_density(const std::vector<double>& point) const {
    std::vector<double> terms(weights_.size());
    for (size_t kernel = 0; kernel < weights_.size(); ++kernel) {
      const bool wide = kernel + 1 == weights_.size();
      terms[kernel] = std::log(weights_[kernel]);
      for (size_t i = 0; i < chosen_.size(); ++i)
        terms[kernel] += log_kernel(i, kernel, wide, point[i]);
    }
    return log_sum(terms);
  }

 private:
  const Dimension& dimension(size_t d) const { return space_.dimensions()[d]; }
  bool is_choice(size_t d) const { return dimension(d).kind == Dimension::Kind::choice; }

  // the share of a choice's kernel that is spread over all choices
  double stray_of(size_t d) const {
    const double count = double(dimension(d).choices.size());
    return count / (count + double(weights_.size()));
  }

  double log_kernel(size_t i, size_t kernel, bool wide, double x) const {
    const size_t d = chosen_[i];
    if (is_choice(d)) {
      const double count = double(dimension(d).choices.size());
      const double stray = wide ? 1 : stray_of(d);
      return std::log(stray / count + (!wide && x == centres_[i][kernel] ? 1 - stray : 0));
    }
    const double z = (x - (wide ? 0.5 : centres_[i][kernel])) / (wide ? 1 : widths_[i][kernel]);
    return -0.5 * z * z - log_mass_[i][kernel];
  }

  // of a truncated normal: what its density is divided by
  static double log_mass(double centre, double width) {
    const double inside = normal_cdf((1 - centre) / width) - normal_cdf(-centre / width);
    return std::log(width * std::sqrt(2 * std::numbers::pi) * inside);
  }

  // in each dimension as far as the farther neighbour, within bounds that narrow with the trials
  std::vector<double> widths_of(const std::vector<double>& centres) const {
    const double count = double(centres.size());
    std::vector<size_t> order(centres.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](size_t i) { return centres[i]; });
    std::vector<double> widths(centres.size());
    const double least = 1 / std::min(100., count + 2);
    for (size_t r = 0; r < order.size(); ++r) {
      const double here = centres[order[r]];
      // the outermost look inwards alone, unless there is but one
      const bool first = r == 0, last = r + 1 == order.size();
      const double left = !first ? here - centres[order[r - 1]] : last ? here : 0;
      const double right = !last ? centres[order[r + 1]] - here : first ? 1 - here : 0;
      widths[order[r]] = std::clamp(std::max(left, right), least, 1.);
    }
    return widths;
  }

  const SearchSpace& space_;
  std::span<const size_t> chosen_;
  std::vector<double> weights_;                                   // of kernels, the wide one last
  std::vector<std::vector<double>> centres_, widths_, log_mass_;  // [dimension][kernel]
};

std::optional<Proposal> ask_in_order(const Question& question, const SamplerOptions& options,
                                     std::span<const SearchTrial* const> order) {
  if (int64_t(order.size()) < options.start) return ask_random(question, options);
  Draws draws(question.seed, question.number);
  Values values(question.space.size());
  std::vector<size_t> all(values.size());
  std::iota(all.begin(), all.end(), 0);
  if (!options.independent) draw_by_parzen(question, order, all, draws, values);
  else
    for (size_t d : all) draw_by_parzen(question, order, std::array{d}, draws, values);
  return Proposal{values};
}

}  // namespace

void draw_by_parzen(const Question& question, std::span<const SearchTrial* const> order,
                    std::span<const size_t> chosen, Draws& draws, Values& values) {
  const size_t good = good_of(order.size());
  std::vector<const SearchTrial*> first(order.begin(), order.begin() + ptrdiff_t(good));
  std::vector<const SearchTrial*> rest(order.begin() + ptrdiff_t(good), order.end());
  for (const SearchTrial& trial : question.trials)
    if (trial.ended == 0) rest.push_back(&trial);
  const Mixture likely(question.space, chosen, first), others(question.space, chosen, rest);
  std::vector<double> best;
  double most = -std::numeric_limits<double>::infinity();
  for (int c = 0; c < kCandidates; ++c) {
    std::vector<double> point = likely.draw(draws);
    // judged where it will be: whole numbers in the middle of their cells
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Dimension& d = question.space.dimensions()[chosen[i]];
      if (d.kind == Dimension::Kind::integer) point[i] = d.to_unit(d.from_unit(point[i]));
    }
    const double ratio = likely.log_density(point) - others.log_density(point);
    if (ratio > most || best.empty()) most = ratio, best = std::move(point);
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Dimension& d = question.space.dimensions()[chosen[i]];
    values[chosen[i]] = d.kind == Dimension::Kind::choice ? best[i] : d.from_unit(best[i]);
  }
}

std::optional<Proposal> ask_tpe(const Question& question, const SamplerOptions& options) {
  return ask_in_order(question, options, by_score(question.trials));
}

std::optional<Proposal> ask_pareto(const Question& question, const SamplerOptions& options) {
  return ask_in_order(question, options, by_pareto(question.trials));
}

}  // namespace maglev::search
