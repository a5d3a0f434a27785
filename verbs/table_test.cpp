#include "verbs/table.h"

#include <gtest/gtest.h>

namespace maglev {
namespace {

Table fruit() {
  Table table({"name", ">count", "about"});
  table.add({"apple", "5", "grows on trees and is eaten in many countries"});
  table.add({"fig", "1200", "sweet"});
  return table;
}

TEST(Table, aligns_columns_and_wraps_nothing_in_a_file) {
  EXPECT_EQ(fruit().text({.live = false, .columns = 20}),
            "name   count  about\n"
            "apple      5  grows on trees and is eaten in many countries\n"
            "fig     1200  sweet\n");
}

TEST(Table, wraps_the_last_column_where_the_terminal_ends) {
  EXPECT_EQ(fruit().text({.live = true, .columns = 40}),
            "name   count  about\n"
            "apple      5  grows on trees and is\n"
            "              eaten in many countries\n"
            "fig     1200  sweet\n");
}

TEST(Table, puts_the_last_column_below_where_there_is_no_room_beside) {
  EXPECT_EQ(fruit().text({.live = true, .columns = 32}),
            "name   count  \n"
            "    about\n"
            "apple      5  \n"
            "    grows on trees and is eaten\n"
            "    in many countries\n"
            "fig     1200  \n"
            "    sweet\n");
}

TEST(Table, a_last_column_that_fits_stays_beside) {
  Table table({"operation", ">calls", ">share"});
  table.add({"a name of some length", "1200", "41.2 %"});
  EXPECT_EQ(table.text({.live = true, .columns = 40}),
            "operation              calls   share\n"
            "a name of some length   1200  41.2 %\n");
}

TEST(Table, rows_may_be_printed_one_by_one_where_widths_are_told_before) {
  Table table({"check", ">took", "what"});
  table.widen({"a longer name", "12345", ""});
  table.add({"short", "1", "sound"});
  const std::string first = table.text({});
  EXPECT_EQ(first, "check           took  what\nshort              1  sound\n");
  table.add({"a longer name", "12345", "sound too"});
  EXPECT_EQ(table.text({}).substr(0, first.size()), first);
}

TEST(Table, a_word_longer_than_the_line_stands_alone) {
  EXPECT_EQ(wrapped("a longwordindeed b c", 4),
            (std::vector<std::string>{"a", "longwordindeed", "b c"}));
  EXPECT_EQ(wrapped("", 4), std::vector<std::string>{""});
}

}  // namespace
}  // namespace maglev
