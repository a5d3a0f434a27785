#include "verbs/prove/tree_text.h"

#include "verbs/table.h"

namespace maglev::verbs::prove {
namespace {

struct Branches {
  const char *go_on, *last, *beside, *below;
};
constexpr Branches kBoxes{"├─ ", "└─ ", "│  ", "   "}, kPlain{"|- ", "`- ", "|  ", "   "};

class Tree {
 public:
  Tree(const datalog::Program& program, const datalog::Proof& proof, const Terminal& terminal)
      : program_(program),
        proof_(proof),
        terminal_(terminal),
        branches_(terminal.unicode ? kBoxes : kPlain) {}

  std::string text() {
    add(0, "", "");
    return std::move(text_);
  }

 private:
  /// `before` stands before the node's own line, `below` before those under it.
  void add(int32_t i, const std::string& before, const std::string& below) {
    const datalog::ProofNode& node = proof_.tree[size_t(i)];
    maglev::Line line;
    line.add(before, Ink::dim);
    line.add(datalog::to_text(program_, node.atom), node.rule < 0 ? Ink::green : Ink::bold);
    if (node.rule < 0) {
      line.add("  fact", Ink::dim);
    } else {
      line.add("  by ", Ink::dim);
      line.add(rule_text(program_, node.rule), Ink::cyan);
      line.add("  " + bindings_text(program_, node), Ink::dim);
    }
    text_ += line.text(terminal_.colour) + "\n";
    for (size_t b = 0; b < node.body.size(); ++b) {
      const bool last = b + 1 == node.body.size();
      add(node.body[b], below + (last ? branches_.last : branches_.go_on),
          below + (last ? branches_.below : branches_.beside));
    }
  }

  const datalog::Program& program_;
  const datalog::Proof& proof_;
  const Terminal& terminal_;
  const Branches& branches_;
  std::string text_;
};

}  // namespace

std::string result_text(const Result& result, bool trees, const Terminal& terminal) {
  const datalog::Program& program = result.data->program;
  const bool proved = !result.proofs.empty(), open = !result.query.variables.empty();
  maglev::Line heading;
  heading.add(query_text(result) + ": ", Ink::bold);
  heading.add(outcome_text(result), proved ? Ink::green : Ink::red);
  std::string text = heading.text(terminal.colour) + "\n";

  if (proved && (trees || !open)) {
    for (const datalog::Proof& proof : result.proofs)
      text += "\n" + Tree(program, proof, terminal).text();
  } else if (proved) {
    Table table({"answer", ">steps", "by"});
    for (const datalog::Proof& proof : result.proofs) {
      const int32_t rule = proof.tree[0].rule;
      table.add({substitution_text(program, result.query, proof.answer),
                 std::to_string(proof.steps.size()),
                 rule < 0 ? "a fact" : rule_text(program, rule)});
    }
    text += "\n" + table.text(terminal);
  }
  for (const std::string& reason : reasons_of(result)) text += "  " + reason + "\n";
  maglev::Line effort;
  effort.add(effort_text(result), Ink::dim);
  return text + "\n" + effort.text(terminal.colour) + "\n";
}

}  // namespace maglev::verbs::prove
