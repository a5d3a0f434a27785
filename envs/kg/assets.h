#pragma once
// What all proving environments of a run read: the graph as it is searched, every triple that is
// known to be true, the queries that are asked, and which constants may stand in a false one. One
// block of bytes without pointers.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/options.h"
#include "base/core/error.h"
#include "base/core/split.h"
#include "base/datalog/graph.h"
#include "base/datalog/vectors.h"

namespace maglev::kg {

enum class Split : int32_t { train, valid, test };
constexpr auto names_of(Split) { return std::array{"train", "valid", "test"}; }

/// Successors of a state where the settings name no number: at most this many.
constexpr int32_t kMostSuccessors = 256;

struct Assets {
  int32_t successors;  ///< that a state has room for, the end action's among them
  int32_t queries;     ///< that are asked

  MAGLEV_HD const datalog::Knowledge& knowledge() const {
    return *part<datalog::Knowledge>(knowledge_);
  }
  /// Facts and the queries of all splits, as facts.
  MAGLEV_HD const datalog::Knowledge& truths() const { return *part<datalog::Knowledge>(truths_); }
  /// i in [0, queries).
  MAGLEV_HD const datalog::Atom& query(int32_t i) const { return part<datalog::Atom>(query_)[i]; }
  /// Constants that may be a predicate's second argument, for `domain`; none: any constant may.
  MAGLEV_HD datalog::Range domain_of(int32_t predicate) const {
    const int32_t* begin = part<int32_t>(domain_begin_);
    return {begin[predicate - 1], begin[predicate]};
  }
  MAGLEV_HD int32_t domain(int32_t i) const { return part<int32_t>(domain_)[i]; }

  int32_t dim;  ///< D complex numbers of a constant or predicate; 0: there are no vectors
  /// Real parts [D] of an id's vector, then imaginary ones.
  MAGLEV_HD const float* constant_vector(int32_t id) const {
    return part<float>(constant_vectors_) + int64_t(id - 1) * 2 * dim;
  }
  MAGLEV_HD const float* predicate_vector(int32_t id) const {
    return part<float>(predicate_vectors_) + int64_t(id - 1) * 2 * dim;
  }

  // bytes from this struct
  int64_t knowledge_, truths_, query_, domain_begin_, domain_, constant_vectors_,
      predicate_vectors_;
  int64_t bytes_;  ///< all of it

  template <class T>
  MAGLEV_HD const T* part(int64_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(this) + offset);
  }
};

/// Depths of queries from the first to the last.
struct DepthRange {
  int32_t first, last;
};
/// Of a list such as "1-3,5"; brackets may stand around it. Throws SettingError on another.
inline std::vector<DepthRange> depth_ranges(std::string_view list) {
  const auto wrong = [&] {
    return SettingError({.setting = "env.depths",
                         .must = "a list of depths such as 1-3 or 1,2",
                         .got = "'" + std::string(list) + "'"});
  };
  std::string_view body = list;
  if (body.starts_with('[') && body.ends_with(']')) body = body.substr(1, body.size() - 2);
  std::vector<DepthRange> ranges;
  for (const std::string& part : split_list(body, "env.depths")) {
    DepthRange range{};
    const char *begin = part.data(), *end = begin + part.size();
    while (begin != end && *begin == ' ') ++begin;
    auto read = std::from_chars(begin, end, range.first);
    range.last = range.first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-')
      read = std::from_chars(read.ptr + 1, end, range.last);
    if (read.ec != std::errc() || read.ptr != end || range.first < 0 || range.last < range.first)
      throw wrong();
    ranges.push_back(range);
  }
  return ranges;
}

