#pragma once
// What a search chooses from: settings as dimensions, each a stretch of [0, 1] in which it is
// searched evenly, and the words people write them in.

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace maglev::search {

/// One setting and the values it may take.
struct Dimension {
  enum class Kind { real, integer, choice };

  std::string name;
  Kind kind = Kind::real;
  double low = 0, high = 1;  ///< both within; of an integer: whole numbers
  bool log = false;          ///< searched by its logarithm; low > 0
  /// Of an integer: none but powers of two, each as wide as the others; both ends are.
  bool powers = false;
  std::vector<std::string> choices = {};

  /// Where `value` lies in [0, 1]: a whole number in the middle of its cell, cells alike in width
  /// or, by logarithm, as far as half a unit beyond. A choice's value is its index.
  double to_unit(double value) const;
  /// The value at `unit` in [0, 1].
  double from_unit(double unit) const;
  /// How wide a whole number's or a choice's cell is around `value`; 0 of a real one.
  double cell(double value) const;
  /// As a setting's value; reads back to the same number.
  std::string text(double value) const;
  /// The same for people: four digits of a real number.
  std::string brief(double value) const;
  /// As people write it, and parse_dimension reads: "ppo.lr=1e-05..0.01:log".
  std::string written() const;
};

/// A value of each dimension; of a choice its index.
using Values = std::vector<double>;

class SearchSpace {
 public:
  /// Throws Error where a name comes twice.
  void add(Dimension dimension);

  const std::vector<Dimension>& dimensions() const { return dimensions_; }
  size_t size() const { return dimensions_.size(); }
  /// All as people write them, a space between two.
  std::string written() const;
  Values from_units(const std::vector<double>& units) const;
  std::vector<double> to_units(const Values& values) const;

 private:
  std::vector<Dimension> dimensions_;
};

/// What is known of a setting: what its values are, the range that the option table allows, and what
/// it is where nothing is searched.
struct Setting {
  std::string name;
  Dimension::Kind kind = Dimension::Kind::real;
  double low, high;  ///< infinite: open
  std::vector<std::string> choices = {};
  double now = std::numeric_limits<double>::quiet_NaN();  ///< of a number
};

/// "ppo.lr=1e-5..1e-2:log", "ppo.epochs=1..10", "ppo.minibatch=64..1024:pow2" (powers of two),
/// "ppo.optimizer=adam,muon" (commas within brackets part nothing), or the name alone: all of a
/// setting's choices or of a narrow range, else numbers around what it is now, by their logarithm,
/// and powers of two where that is one. Throws Error that names the setting, what was expected and
/// what came; an unknown name is answered with near ones.
Dimension parse_dimension(std::string_view text, const std::vector<Setting>& known);

}  // namespace maglev::search
