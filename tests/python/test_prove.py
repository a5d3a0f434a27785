"""maglev prove: trees, answers, reasons, mistakes; and SWI-Prolog as a second opinion where it is installed."""

import html.parser
import json
import random
import shutil
import subprocess

import pytest

FACTS = """brother(carl,dora). brother(emil,carl).
mother(dora,bob). mother(dora,'Zoe B'). father(carl,finn).
"""
RULES = """uncle(X,Y) :- brother(X,Z), mother(Z,Y).
uncle(X,Y) :- brother(X,Z), father(Z,Y).
kin(X,Y) :- uncle(X,Y).
kin(X,Y) :- kin(Y,X).
lost(X,Y) :- ghost(X,Y).
ghost(X,Y) :- lost(X,Y).
"""


def write(folder, facts=FACTS, rules=RULES, test="uncle(carl,bob).\nuncle(bob,carl).\nmother(dora,bob).\n"):
    folder.mkdir(exist_ok=True)
    one_a_line = "\n".join(f"{atom}." for atom in facts.replace("\n", " ").split(". ") if atom.strip())
    (folder / "train.txt").write_text(one_a_line.replace("..", ".") + "\n")
    (folder / "valid.txt").write_text("")
    (folder / "test.txt").write_text(test)
    (folder / "rules.txt").write_text(rules)
    return folder


@pytest.fixture
def family(tmp_path):
    return write(tmp_path / "small")


SEARCHES = ("breadth", "deepening", "beam")


