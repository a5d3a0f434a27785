#pragma once
// What the terminal can show, and lines of coloured text whose width is known. No cursor control:
// who draws in place owns that.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace maglev {

struct Terminal {
  bool live = false;     ///< a terminal that can redraw in place; false: a file, a pipe, TERM=dumb
  bool colour = false;   ///< ANSI colours may be written
  bool unicode = false;  ///< the locale is UTF-8
  int columns = 80, rows = 24;
};

/// What the decision rests on, so that it can be tested without a terminal.
struct TerminalFacts {
  bool is_tty = false;
  int columns = 0, rows = 0;  ///< as TIOCGWINSZ says; 0: unknown
  /// An environment variable, null when unset. Read: TERM, NO_COLOR, CLICOLOR_FORCE, LC_ALL,
  /// LC_CTYPE, LANG, COLUMNS, LINES.
  std::function<const char*(const char*)> variable;
};

/// NO_COLOR (not empty) forbids colours; CLICOLOR_FORCE (not empty, not 0) allows them where there
/// is no terminal.
Terminal terminal_from(const TerminalFacts& facts);
/// The terminal behind a file descriptor, as it is now. Cheap: read it again before each drawing
/// and no signal for a changed size is needed.
Terminal probe_terminal(int fd);

/// Columns the UTF-8 text takes: 0 for combining marks and control characters, 2 for wide East
/// Asian characters and emoji. A byte that is not UTF-8 counts as one.
int display_width(std::string_view text);
/// The text cut to at most `columns`; what is cut ends in an ellipsis ("..." where there is no
/// unicode). Control characters become spaces.
std::string fit(std::string_view text, int columns, bool unicode);

/// The text broken at spaces into lines of at most `columns`; a longer word stands alone.
std::vector<std::string> wrapped(const std::string& text, int columns);

/// Colours of the terminal's own palette, so that they suit its background.
enum class Ink { plain, bold, dim, red, green, yellow, blue, magenta, cyan };

/// One line of spans. Never holds escape sequences or line ends until it is written out.
class Line {
 public:
  Line& add(std::string_view text, Ink ink = Ink::plain);
  /// Appends spaces until the line is `columns` wide; nothing when it is already.
  Line& pad_to(int columns);
  Line& add(const Line& other);

  int width() const { return width_; }
  /// Cut to at most `columns`.
  Line fitted(int columns, bool unicode) const;
  /// The text, with colours or without.
  std::string text(bool colour) const;

 private:
  struct Span {
    std::string text;
    Ink ink;
  };
  std::vector<Span> spans_;
  int width_ = 0;
};

}  // namespace maglev
