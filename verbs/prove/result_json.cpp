#include "verbs/prove/result_json.h"

#include <nlohmann/json.hpp>

namespace maglev::verbs::prove {
namespace {

using ProofJson = nlohmann::ordered_json;

ProofJson node_json(const datalog::Program& program, const datalog::Proof& proof, int32_t i) {
  const datalog::ProofNode& node = proof.tree[size_t(i)];
  ProofJson json{{"atom", datalog::to_text(program, node.atom)}};
  if (node.rule < 0) {
    json["fact"] = true;
    return json;
  }
  const datalog::Rule& rule = program.rules[size_t(node.rule)];
  json["rule"] = datalog::to_text(program, rule);
  json["rule_number"] = node.rule + 1;
  json["confidence"] = rule.confidence;
  json["substitution"] = ProofJson::object();
  for (size_t v = 0; v < rule.variables.size(); ++v)
    json["substitution"][rule.variables[v]] = program.constants.of(node.substitution[v]);
  json["body"] = ProofJson::array();
  for (int32_t child : node.body) json["body"].push_back(node_json(program, proof, child));
  return json;
}

ProofJson step_json(const datalog::Program& program, const datalog::Proof& proof,
                    const datalog::ProofStep& step) {
  const int32_t constants = program.constants.size();
  const auto term = [&](int32_t t) {
    return t <= constants ? program.constants.of(t) : "_" + std::to_string(t - constants);
  };
  ProofJson json{{"goal", ProofJson::array()}};
  for (const datalog::Atom& atom : step.goal)
    json["goal"].push_back(datalog::to_text(program, atom));
  const datalog::ProofNode& node = proof.tree[size_t(step.node)];
  if (node.rule < 0) json["fact"] = datalog::to_text(program, node.atom);
  else json["rule"] = datalog::to_text(program, program.rules[size_t(node.rule)]);
  json["bindings"] = ProofJson::object();
  for (const datalog::Binding& b : step.bindings) json["bindings"][term(b.variable)] = term(b.term);
  json["struck_out"] = ProofJson::array();
  for (int32_t struck : step.struck)
    json["struck_out"].push_back(datalog::to_text(program, proof.tree[size_t(struck)].atom));
  return json;
}

}  // namespace

std::string result_json(const Result& result) {
  const datalog::Program& program = result.data->program;
  const datalog::SearchReport& r = result.report;
  ProofJson json{{"data", result.data->name},
                 {"query", query_text(result)},
                 {"proved", !result.proofs.empty()},
                 {"answers", ProofJson::array()},
                 {"more", result.more}};
  for (const datalog::Proof& proof : result.proofs) {
    ProofJson steps = ProofJson::array();
    for (const datalog::ProofStep& step : proof.steps)
      steps.push_back(step_json(program, proof, step));
    json["answers"].push_back({{"atom", datalog::to_text(program, proof.answer)},
                               {"steps", proof.steps.size()},
                               {"tree", node_json(program, proof, 0)},
                               {"derivation", steps}});
  }
  ProofJson dead_ends = ProofJson::array();
  for (const datalog::DeadEnd& end : r.dead_ends)
    dead_ends.push_back({{"atom", datalog::to_text(program, end.atom)}, {"times", end.times}});
  json["reasons"] = reasons_of(result);
  json["search"] = {{"strategy", names_of(result.kind)[size_t(result.kind)]},
                    {"ended", names_of(r.ended)[size_t(r.ended)]},
                    {"goals", r.goals},
                    {"children", r.children},
                    {"repeated", r.repeated},
                    {"too_deep", r.too_deep},
                    {"too_long", r.too_long},
                    {"off_beam", r.off_beam},
                    {"dead_ends", dead_ends},
                    {"other_dead_ends", r.other_dead_ends},
                    {"seconds", result.seconds}};
  return json.dump(2, ' ', false, ProofJson::error_handler_t::replace) + "\n";
}

}  // namespace maglev::verbs::prove
