#include "base/env/check_spec.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/core/error.h"
#include "base/env/env.h"

namespace maglev {
namespace {

void check_column(const ObsColumn& column, const std::string& where) {
  const std::string name = "the column '" + column.name + "'";
  if (column.row_bytes() <= 0)
    throw Error(where + name + " holds nothing: each number of its shape must be 1 at least");
  if (column.cells.bits == 0) return;
  int64_t cells = 1;
  for (int64_t d : column.cells.grid) cells *= d;
  const int64_t bytes = (cells * column.cells.bits + 7) / 8;
  if (column.dtype != DType::u8 || column.elements() != bytes)
    throw Error(where + name + " of " + std::to_string(cells) + " cells of " +
                std::to_string(column.cells.bits) + " bits must be u8 of shape {" +
                std::to_string(bytes) + "}");
  const size_t palette = size_t(column.cells.channels) << column.cells.bits;
  if (column.cells.policy.size() != palette ||
      (!column.cells.critic.empty() && column.cells.critic.size() != palette))
    throw Error(where + name + " needs palettes of " + std::to_string(palette) +
                " numbers, its channels for each code");
}

void check_action(const ActionSpec& action, const std::string& where) {
  if (action.low.size() != action.high.size())
    throw Error(where + "actions need as many upper bounds as lower ones, got " +
                std::to_string(action.high.size()) + " and " + std::to_string(action.low.size()));
  if (action.heads.empty() == action.low.empty())
    throw Error(where + "actions are either categories (heads) or within bounds (low, high), got " +
                (action.heads.empty() ? "neither" : "both"));
  for (const int64_t categories : action.heads)
    if (categories < 2)
      throw Error(where + "a head of actions has two categories at least, got " +
                  std::to_string(categories));
  for (size_t i = 0; i < action.low.size(); ++i)
    if (!(action.low[i] < action.high[i]))
      throw Error(where + "bounds of action " + std::to_string(i) + " are no range, got " +
                  std::to_string(action.low[i]) + " to " + std::to_string(action.high[i]));
  if (action.masked && !action.discrete())
    throw Error(where + "a mask is of categories; actions within bounds have none");
  if (action.names.empty()) return;
  if (int64_t(action.names.size()) != action.categories())
    throw Error(where + "names are of each category or of none: expected " +
                std::to_string(action.categories()) + ", got " +
                std::to_string(action.names.size()));
  for (int64_t head = 0; head < action.dims(); ++head) {
    std::set<std::string> names;
    for (int64_t k = 0; k < action.heads[size_t(head)]; ++k)
      if (const std::string name = action.name(head, k); name.empty() || !names.insert(name).second)
        throw Error(where + "categories of a head have names of their own, got '" + name +
                    "' for category " + std::to_string(k));
  }
}

}  // namespace

void check_spec(const EnvSpec& spec, const char* env) {
  const std::string where = "[" + std::string(env) + "] its spec: ";
  if (spec.observations.empty()) throw Error(where + "an environment shows one column at least");
  if (spec.observations.size() > size_t(kMaxObsColumns))
    throw Error(where + "at most " + std::to_string(kMaxObsColumns) +
                " columns of observations, got " + std::to_string(spec.observations.size()) +
                "; let columns of one kind lie in one");
  std::set<std::string> names;
  bool shown = false;
  for (const ObsColumn& column : spec.observations) {
    if (!names.insert(column.name).second)
      throw Error(where + "two columns are called '" + column.name + "'");
    check_column(column, where);
    shown |= column.audience == Audience::both;
  }
  if (!shown) throw Error(where + "the policy sees nothing: every column is the critic's");
  if (spec.events.size() > size_t(kMaxEvents))
    throw Error(where + "at most " + std::to_string(kMaxEvents) + " events are counted, got " +
                std::to_string(spec.events.size()));
  const auto counted = [&](int32_t k) { return k >= 0 && size_t(k) < spec.events.size(); };
  // an evaluation has figures of these names
  std::set<std::string> told{"return_mean", "return_std", "length_mean", "score"};
  told.insert(spec.events.begin(), spec.events.end());
  for (const EventShare& share : spec.shares) {
    if (share.name.empty() || !told.insert(share.name).second)
      throw Error(where + "a share of events has a name of its own, got '" + share.name + "'");
    if (!counted(share.event) || share.of.empty() || !std::ranges::all_of(share.of, counted))
      throw Error(where + "share '" + share.name + "' is of events by their places, 0 to " +
                  std::to_string(int64_t(spec.events.size()) - 1));
  }
  if (spec.agents < 1 || spec.agents > kMaxAgents)
    throw Error(where + "an environment has 1 to " + std::to_string(kMaxAgents) + " agents, got " +
                std::to_string(spec.agents));
  check_action(spec.action, where);
}

}  // namespace maglev
