#pragma once
// A report once, as Markdown and as one self-contained HTML file.

#include <string>
#include <variant>
#include <vector>

namespace maglev::verbs::study {

struct Heading {
  std::string text;
};
struct Paragraph {
  std::string text;
};
struct Bullets {
  std::vector<std::string> items;
};
/// A command, as it is.
struct CommandLine {
  std::string text;
};
/// The first column is left-aligned, the others right unless `words`.
struct ReportTable {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
  bool words = false;
};
struct Figure {
  std::string name;  ///< of its file in Markdown: <prefix><name>.svg
  std::string svg;
  std::string caption;
};

using PagePart = std::variant<Heading, Paragraph, Bullets, CommandLine, ReportTable, Figure>;

struct Page {
  std::string title;
  std::vector<PagePart> parts;
};

/// Figures are named `prefix` + name + .svg.
std::string markdown(const Page& page, const std::string& prefix);
std::string html(const Page& page);
/// Writes `stem`.md, and its figures as `stem`_<figure>.svg. Throws Error.
void write_markdown(const Page& page, const std::string& stem);

}  // namespace maglev::verbs::study
