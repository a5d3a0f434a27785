#include "base/core/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/core/words.h"

namespace maglev {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// as people mean it: in lower case, words joined by underscores
std::string folded(std::string_view name) {
  std::string text = lower_case(name);
  std::ranges::replace(text, '-', '_');
  return text;
}

// the last part of a dotted name, so that 'lr' finds 'ppo.lr'
std::string_view leaf(std::string_view name) {
  size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

}  // namespace

bool same_leaf(std::string_view a, std::string_view b) { return leaf(a) == leaf(b); }

std::vector<std::string> near_names(std::string_view given, const std::vector<std::string>& known,
                                    size_t most) {
  const std::string name = folded(given);
  std::vector<std::pair<size_t, std::string>> scored;
  for (const auto& one : known) {
    const std::string k = folded(one);
    size_t d = edit_distance(name, k);
    // the same leaf under another section counts as one edit
    if (same_leaf(name, k)) d = std::min<size_t>(d, 1);
    size_t limit = std::max<size_t>(2, std::max(name.size(), k.size()) / 3);
    bool contains = name.size() >= 3 && k.find(name) != std::string::npos;
    if (d <= limit || contains) scored.emplace_back(contains ? std::min<size_t>(d, 2) : d, one);
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < scored.size() && i < most; ++i) names.push_back(scored[i].second);
  return names;
}

std::string unknown_name(std::string_view kind, std::string_view name,
                         const std::vector<std::string>& known) {
  const std::string text = "unknown " + std::string(kind) + " '" + std::string(name) + "'";
  const auto near = near_names(name, known);
  return text + (near.empty() ? "; known: " + joined(known) : did_you_mean(near));
}

void assert_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "maglev: internal error at %s:%d: %s (%s)\n", file, line, why, condition);
  std::abort();
}

}  // namespace maglev
