#include "base/search/space.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/config/other_names.h"
#include "base/core/error.h"
#include "base/core/split.h"

namespace maglev::search {
namespace {

using Kind = Dimension::Kind;

// the ends of the stretch that [0, 1] stands for: half a unit beyond whole numbers
struct Stretch {
  double low, high;
};
Stretch stretch_of(const Dimension& d) {
  const double half = d.kind == Kind::integer ? 0.5 : 0;
  const double low = d.low - half, high = d.high + half;
  return d.log ? Stretch{std::log(low), std::log(high)} : Stretch{low, high};
}

std::string shortest(double value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

[[noreturn]] void refuse(std::string_view name, const std::string& what) {
  throw Error("[--space " + std::string(name) + "] " + what);
}

const Setting& find_setting(std::string_view name, const std::vector<Setting>& known) {
  std::vector<std::string> names;
  for (const Setting& setting : known) {
    if (setting.name == name) return setting;
    names.push_back(setting.name);
  }
  throw Error("[--space] " + unknown_setting(name, names));
}

double bound(std::string_view text, const Setting& setting) {
  const auto value = number_of(text);
  if (!value) refuse(setting.name, "expects numbers, low..high, got '" + std::string(text) + "'");
  if (setting.kind == Kind::integer && *value != std::floor(*value))
    refuse(setting.name, "is a whole number, got '" + std::string(text) + "'");
  if (*value < setting.low || *value > setting.high)
    refuse(setting.name, "must lie in [" + shortest(setting.low) + ", " + shortest(setting.high) +
                             "], got " + std::string(text));
  return *value;
}

Dimension range_of(std::string_view text, const Setting& setting) {
  Dimension d{.name = setting.name, .kind = setting.kind};
  if (setting.kind == Kind::choice)
    refuse(setting.name, "has names for values, separated by commas; it has no range");
  if (const size_t colon = text.find(':'); colon != text.npos) {
    if (text.substr(colon) != ":log")
      refuse(setting.name, "a range ends in :log or in nothing, got '" + std::string(text) + "'");
    d.log = true;
    text = text.substr(0, colon);
  }
  const size_t dots = text.find("..");
  d.low = bound(text.substr(0, dots), setting), d.high = bound(text.substr(dots + 2), setting);
  if (d.low >= d.high)
    refuse(setting.name, "low must lie below high, got '" + std::string(text) + "'");
  if (d.log && d.low <= 0)
    refuse(setting.name, "has no logarithm at " + shortest(d.low) + "; begin above 0");
  return d;
}

// the range of the option table
Dimension whole_range(const Setting& setting) {
  if (setting.kind == Kind::choice) {
    if (setting.choices.size() < 2) refuse(setting.name, "wants its values: NAME=a,b,c");
    return {.name = setting.name, .kind = Kind::choice, .choices = setting.choices};
  }
  if (!std::isfinite(setting.low) || !std::isfinite(setting.high))
    refuse(setting.name, "has no range of its own; say NAME=low..high");
  return {.name = setting.name, .kind = setting.kind, .low = setting.low, .high = setting.high};
}

}  // namespace

double Dimension::to_unit(double value) const {
  if (kind == Kind::choice) return (value + 0.5) / double(choices.size());
  const Stretch s = stretch_of(*this);
  return ((log ? std::log(value) : value) - s.low) / (s.high - s.low);
}

double Dimension::from_unit(double unit) const {
  unit = std::clamp(unit, 0., 1.);
  if (kind == Kind::choice)
    return std::min(std::floor(unit * double(choices.size())), double(choices.size() - 1));
  const Stretch s = stretch_of(*this);
  double value = s.low + unit * (s.high - s.low);
  if (log) value = std::exp(value);
  if (kind == Kind::integer) value = std::round(value);
  return std::clamp(value, low, high);
}

double Dimension::cell(double value) const {
  if (kind == Kind::real) return 0;
  if (kind == Kind::choice) return 1 / double(choices.size());
  const Stretch s = stretch_of(*this);
  const double width = log ? std::log(value + 0.5) - std::log(value - 0.5) : 1;
  return width / (s.high - s.low);
}

std::string Dimension::text(double value) const {
  if (kind == Kind::choice) return choices[size_t(value)];
  if (kind == Kind::integer) return std::to_string(int64_t(value));
  return shortest(value);
}

void SearchSpace::add(Dimension dimension) {
  for (const Dimension& d : dimensions_)
    if (d.name == dimension.name) refuse(d.name, "is given twice");
  dimensions_.push_back(std::move(dimension));
}

Values SearchSpace::from_units(const std::vector<double>& units) const {
  Values values(size());
  for (size_t d = 0; d < size(); ++d) values[d] = dimensions_[d].from_unit(units[d]);
  return values;
}

std::vector<double> SearchSpace::to_units(const Values& values) const {
  std::vector<double> units(size());
  for (size_t d = 0; d < size(); ++d) units[d] = dimensions_[d].to_unit(values[d]);
  return units;
}

Dimension parse_dimension(std::string_view text, const std::vector<Setting>& known) {
  const size_t equals = text.find('=');
  const Setting& setting = find_setting(text.substr(0, equals), known);
  if (equals == text.npos) return whole_range(setting);
  const std::string_view values = text.substr(equals + 1);
  if (values.find("..") != values.npos) return range_of(values, setting);
  // values by name: what each may be is the setting's own to say
  Dimension d{.name = setting.name,
              .kind = Kind::choice,
              .choices = split_list(values, "--space " + setting.name)};
  if (d.choices.size() < 2)
    refuse(setting.name,
           "expects low..high, low..high:log or a,b,c, got '" + std::string(values) + "'");
  for (const std::string& choice : d.choices)
    if (std::ranges::count(d.choices, choice) > 1)
      refuse(setting.name, "'" + choice + "' is given twice");
  return d;
}

}  // namespace maglev::search
