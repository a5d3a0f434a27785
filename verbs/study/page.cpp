#include "verbs/study/page.h"

#include <filesystem>

#include "base/core/file.h"
#include "base/core/markup.h"

namespace maglev::verbs::study {
namespace {

// light and dark as the reader has it; figures keep their white ground
constexpr const char* kStyle =
    "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;"
    "background:#fff}table{border-collapse:collapse;font-size:.9rem;display:block;overflow-x:auto}"
    "td,th{padding:.25rem .6rem;border-bottom:1px solid #8884;text-align:left}"
    "td{white-space:nowrap}.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".words td:last-child{white-space:normal;min-width:18rem}pre{background:#8882;padding:.6rem;"
    "overflow-x:auto}figure{margin:1.5rem 0;overflow-x:auto}svg{max-width:100%;min-width:30rem;"
    "height:auto}figcaption{font-size:.9rem}@media(prefers-color-scheme:dark){body{color:#ddd;"
    "background:#181c22}}";

struct AsMarkdown {
  const std::string& prefix;

  std::string operator()(const Heading& p) const { return "## " + p.text + "\n\n"; }
  std::string operator()(const Paragraph& p) const { return p.text + "\n\n"; }
  std::string operator()(const Bullets& p) const {
    std::string out;
    for (const auto& item : p.items) out += "- " + item + "\n";
    return out + "\n";
  }
  std::string operator()(const CommandLine& p) const { return "    " + p.text + "\n\n"; }
  std::string operator()(const ReportTable& p) const {
    std::string out, rule;
    for (size_t c = 0; c < p.headings.size(); ++c) {
      out += "| " + p.headings[c] + " ";
      rule += c == 0 || p.words ? "|---" : "|---:";
    }
    out += "|\n" + rule + "|\n";
    for (const auto& row : p.rows) {
      for (const auto& cell : row) out += "| " + cell + " ";
      out += "|\n";
    }
    return out + "\n";
  }
  std::string operator()(const Figure& p) const {
    return "![" + p.caption + "](" + prefix + p.name + ".svg)\n\n" + p.caption + "\n\n";
  }
};

struct AsHtml {
  std::string operator()(const Heading& p) const { return "<h2>" + escaped(p.text) + "</h2>\n"; }
  std::string operator()(const Paragraph& p) const { return "<p>" + escaped(p.text) + "</p>\n"; }
  std::string operator()(const Bullets& p) const {
    std::string out = "<ul>\n";
    for (const auto& item : p.items) out += "<li>" + escaped(item) + "</li>\n";
    return out + "</ul>\n";
  }
  std::string operator()(const CommandLine& p) const {
    return "<pre>" + escaped(p.text) + "</pre>\n";
  }
  std::string operator()(const ReportTable& p) const {
    std::string out = p.words ? "<table class=\"words\">\n<tr>" : "<table>\n<tr>";
    const auto cell = [&](size_t c, const std::string& text, const std::string& kind) {
      return "<" + kind + (c == 0 || p.words ? ">" : " class=\"n\">") + escaped(text) + "</" +
             kind + ">";
    };
    for (size_t c = 0; c < p.headings.size(); ++c) out += cell(c, p.headings[c], "th");
    out += "</tr>\n";
    for (const auto& row : p.rows) {
      out += "<tr>";
      for (size_t c = 0; c < row.size(); ++c) out += cell(c, row[c], "td");
      out += "</tr>\n";
    }
    return out + "</table>\n";
  }
  std::string operator()(const Figure& p) const {
    return "<figure>\n" + p.svg + "<figcaption>" + escaped(p.caption) +
           "</figcaption>\n</figure>\n";
  }
};

}  // namespace

std::string markdown(const Page& page, const std::string& prefix) {
  std::string out = "# " + page.title + "\n\n";
  for (const auto& part : page.parts) out += std::visit(AsMarkdown{prefix}, part);
  out.pop_back();
  return out;
}

std::string html(const Page& page) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      escaped(page.title) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" +
      escaped(page.title) + "</h1>\n";
  for (const auto& part : page.parts) out += std::visit(AsHtml{}, part);
  return out + "</body>\n</html>\n";
}

void write_markdown(const Page& page, const std::string& stem) {
  make_dirs(parent_of(stem));
  const std::string prefix = stem + "_";
  for (const auto& part : page.parts)
    if (const auto* figure = std::get_if<Figure>(&part))
      write_atomic(prefix + figure->name + ".svg", figure->svg);
  write_atomic(stem + ".md", markdown(page, std::filesystem::path(prefix).filename().string()));
}

}  // namespace maglev::verbs::study
