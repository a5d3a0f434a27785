#include "verbs/prove/page.h"

#include <algorithm>

#include "base/core/markup.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"

namespace maglev::verbs::prove {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page: #fbfbfa; --ink: #1d2126; --quiet: #5f6771; --line: #b9c0c8;
  --rule: #ffffff; --rule-edge: #4a6fa5; --fact: #e9f4ea; --fact-edge: #3d8a4b; --bad: #b3372f; }
@media (prefers-color-scheme: dark) { :root { --page: #16191d; --ink: #e4e7ea; --quiet: #98a1ab;
  --line: #4a525b; --rule: #1f242a; --rule-edge: #7aa2dc; --fact: #1b2d20; --fact-edge: #6cbf7b;
  --bad: #ef8279; } }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1.2rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font: 600 1.5rem/1.3 ui-monospace, monospace; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font: 600 1.05rem/1.3 ui-monospace, monospace; margin: 2rem 0 .6rem; }
.quiet { color: var(--quiet); } .bad { color: var(--bad); }
.drawing { overflow-x: auto; padding: 1rem 0 .5rem; }
svg { display: block; margin: 0 auto; }
svg text { font: 12px ui-monospace, monospace; fill: var(--quiet); }
svg .atom { font-weight: 600; font-size: 14px; fill: var(--ink); }
svg rect { fill: var(--rule); stroke: var(--rule-edge); } svg .fact { fill: var(--fact);
  stroke: var(--fact-edge); } svg path { fill: none; stroke: var(--line); stroke-width: 1.5; }
summary { cursor: pointer; color: var(--quiet); }
.table { overflow-x: auto; } table { border-collapse: collapse; font: 13px/1.5 ui-monospace, monospace; }
th { font: 600 13px system-ui, sans-serif; } th, td { text-align: left; vertical-align: top;
  padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }
)";

/// A tree from the top down: a box a node, the subtrees of its body side by side below it.
class Drawing {
 public:
  Drawing(const datalog::Program& program, const datalog::Proof& proof)
      : program_(program), proof_(proof), boxes_(proof.tree.size()) {
    measure(0);
    place(0, 0, 0);
  }

  std::string svg() const {
    std::string edges, nodes;
    for (size_t i = 0; i < boxes_.size(); ++i) {
      const Box& box = boxes_[i];
      for (int32_t child : proof_.tree[i].body) edges += edge(box, boxes_[size_t(child)]);
      nodes += node(proof_.tree[i], box);
    }
    const int width = boxes_[0].span + 2, height = bottom_ + 2;
    return "<svg role=\"img\" aria-label=\"proof tree\" width=\"" + std::to_string(width) +
           "\" height=\"" + std::to_string(height) + "\" viewBox=\"-1 -1 " + std::to_string(width) +
           " " + std::to_string(height) + "\">\n" + edges + nodes + "</svg>\n";
  }

 private:
  static constexpr int kGap = 18, kFall = 46, kPad = 12;  // pixels

  struct Box {
    std::vector<std::string> lines;  ///< the atom first
    int width = 0, height = 0;
    int span = 0;      ///< of the whole subtree
    int below = 0;     ///< of the subtrees below it
    int x = 0, y = 0;  ///< of its upper left corner
  };

  // a node's words, its size and its subtree's width
  void measure(int32_t i) {
    const datalog::ProofNode& node = proof_.tree[size_t(i)];
    Box& box = boxes_[size_t(i)];
    box.lines = {datalog::to_text(program_, node.atom)};
    if (node.rule >= 0) {
      box.lines.push_back(rule_text(program_, node.rule));
      if (!node.substitution.empty()) box.lines.push_back(bindings_text(program_, node));
    }
    // widths of 14 and 12 pixel monospace, on the safe side
    for (size_t l = 0; l < box.lines.size(); ++l)
      box.width = std::max(box.width, display_width(box.lines[l]) * (l ? 15 : 18) / 2);
    box.width += 2 * kPad;
    box.height = 18 * int(box.lines.size()) + kPad;
    for (size_t b = 0; b < node.body.size(); ++b) {
      measure(node.body[b]);
      box.below += boxes_[size_t(node.body[b])].span + (b ? kGap : 0);
    }
    box.span = std::max(box.width, box.below);
  }

  void place(int32_t i, int left, int top) {
    Box& box = boxes_[size_t(i)];
    box.x = left + (box.span - box.width) / 2, box.y = top;
    bottom_ = std::max(bottom_, top + box.height);
    int x = left + (box.span - box.below) / 2;
    for (int32_t child : proof_.tree[size_t(i)].body) {
      place(child, x, top + box.height + kFall);
      x += boxes_[size_t(child)].span + kGap;
    }
  }

  static std::string edge(const Box& from, const Box& to) {
    const std::string x0 = std::to_string(from.x + from.width / 2),
                      y0 = std::to_string(from.y + from.height),
                      x1 = std::to_string(to.x + to.width / 2), y1 = std::to_string(to.y),
                      half = std::to_string((from.y + from.height + to.y) / 2);
    return "<path d=\"M" + x0 + " " + y0 + " C" + x0 + " " + half + " " + x1 + " " + half + " " +
           x1 + " " + y1 + "\"/>\n";
  }

  static std::string node(const datalog::ProofNode& node, const Box& box) {
    std::string text =
        "<g transform=\"translate(" + std::to_string(box.x) + " " + std::to_string(box.y) +
        ")\"><rect" + (node.rule < 0 ? " class=\"fact\"" : "") + " rx=\"7\" width=\"" +
        std::to_string(box.width) + "\" height=\"" + std::to_string(box.height) + "\"/>";
    for (size_t l = 0; l < box.lines.size(); ++l)
      text += std::string("<text text-anchor=\"middle\"") + (l ? "" : " class=\"atom\"") + " x=\"" +
              std::to_string(box.width / 2) + "\" y=\"" + std::to_string(19 + 18 * int(l)) + "\">" +
              escaped(box.lines[l]) + "</text>";
    return text + "</g>\n";
  }

  const datalog::Program& program_;
  const datalog::Proof& proof_;
  std::vector<Box> boxes_;
  int bottom_ = 0;
};

std::string derivation(const datalog::Program& program, const datalog::Proof& proof) {
  std::string text =
      "<details><summary>the derivation, step by step</summary>\n<div class=\"table\"><table>"
      "<tr><th>step</th><th>goal, the first atom is resolved</th><th>with</th>"
      "<th>facts struck out</th></tr>\n";
  for (size_t s = 0; s < proof.steps.size(); ++s) {
    const datalog::ProofStep& step = proof.steps[s];
    const datalog::ProofNode& node = proof.tree[size_t(step.node)];
    text += "<tr><td>" + std::to_string(s + 1) + "</td><td>";
    for (const datalog::Atom& atom : step.goal)
      text += escaped(datalog::to_text(program, atom)) + "<br>";
    text += "</td><td>" +
            escaped(node.rule < 0 ? "fact " + datalog::to_text(program, node.atom)
                                  : rule_text(program, node.rule)) +
            "</td><td>";
    for (int32_t struck : step.struck)
      text += escaped(datalog::to_text(program, proof.tree[size_t(struck)].atom)) + "<br>";
    text += "</td></tr>\n";
  }
  return text + "</table></div></details>\n";
}

}  // namespace

std::string result_page(const Result& result) {
  const datalog::Program& program = result.data->program;
  const std::string query = escaped(query_text(result));
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      query + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + query +
      "</h1>\n<div" + (result.proofs.empty() ? " class=\"bad\"" : "") + ">" +
      escaped(outcome_text(result)) + "</div>\n<div class=\"quiet\">" + escaped(result.data->name) +
      ", " + counted(int64_t(program.facts.size()), "fact") + ", " +
      counted(int64_t(program.rules.size()), "rule") + "; " + escaped(effort_text(result)) +
      "</div>\n";
  const std::vector<std::string> reasons = reasons_of(result);
  if (!reasons.empty()) {
    page += "<ul>\n";
    for (const std::string& reason : reasons) page += "<li>" + escaped(reason) + "</li>\n";
    page += "</ul>\n";
  }
  for (const datalog::Proof& proof : result.proofs) {
    if (!result.query.variables.empty())
      page += "<h2>" + escaped(substitution_text(program, result.query, proof.answer)) + "</h2>\n";
    page += "<div class=\"drawing\">\n" + Drawing(program, proof).svg() + "</div>\n" +
            derivation(program, proof);
  }
  return page + "</body>\n</html>\n";
}

}  // namespace maglev::verbs::prove