@pytest.mark.parametrize("search", SEARCHES)
def test_a_proof_is_a_tree_of_rules_and_facts(engine, family, search):
    done = engine("prove", family, "kin(bob, carl)", "--search", search, env={"LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr
    assert "kin(bob,carl): proved in 4 steps" in done.stdout
    tree = [line for line in done.stdout.splitlines() if "─" in line or line.startswith(" ")]
    assert tree[0].startswith("└─ kin(carl,bob)  by kin(X,Y) :- uncle(X,Y).  X = carl, Y = bob")
    assert tree[1].startswith("   └─ uncle(carl,bob)  by uncle(X,Y) :- brother(X,Z), mother(Z,Y).")
    assert tree[2:4] == ["      ├─ brother(carl,dora)  fact", "      └─ mother(dora,bob)  fact"]
    # without unicode the same in plain signs, without a terminal no colours
    plain = engine("prove", family, "kin(bob, carl)", env={"LC_ALL": "C"}).stdout
    assert "`- kin(carl,bob)" in plain and plain.isascii() and "\x1b" not in plain


def test_json_has_the_tree_the_derivation_and_what_was_searched(engine, family):
    done = engine("prove", family, "uncle(emil, finn)", "--json")
    report = json.loads(done.stdout)
    assert report["proved"] and not report["more"] and report["reasons"] == []
    (answer,) = report["answers"]
    assert answer["tree"]["substitution"] == {"X": "emil", "Y": "finn", "Z": "carl"}
    assert [b["atom"] for b in answer["tree"]["body"]] == ["brother(emil,carl)", "father(carl,finn)"]
    rule, fact = answer["derivation"]
    assert rule["goal"] == ["uncle(emil,finn)"] and rule["rule"].startswith("uncle(X,Y)")
    assert fact["fact"] == "brother(emil,carl)" and fact["struck_out"] == ["father(carl,finn)"]
    assert answer["steps"] == 2
    assert report["search"]["strategy"] == "breadth" and report["search"]["goals"] >= 2


@pytest.mark.parametrize("search", SEARCHES)
def test_variables_enumerate_answers_each_once(engine, family, search):
    def answers(query, *flags):
        done = engine("prove", family, query, "--json", "--search", search, *flags)
        report = json.loads(done.stdout)
        return [answer["atom"] for answer in report["answers"]], report["more"]

    assert answers("uncle(carl, X)") == (["uncle(carl,'Zoe B')", "uncle(carl,bob)"], False)
    assert answers("uncle(X, finn)") == (["uncle(emil,finn)"], False)
    everyone, _ = answers("uncle(A, B)")
    bound, _ = answers("uncle(A, B)", "--select", "bound")
    assert sorted(bound) == sorted(everyone)
    assert sorted(everyone) == ["uncle(carl,'Zoe B')", "uncle(carl,bob)", "uncle(emil,finn)"]
    assert answers("uncle(A, B)", "--most", 2) == (everyone[:2], True)
    assert answers("uncle(A, A)") == ([], False)
    assert sorted(answers("uncle(_, _)")[0]) == sorted(everyone)
    table = engine("prove", family, "uncle(carl, Who)").stdout
    assert "Who = bob" in table and "2 answers" in table
    assert engine("prove", family, "uncle(carl, Who)", "--trees").stdout.count("fact") == 4


def test_a_failure_says_why(engine, family):
    def reason(query, *flags):
        done = engine("prove", family, query, *flags)
        assert done.returncode == 1, done.stderr
        assert f"{query.replace(' ', '')}: no proof" in done.stdout
        return done.stdout

    text = reason("uncle(bob, carl)")
    assert "all that facts and rules make of the query was searched" in text
    assert "no fact and no rule for brother(bob,_1) (2 times)" in text
    assert "at the depth limit of 3 steps (--depth)" in reason("kin(bob, carl)", "--depth", 3)
    assert "the search ended at 3 children (--nodes)" in reason("kin(bob, carl)", "--nodes", 3)
    assert "after 1e-09 s (--seconds)" in reason("kin(bob, carl)", "--seconds", "1e-9")
    assert "fell off the beam of 1 (--width)" in reason("kin(bob, finn)", "--search", "beam", "--width", 1)
    # rules in a circle come to an end; a fact does not prove itself when it is not to be one
    for search in SEARCHES:
        assert "was searched" in reason("lost(bob, carl)", "--search", search)
    assert engine("prove", family, "mother(dora, bob)").returncode == 0
    reason("mother(dora, bob)", "--exclude-query")


def test_mistakes_say_where_and_what_is_near(engine, family, tmp_path):
    def complaint(*words):
        done = engine("prove", *words)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    assert "[query:1:1] unknown predicate 'uncel'; did you mean uncle?" in complaint(family, "uncel(carl, bob)")
    assert "[query:1:7] unknown constant 'kral'" in complaint(family, "uncle(kral, bob)")
    assert "did you mean carl?" in complaint(family, "uncle(crl, bob)")
    far = complaint(family, "uncle(qqqqqqqqqqqq, bob)")
    assert "the graph has 6, none with a name near it; there are Zoe B" in far
    assert "[query:1:1] predicate uncle with 3 arguments" in complaint(family, "uncle(carl, bob, finn)")
    assert "[query:1:11] expected" in complaint(family, "uncle(carl")
    assert "one atom" in complaint(family, "uncle(carl, bob), kin(carl, bob)")
    assert "expected a query" in complaint(family)
    assert "got both" in complaint(family, "uncle(carl, bob)", "--queries", "test")
    assert "--exclude-query wants a query without variables, got uncle(carl,X)" in complaint(
        family, "uncle(carl, X)", "--exclude-query"
    )
    wrong = complaint(family, "uncle(carl, X)", "--seconds", "soon")
    assert "--seconds must be a number above 0 and at most 1e+09" in wrong
    assert "unknown split 'tset'; did you mean test" in complaint(family, "--queries", "tset")
    assert "small has no query in valid" in complaint(family, "--queries", "valid")
    assert "--width goes with --search beam" in complaint(family, "uncle(carl, X)", "--width", 3)
    assert "threads=N goes with --queries" in complaint(family, "uncle(carl, X)", "threads=3")
    assert "--most goes with a query" in complaint(family, "--queries", "test", "--most", 3)
    assert "nowhere" in complaint("nowhere", "p(a,b)")
    unsafe = write(tmp_path / "unsafe", rules="uncle(X,Y) :- brother(X,Z).\n")
    assert "rules.txt:1:" in complaint(unsafe, "uncle(carl, bob)")


def test_one_bad_line_in_a_million_is_named(engine, family):
    lines = [f"knows(n{i % 5000},n{i // 5000})." for i in range(1_000_000)]
    lines[700_000] = "knows(n1 n2)."
    (family / "train.txt").write_text("\n".join(lines) + "\n")
    done = engine("prove", family, "knows(n1, n2)")
    assert done.returncode == 2 and "train.txt:700001:10]" in done.stderr, done.stderr
    lines[700_000] = "knows(n1,n2)."
    (family / "train.txt").write_text("\n".join(lines) + "\n")
    (family / "rules.txt").write_text("")
    (family / "test.txt").write_text("")
    assert engine("prove", family, "knows(n4999, n199)").returncode == 0


def test_the_page_is_whole_and_asks_nobody(engine, family, tmp_path):
    page = tmp_path / "proof.html"
    done = engine("prove", family, "kin(bob, X)", "--html", page)
    assert done.returncode == 0 and f"a page of it: {page}" in done.stdout + done.stderr
    text = page.read_text()
    open_tags, seen = [], []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            seen.append((tag, dict(attributes)))
            if tag not in ("meta", "br", "!doctype"):
                open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

        def handle_startendtag(self, tag, attributes):
            seen.append((tag, dict(attributes)))

    Reader().feed(text)
    assert open_tags == []
    tags = [tag for tag, _ in seen]
    assert tags.count("svg") == 1 and tags.count("rect") == 5 and tags.count("path") == 4
    assert not {"script", "link", "img", "iframe"} & set(tags)
    assert not [a for _, a in seen if "src" in a or "href" in a] and "url(" not in text
    assert "prefers-color-scheme: dark" in text
    assert "uncle(X,Y) :- brother(X,Z), mother(Z,Y)." in text


def test_all_queries_are_counted_by_steps(engine, family):
    done = engine("prove", family, "--queries", "test", "--depth", 4)
    assert done.returncode == 0, done.stderr
    assert "small, test: 2 of 3 queries are provable in at most 4 steps" in done.stdout
    # of mother no rule tells, of uncle one
    assert "1 more may need more steps: --depth 5\n" in done.stdout
    steps = dict(json.loads(engine("prove", family, "--queries", "test", "--json").stdout)["steps"])
    assert steps == {"uncle(carl,bob)": 2, "uncle(bob,carl)": -1, "mother(dora,bob)": 1}
    report = json.loads(engine("prove", family, "--queries", "test", "--json", "threads=1").stdout)
    assert dict(report["steps"]) == steps and report["threads"] == 1
    report = json.loads(engine("prove", family, "--queries", "test", "--json", "--exclude-query").stdout)
    assert dict(report["steps"])["mother(dora,bob)"] == -1


ORACLE = """
:- style_check(-singleton). :- style_check(-discontiguous).
:- dynamic fact/3, rule/4.
known(A, E) :- ground(A), A \\== E, call_fact(A).
call_fact(a(P, X, Y)) :- fact(P, X, Y).
strike([], _, []).
strike([A|T], E, R) :- known(A, E), !, strike(T, E, R).
strike([A|T], E, [A|R]) :- strike(T, E, R).
derive([], _, 0).
derive([A|T], E, N) :-
    N > 0, M is N - 1,
    ( call_fact(A), A \\== E, Body = [] ; A = a(P, X, Y), rule(P, X, Y, Body) ),
    append(Body, T, G), strike(G, E, R), derive(R, E, M).
steps(A, E, D, S) :- between(1, D, S), derive([A], E, S), !.
steps(_, _, _, -1).
main(D) :- forall(query(A), (steps(A, A, D, S), steps(A, none, D, T), format('~w ~w~n', [S, T]))).
"""


@pytest.mark.skipif(not shutil.which("swipl"), reason="SWI-Prolog (swipl) is not installed")
def test_swi_prolog_finds_proofs_of_the_same_length(engine, tmp_path):
    compared = proved = 0
    for seed in range(30):
        draw = random.Random(seed)
        constants, predicates = "abcd"[: draw.randint(2, 4)], "pqr"[: draw.randint(1, 3)]

        def atom(terms, draw=draw, predicates=predicates):
            return draw.choice(predicates), draw.choice(terms), draw.choice(terms)

        facts = {atom(constants) for _ in range(draw.randint(2, 7))}
        rules = []
        while len(rules) < 4:
            body = [atom("XYZ" + constants[0]) for _ in range(draw.randint(1, 3))]
            head = atom("XYZ" + constants[0])
            if {t for t in head[1:] if t.isupper()} <= {t for a in body for t in a[1:]}:
                rules.append((head, body))
        asked = {p for p, *_ in facts} | {head[0] for head, _ in rules}
        if not {a[0] for _, body in rules for a in body} <= asked:
            continue
        queries = [(p, a, b) for p in sorted(asked) for a in constants for b in constants]
        words = [f"{p}({a},{b})" for p, a, b in queries]
        text = {
            "facts": "".join(f"{p}({a},{b}).\n" for p, a, b in sorted(facts)),
            "rules": "".join(
                f"{h[0]}({h[1]},{h[2]}) :- {', '.join(f'{p}({a},{b})' for p, a, b in body)}.\n"
                for h, body in rules
            ),
            "queries": "".join(f"{word}.\n" for word in words),
        }
        folder = write(tmp_path / str(seed), facts="", rules=text["rules"], test=text["queries"])
        (folder / "train.txt").write_text(text["facts"])
        prolog = ORACLE
        prolog += "".join(f"fact({p},{a},{b}).\n" for p, a, b in sorted(facts))
        for h, body in rules:
            goals = ",".join(f"a({p},{a},{b})" for p, a, b in body)
            prolog += f"rule({h[0]},{h[1]},{h[2]},[{goals}]).\n"
        prolog += "".join(f"query(a({p},{a},{b})).\n" for p, a, b in queries)
        (folder / "oracle.pl").write_text(prolog)
        depth = 3 + seed % 2
        oracle = subprocess.run(
            ["swipl", "-q", "-g", f"main({depth})", "-t", "halt", folder / "oracle.pl"],
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        wanted = [tuple(map(int, line.split())) for line in oracle.stdout.splitlines()]
        for flags, column in ((["--exclude-query"], 0), ([], 1)):
            done = engine("prove", folder, "--queries", "test", "--depth", depth, "--json", *flags)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["steps"] == [[w, s[column]] for w, s in zip(words, wanted)], seed
        compared += len(queries)
        proved += sum(s > 1 for _, s in wanted)
    assert compared > 400 and proved > 35


def test_depths_that_were_found_are_kept_with_the_graph(engine, tmp_path):
    words = ("prove", "family", "--queries", "train,test", "--depth", 3, "--exclude-query", "--json")
    done = engine(*words, "--out", "deep", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    steps = dict(json.loads(done.stdout)["steps"])
    kept = {}
    for split in ("train", "test"):
        for line in (tmp_path / "deep" / f"{split}_depths.txt").read_text().splitlines():
            query, depth = line.rsplit(". ", 1)
            kept[query] = int(depth)
    assert kept == steps and len(set(kept.values())) > 2
    assert not (tmp_path / "deep" / "valid_depths.txt").exists()
    # the environment asks by them
    small = ("env.count=4", "ppo.rollout=8", "ppo.minibatch=32", "train.steps=32", "threads=1", "env.depths=1")
    trained = engine("train", "ppo", "kg", "env.data=deep", *small, "--out", "run", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    again = engine(*words, "--out", "deep", cwd=tmp_path)
    assert again.returncode == 2 and "--overwrite" in again.stderr
    assert engine(*words, "--out", "deep", "--overwrite", cwd=tmp_path).returncode == 0
