"""Which queries of a knowledge graph are provable, by SWI-Prolog: swipl_proofs.py FOLDER SPLITS DEPTH [exclude] [plain].

FOLDER is a data set of Prolog text (train.txt, .., rules.txt), as `maglev kg make` writes. Facts and rules become clauses
of one predicate each, indexed by SWI-Prolog; steps are counted as `maglev prove` counts them: one for a rule, one for a
fact that binds a variable, none for a ground atom that is a fact. What rules prove of a call within a budget of steps is
tabled with the least steps (answer subsumption); `plain` leaves the tables out. Budgets are deepened, so that what has a
short proof is done soon. With `exclude` a query
that is a fact is retracted while it is asked, and its tables are abolished. Prints a JSON line: seconds of answering
alone, and the steps of every query, -1 for none.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ATOM = re.compile(r"""\s*('(?:[^'\\]|\\.|'')*'|[^\s(),'"%]+)\(\s*('(?:[^'\\]|\\.|'')*'|[^\s(),'"%]+)\s*,\s*('(?:[^'\\]|\\.|'')*'|[^\s(),'"%]+)\s*\)""")

PROGRAM = """
:- set_prolog_flag(stack_limit, 4_000_000_000).
% the least steps of a ground query, or -1; a fact takes one
steps(A, _, 1) :- is_fact(A), !.
steps(A, Depth, S) :- by_rules(A, Depth, S0), !, S = S0.
steps(_, _, -1).

answer(Depth, I, S) :-
    query(I, A, Fact),
    ( exclude, Fact \\== none -> retract(Fact), forget, steps(A, Depth, S), assertz(Fact), forget
    ; steps(A, Depth, S) ).

main(Depth) :-
    garbage_collect,
    get_time(Begin),
    findall(S, answer(Depth, _, S), All),
    get_time(End),
    Seconds is End - Begin,
    atomic_list_concat(All, ',', Text),
    format('{"seconds": ~6f, "steps": [~w]}~n', [Seconds, Text]).
"""


def name(text: str, variables: bool) -> str:
    if text.startswith("'"):
        return text
    if variables and re.match(r"[A-Z_]", text):
        return text
    return "'" + text + "'"


def atoms(text: str, variables: bool = False) -> list:
    """(predicate, first, second) of a line, as Prolog writes them; predicates without quotes."""
    found = ATOM.findall(text.split("%")[0])
    return [(p.strip("'"), name(a, variables), name(b, variables)) for p, a, b in found]


def lines(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if line.strip() and not line.startswith("%")]


def program(folder: Path, splits: list[str], exclude: bool, tabled: bool) -> str:
    source = folder / "facts.txt"
    facts = [atoms(line)[0] for line in lines(source if source.exists() else folder / "train.txt")]
    rules = [atoms(line.split("::")[-1], variables=True) for line in lines(folder / "rules.txt")]
    queries = [atoms(line)[0] for split in splits for line in lines(folder / f"{split}.txt")]
    predicates = sorted({a[0] for a in facts + queries} | {a[0] for rule in rules for a in rule})

    def fact(a) -> str:
        return f"'f {a[0]}'({a[1]},{a[2]})"

    out = [":- style_check(-singleton).", ":- style_check(-discontiguous)."]
    for p in predicates:
        out.append(f":- dynamic 'f {p}'/2.")
        # by rules: 'r p'(First, Second, Budget, Steps)
        out.append(f":- table 'r {p}'(_,_,_,min)." if tabled else f":- discontiguous 'r {p}'/4.")
        # a call of a body; a ground one has one answer, and without tables the least is looked for first
        ground = f"'r {p}'(X,Y,B,S)" if tabled else f"between(1,B,N), 'r {p}'(X,Y,N,S) -> true"
        out.append(
            f"'c {p}'(X,Y,B,S) :- ( nonvar(X), nonvar(Y) -> ( 'f {p}'(X,Y) -> S = 0 ; {ground} ) "
            f"; B > 0, ( 'f {p}'(X,Y), S = 1 ; 'r {p}'(X,Y,B,S), \\+ 'f {p}'(X,Y) ) )."
        )
    for (p, a, b), *body in rules:
        calls, left = ["B > 0", "B0 is B-1"], "B0"
        for i, (q, c, d) in enumerate(body):
            calls.append(f"'c {q}'({c},{d},{left},S{i})")
            calls += [f"B{i + 1} is {left}-S{i}", f"B{i + 1} >= 0"]
            left = f"B{i + 1}"
        calls.append(f"S is B-{left}")
        out.append(f"'r {p}'({a},{b},B,S) :- {', '.join(calls)}.")
    heads = {rule[0][0] for rule in rules}
    out += [f"'r {p}'(_,_,_,_) :- fail." for p in predicates if p not in heads]
    out += [f"{fact(a)}." for a in dict.fromkeys(facts)]
    for p in predicates:
        out.append(f"is_fact(q('{p}',A,B)) :- 'f {p}'(A,B).")
        out.append(f"by_rules(q('{p}',A,B),D,S) :- between(1,D,N), 'r {p}'(A,B,N,S).")
    known = set(facts)
    for i, a in enumerate(queries):
        out.append(f"query({i},q('{a[0]}',{a[1]},{a[2]}),{fact(a) if a in known else 'none'}).")
    out.append("exclude." if exclude else "exclude :- fail.")
    out.append("forget :- abolish_all_tables." if tabled else "forget.")
    return "\n".join(out) + PROGRAM


def main() -> int:
    folder, splits, depth = Path(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])
    options = sys.argv[4:]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "proofs.pl"
        file.write_text(program(folder, splits, "exclude" in options, "plain" not in options))
        command = ["swipl", "-O", "-q", "-g", f"main({depth})", "-t", "halt", file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or done.stderr.strip():
        print(done.stderr, file=sys.stderr)
        return 1
    report = json.loads(done.stdout)
    count = len(report["steps"])
    print(json.dumps({"queries": count, "queries_per_second": count / report["seconds"], **report}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
