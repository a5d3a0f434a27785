#pragma once
// Settings with choices are enums: their members' names are written once, beside the enum, and
// text is compared with them in one place (options.cpp).
//
//   enum class Optimizer { adam, muon };
//   constexpr auto names_of(Optimizer) { return std::array{"adam", "muon"}; }
//
// A std::optional of one has one name more: "auto", for none; OnOff is on, off or auto. Whoever
// reads it says what auto means: value_or.

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <vector>

namespace maglev {

/// An enum whose members count from 0 in the order of the names that names_of gives.
template <class E>
concept Choice = std::is_enum_v<E> && requires(E member) { names_of(member).size(); };

/// The member's name: static storage.
template <Choice E>
constexpr const char* name_of(E member) {
  return names_of(member)[size_t(member)];
}

/// On, off, or auto. Only a bool becomes one: text, which std::optional<bool> takes for true, does
/// not compile.
class OnOff {
 public:
  constexpr OnOff() = default;  ///< auto
  template <std::same_as<bool> Bool>
  constexpr OnOff(Bool on) : on_(on) {}

  constexpr bool value_or(bool automatic) const { return on_.value_or(automatic); }
  constexpr bool operator==(const OnOff&) const = default;

 private:
  std::optional<bool> on_;
};

/// A member of an options struct whose values have names, its type forgotten.
struct ChoiceMember {
  void* member;
  std::vector<const char*> names;
  size_t (*index)(const void* member);              ///< of its present value's name
  void (*assign)(void* member, size_t name_index);  ///< the value of that name
};

template <Choice E>
ChoiceMember choice_member(E& member) {
  constexpr auto names = names_of(E{});
  return {.member = &member,
          .names = {names.begin(), names.end()},
          .index = [](const void* m) { return size_t(*static_cast<const E*>(m)); },
          .assign = [](void* m, size_t i) { *static_cast<E*>(m) = E(i); }};
}

template <Choice E>
ChoiceMember choice_member(std::optional<E>& member) {
  constexpr auto names = names_of(E{});
  ChoiceMember choice{.member = &member,
                      .names = {"auto"},
                      .index =
                          [](const void* m) {
                            const auto& value = *static_cast<const std::optional<E>*>(m);
                            return value ? size_t(*value) + 1 : 0;
                          },
                      .assign =
                          [](void* m, size_t i) {
                            *static_cast<std::optional<E>*>(m) =
                                i ? std::optional(E(i - 1)) : std::nullopt;
                          }};
  choice.names.insert(choice.names.end(), names.begin(), names.end());
  return choice;
}

inline ChoiceMember choice_member(OnOff& member) {
  return {
      .member = &member,
      .names = {"auto", "on", "off"},
      .index = [](const void* m) -> size_t {
        const auto& value = *static_cast<const OnOff*>(m);
        return value == OnOff() ? 0 : value.value_or(false) ? 1 : 2;
      },
      .assign = [](void* m, size_t i) { *static_cast<OnOff*>(m) = i ? OnOff(i == 1) : OnOff(); }};
}

}  // namespace maglev
