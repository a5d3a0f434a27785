#include "base/search/space.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/config/other_names.h"
#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/split.h"

namespace maglev::search {
namespace {

using Kind = Dimension::Kind;

constexpr double kTwo = std::numbers::ln2;
// a name alone: whole numbers of a range no wider than this are all searched
constexpr double kFewNumbers = 64;
// others as far from what they are now: numbers, whole ones, and these where they are powers of two
constexpr double kAround = 10, kAroundWhole = 4, kAroundPower = 8;
// and from here on whole numbers are sizes, which are powers of two where they are one now
constexpr double kLeastPower = 8;
// shares from here on, such as discounts, are searched by how much is missing to 1
constexpr double kNearOne = 0.9;

// the ends of the stretch that [0, 1] stands for: half a unit beyond whole numbers, half a power
// beyond those of two
struct Stretch {
  double low, high;
};
Stretch stretch_of(const Dimension& d) {
  if (d.powers) return {std::log(d.low) - 0.5 * kTwo, std::log(d.high) + 0.5 * kTwo};
  const double half = d.kind == Kind::integer ? 0.5 : 0;
  const double low = d.low - half, high = d.high + half;
  return d.log ? Stretch{std::log(low), std::log(high)} : Stretch{low, high};
}

std::string shortest(double value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

bool is_power(double value) {
  return value >= 1 && std::exp2(std::round(std::log2(value))) == value;
}

// without what a division left behind the sixth digit
double rounded(double value) {
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, 6);
  std::from_chars(buffer, end.ptr, value);
  return value;
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
    d.powers = text.substr(colon) == ":pow2";
    if (text.substr(colon) != ":log" && !d.powers)
      refuse(setting.name,
             "a range ends in :log, :pow2 or in nothing, got '" + std::string(text) + "'");
    d.log = true;
    text = text.substr(0, colon);
  }
  const size_t dots = text.find("..");
  // 1e-4...1e-2 would be read as up to .1e-2
  if (text.substr(dots + 2).starts_with('.'))
    refuse(setting.name, "has two dots between low and high, got '" + std::string(text) + "'");
  d.low = bound(text.substr(0, dots), setting), d.high = bound(text.substr(dots + 2), setting);
  if (d.low >= d.high)
    refuse(setting.name, "low must lie below high, got '" + std::string(text) + "'");
  if (d.log && d.low <= 0)
    refuse(setting.name, "has no logarithm at " + shortest(d.low) + "; begin above 0");
  if (d.powers && (d.kind != Kind::integer || !is_power(d.low) || !is_power(d.high)))
    refuse(setting.name,
           "ends in :pow2, which is for whole numbers from one power of two to "
           "another, e.g. 64..1024:pow2; got '" +
               std::string(text) + "'");
  return d;
}

[[noreturn]] void refuse_alone(const Setting& s) {
  const bool bounded = std::isfinite(s.high);
  refuse(s.name,
         (std::isnan(s.now) ? "" : "is " + shortest(s.now) + " now, and ") +
             (bounded ? "may be up to " + shortest(s.high) : "has no range of its own") +
             ", which tells nothing of where to search; say " + s.name +
             (s.kind == Kind::integer ? "=0,16,64,256 or such, or low..high, with :pow2 for "
                                        "powers of two"
                                      : "=low..high, with :log for its logarithm"));
}

// whole numbers around what the setting is now
Dimension around_whole(const Setting& s) {
  Dimension d{.name = s.name, .kind = s.kind, .log = true};
  d.powers = s.now >= kLeastPower && is_power(s.now);
  const double by = d.powers ? kAroundPower : kAroundWhole;
  d.low = std::max({1., s.low, std::ceil(s.now / by)}), d.high = std::min(s.high, s.now * by);
  // ends that the setting itself has
  if (d.powers) d.low = std::exp2(std::ceil(std::log2(d.low)));
  if (d.powers) d.high = std::exp2(std::floor(std::log2(d.high)));
  return d;
}

// what a name alone means. What the option table allows is no place to search: it refuses what
// cannot be, such as a learning rate of 11 or a layer of a million units
Dimension own_range(const Setting& setting) {
  if (setting.kind == Kind::choice) {
    if (setting.choices.size() < 2)
      refuse(setting.name, "wants its values: " + setting.name +
                               "=a,b,c, each in brackets where it is a list: [64,64],[256,256]");
    return {.name = setting.name, .kind = Kind::choice, .choices = setting.choices};
  }
  const double low = setting.low, high = setting.high, now = setting.now;
  const bool bounded = std::isfinite(low) && std::isfinite(high);
  Dimension d{.name = setting.name, .kind = setting.kind, .low = low, .high = high};
  if (setting.kind == Kind::integer) {
    if (bounded && high - low <= kFewNumbers) return d;
    if (now > 0 && now < high) return around_whole(setting);
    refuse_alone(setting);
  }
  const bool share = low == 0 && high == 1;
  if (share && now >= kNearOne && now < 1) {
    d.low = std::max(0., rounded(1 - kAround * (1 - now)));
    return d;
  }
  // numbers of both signs and shares that are 0 have a range that is one to search, and so has what
  // is not far from its end
  if (bounded && (low < 0 || (share && now == 0) || now * kAround >= high)) return d;
  if (!(now > 0 && now < high)) refuse_alone(setting);
  d.low = std::max(low, rounded(now / kAround)), d.high = std::min(high, rounded(now * kAround));
  d.log = true;
  return d;
}

// the parts between commas; those within brackets part nothing, for a list is one value
std::vector<std::string> values_of(std::string_view text, const std::string& name) {
  constexpr char kWithin = '\n';
  std::string apart(text);
  int depth = 0;
  for (char& c : apart) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth > 0) c = kWithin;
  }
  std::vector<std::string> values = split_list(apart, "--space " + name);
  for (std::string& value : values) std::ranges::replace(value, kWithin, ',');
  return values;
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
  if (powers) value = std::exp2(std::round(std::log2(value)));
  else if (kind == Kind::integer) value = std::round(value);
  return std::clamp(value, low, high);
}

