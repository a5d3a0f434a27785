"""maglev kg: knowledge graphs as files, as a user calls it."""

import json


def kg(engine, *words):
    done = engine("kg", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_graph_is_made_read_and_mined(engine, tmp_path):
    folder = tmp_path / "family"
    assert "19715 facts, 88 rules" in kg(engine, "make", "family", "--out", folder)
    report = json.loads(kg(engine, "stats", folder, "--json"))
    assert report["name"] == "family" and report["constants"] == 2420 and report["notes"] == []
    test = report["splits"]["test"]
    assert test["queries"] == 5632 and test["by_one_rule"] > 5000 and test["false_by_one_rule"] == 0
    rules = tmp_path / "rules.txt"
    kg(engine, "mine", folder, "--support", "30", "--per-head", "0", "--out", rules)
    assert "uncle(X,Y) :- brother(X,Z), mother(Z,Y)." in rules.read_text()
    # as rules of the folder they are read again
    (folder / "rules.txt").write_text(rules.read_text())
    assert json.loads(kg(engine, "stats", folder, "--json"))["rules"] == rules.read_text().count(":-")


def test_a_seed_is_a_graph(engine, tmp_path):
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        kg(engine, "make", "countries_s3", "--out", tmp_path / name, "--seed", seed)
    texts = {name: (tmp_path / name / "train.txt").read_text() for name in "abc"}
    assert texts["a"] == texts["b"] != texts["c"]


def refused(engine, *words):
    done = engine("kg", *words)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_what_is_wrong_is_said_in_a_line(engine, tmp_path):
    assert "did you mean family" in refused(engine, "stats", "familly")
    assert "has no train.txt, valid.txt, test.txt" in refused(engine, "stats", tmp_path)
    assert "--out DIR is missing" in refused(engine, "make", "family")
    assert "unknown command 'mined'; did you mean mine" in refused(engine, "mined", "family")
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("p(a,b).\nq(b,c).\n")
    kg(engine, "stats", tmp_path)
    (tmp_path / "train.txt").write_text("p(a,b).\n" * 1000 + "p(a).\n")
    assert "train.txt:1001:1] predicate p with 1 argument" in refused(engine, "stats", tmp_path)
    (tmp_path / "train.txt").write_text("p(a,b).\nq(b,c).\n")
    (tmp_path / "rules.txt").write_text("p(X,Y) :- q(X,Z).\n")
    assert "rules.txt:1:5] an unsafe rule: variable Y" in refused(engine, "stats", tmp_path)
    (tmp_path / "rules.txt").write_text("p(X,Y) :- qq(X,Y).\n")
    assert "rules.txt:1:11] in p(X,Y) :- qq(X,Y). unknown predicate 'qq'" in refused(engine, "stats", tmp_path)


def test_a_policy_is_of_the_names_it_was_trained_on(engine, tmp_path):
    folder, run = tmp_path / "graph", tmp_path / "run"
    kg(engine, "make", "countries_s1", "--out", folder)
    small = ["env.count=8", "ppo.rollout=8", "ppo.minibatch=64", "train.steps=64", "threads=1"]
    done = engine("train", "ppo", "kg", f"env.data={folder}", *small, "--out", run)
    assert done.returncode == 0, done.stderr
    # as many constants as before, of which one is called otherwise and so stands elsewhere
    for text in folder.glob("*.txt"):
        text.write_text(text.read_text().replace("country_244", "a_country"))
    begun = ("train", "ppo", "kg", f"env.data={folder}", *small, f"train.init_from={run}")
    for words in (("eval", run, "--episodes", "8"), (*begun, "--out", tmp_path / "other")):
        done = engine(*words)
        assert done.returncode == 2 and "was trained on other names than kg has now" in done.stderr


def test_ranking_says_how_many_candidates_were_tried(engine, tmp_path):
    run, vectors = tmp_path / "run", tmp_path / "vectors.safetensors"
    done = engine("train", "ppo", "kg", "env.data=countries_s1", "train.steps=4096", "--out", run)
    assert done.returncode == 0, done.stderr
    kg(engine, "embed", "countries_s1", "--out", vectors, "--epochs", "1", "--dim", "4")
    # five regions a question, of which two are proved
    asked = ("rank", run, "--modes", "tail", "--corruptions", "all", "--embedding", vectors)
    ranked = json.loads(engine(*asked, "--shortlist", "2", "--json").stdout)
    assert (ranked["candidates"], ranked["tried"], ranked["different"]) == (5 * 24, 2 * 24, 2 * 24)
    each, of_all = ranked["milliseconds_per_candidate"], ranked["milliseconds_per_candidate_of_all"]
    assert abs(each * 2 / 5 / of_all - 1) < 1e-9
    assert "48 of 120 candidates tried: " in engine(*asked, "--shortlist", "2").stdout
    assert " of 120 candidates tried" not in engine(*asked).stdout
    # a graph is not written over a run
    assert "holds a run" in refused(engine, "make", "countries_s1", "--out", run, "--overwrite")