/// Which queries are asked.
struct Selection {
  Split split;
  bool with_rules;          ///< those alone whose predicate is the head of a rule
  std::string_view depths;  ///< those alone of these depths, as depth_ranges() has them; empty: all
};
/// Throws Error where there is none, or nobody said how deep they are.
inline std::vector<datalog::Atom> queries_of(const datalog::Graph& graph, const Selection& asked) {
  const datalog::Dataset& data = graph.dataset;
  const bool train = asked.split == Split::train, valid = asked.split == Split::valid;
  const auto& all = train ? data.train : valid ? data.valid : data.test;
  const auto& depths = train ? data.train_depth : valid ? data.valid_depth : data.test_depth;
  const std::vector<DepthRange> wanted = depth_ranges(asked.depths);
  const std::string split = name_of(asked.split);
  if (!wanted.empty() && depths.empty())
    throw Error("[kg] nobody said how deep the " + split + " queries of " + data.name +
                " are, of which env.depths=" + std::string(asked.depths) +
                " asks some; `maglev prove " + (data.folder.empty() ? data.name : data.folder) +
                " --queries " + split +
                " --exclude-query --out DIR` finds it for env.data=DIR, or leave env.depths empty");
  std::vector<datalog::Atom> queries;
  for (size_t q = 0; q < all.size(); ++q) {
    const auto holds = [&](const DepthRange& r) {
      return r.first <= depths[q] && depths[q] <= r.last;
    };
    if (asked.with_rules && graph.knowledge->rules_of(all[q].predicate).size() == 0) continue;
    if (wanted.empty() || std::any_of(wanted.begin(), wanted.end(), holds))
      queries.push_back(all[q]);
  }
  if (queries.empty()) {
    const char* what = !wanted.empty() ? "; `maglev kg stats` counts them by depth"
                       : asked.with_rules
                           ? " whose predicate is the head of a rule; give rules in a rules.txt "
                             "beside it, which `maglev kg mine` finds, or set "
                             "env.only_with_rules=false"
                           : "; choose another env.split";
    throw Error("[kg] " + data.name + " has no " + split + " query" +
                (wanted.empty() ? "" : " of depth " + std::string(asked.depths)) + what);
  }
  return queries;
}

/// Where the parts of the assets lie.
inline Assets assets_layout(const datalog::Graph& graph, size_t queries,
                            const datalog::Vectors& vectors = {}) {
  Assets a{};
  int64_t end = sizeof(Assets);
  const auto place = [&](int64_t& part, int64_t bytes) {
    part = (end + 63) / 64 * 64;
    end = part + bytes;
  };
  int64_t domains = 0;
  for (const auto& domain : graph.dataset.domains) domains += int64_t(domain.size());
  place(a.knowledge_, graph.knowledge->bytes_);
  place(a.truths_, graph.truths->bytes_);
  place(a.query_, int64_t(queries * sizeof(datalog::Atom)));
  place(a.domain_begin_, 4 * (graph.knowledge->predicates + 1));
  place(a.domain_, 4 * domains);
  place(a.constant_vectors_, 4 * int64_t(vectors.constants.size()));
  place(a.predicate_vectors_, 4 * int64_t(vectors.predicates.size()));
  a.bytes_ = end;
  return a;
}

/// Successors that states have room for: `asked`, or, where that is 0, as many as any goal with a
/// constant has, and one to stop.
inline int32_t successors_of(const datalog::Graph& graph, int32_t asked) {
  if (asked > 0) return asked;
  return std::clamp(graph.knowledge->bound_fan_out + 1, 2, kMostSuccessors);
}

/// Writes them to zeroed memory.
inline void make_assets(const datalog::Graph& graph, const std::vector<datalog::Atom>& queries,
                        int32_t successors, Assets& a, const datalog::Vectors& vectors = {}) {
  a = assets_layout(graph, queries.size(), vectors);
  a.successors = successors, a.queries = int32_t(queries.size()), a.dim = int32_t(vectors.dim);
  auto* const bytes = reinterpret_cast<std::byte*>(&a);
  std::memcpy(bytes + a.knowledge_, &*graph.knowledge, size_t(graph.knowledge->bytes_));
  std::memcpy(bytes + a.truths_, &*graph.truths, size_t(graph.truths->bytes_));
  std::memcpy(bytes + a.query_, queries.data(), queries.size() * sizeof(datalog::Atom));
  std::memcpy(bytes + a.constant_vectors_, vectors.constants.data(), 4 * vectors.constants.size());
  std::memcpy(bytes + a.predicate_vectors_, vectors.predicates.data(),
              4 * vectors.predicates.size());
  auto* begin = reinterpret_cast<int32_t*>(bytes + a.domain_begin_);
  auto* domain = reinterpret_cast<int32_t*>(bytes + a.domain_);
  const auto& domains = graph.dataset.domains;
  for (size_t i = 0; i < size_t(graph.knowledge->predicates); ++i) {
    begin[i + 1] = begin[i];
    if (i < domains.size())
      for (int32_t constant : domains[i]) domain[begin[i + 1]++] = constant;
  }
}

}  // namespace maglev::kg