double Dimension::cell(double value) const {
  if (kind == Kind::real) return 0;
  if (kind == Kind::choice) return 1 / double(choices.size());
  const Stretch s = stretch_of(*this);
  if (powers) return kTwo / (s.high - s.low);
  const double width = log ? std::log(value + 0.5) - std::log(value - 0.5) : 1;
  return width / (s.high - s.low);
}

std::string Dimension::text(double value) const {
  if (kind == Kind::choice) return choices[size_t(value)];
  if (kind == Kind::integer) return std::to_string(int64_t(value));
  return shortest(value);
}

std::string Dimension::brief(double value) const {
  return kind == Kind::real ? printed("%.4g", value) : text(value);
}

std::string Dimension::written() const {
  std::string list = name + "=";
  for (const std::string& choice : choices) list += (&choice == &choices[0] ? "" : ",") + choice;
  if (kind == Kind::choice) return list;
  return list + text(low) + ".." + text(high) + (powers ? ":pow2" : log ? ":log" : "");
}

void SearchSpace::add(Dimension dimension) {
  for (const Dimension& d : dimensions_)
    if (d.name == dimension.name) refuse(d.name, "is given twice");
  dimensions_.push_back(std::move(dimension));
}

std::string SearchSpace::written() const {
  std::string list;
  for (const Dimension& d : dimensions_) list += (list.empty() ? "" : " ") + d.written();
  return list;
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
  if (equals == text.npos) return own_range(setting);
  const std::string_view values = text.substr(equals + 1);
  if (values.find("..") != values.npos) return range_of(values, setting);
  // values by name: what each may be is the setting's own to say
  Dimension d{
      .name = setting.name, .kind = Kind::choice, .choices = values_of(values, setting.name)};
  // those without choices or numbers are texts and lists
  const bool listed = setting.kind == Kind::choice && setting.choices.empty();
  if (listed && d.choices.size() < 2 && values.starts_with('['))
    refuse(setting.name,
           "searches among several values, each in brackets, such as "
           "[64,64],[256,256], got one, " +
               std::string(values) + "; one is given without --space");
  if (d.choices.size() < 2)
    refuse(setting.name, "expects low..high, low..high:log, low..high:pow2 or a,b,c, got '" +
                             std::string(values) + "'");
  for (const std::string& choice : d.choices)
    if (std::ranges::count(d.choices, choice) > 1)
      refuse(setting.name,
             "'" + choice + "' is given twice" +
                 (listed ? "; a value that is a list stands in brackets: [64,64],[256,256]" : ""));
  return d;
}

}  // namespace maglev::search
