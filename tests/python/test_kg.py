"""maglev kg: knowledge graphs as files, as a user calls it."""

import array
import csv
import json
import os
import shlex
import signal
import subprocess

import pytest
from conftest import ENGINE, HOME
from waiting import LONG_S, wait_for_line


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


def test_a_graph_that_has_moved_is_named_anew(engine, tmp_path):
    folder, moved, run = tmp_path / "graph", tmp_path / "elsewhere", tmp_path / "run"
    kg(engine, "make", "countries_s1", "--out", folder)
    small = ["env.count=8", "ppo.rollout=8", "ppo.minibatch=64", "train.steps=64", "threads=1"]
    done = engine("train", "ppo", "kg", f"env.data={folder}", *small, "--out", run)
    assert done.returncode == 0, done.stderr
    query = (folder / "test.txt").read_text().split(".")[0]
    scores = tmp_path / "scores.csv"
    asked = {
        "eval": ("--episodes", "8", "--json"),
        "play": ("--fast",),
        "rank": ("--queries", "4", "--corruptions", "2", "--scores", str(scores), "--overwrite"),
        "prove": (query, "--search", "policy", "--json"),
    }

    def answer(verb, *words):
        done = engine(verb, run, *asked[verb], *words)
        # but for times, the folder's name and that it was given
        said = (line for line in done.stdout.splitlines() if "second" not in line and '"data"' not in line)
        text = "\n".join(said)
        if verb == "eval" and done.returncode == 0:
            report = json.loads(done.stdout)
            assert report.pop("settings", []) == list(words)
            text = json.dumps([{k: v for k, v in result.items() if k != "seconds"} for result in report["results"]])
        return done, scores.read_text() if verb == "rank" and done.returncode == 0 else text

    before = {verb: answer(verb) for verb in asked}
    assert all(done.returncode in (0, 1) for done, _ in before.values())
    folder.rename(moved)
    for verb in asked:
        lost, _ = answer(verb)
        assert lost.returncode == 2 and lost.stderr.count("\n") == 1, lost.stderr
        assert f"there is no folder '{folder}'; a run whose graph has moved is told where by env.data=FOLDER" in lost.stderr
        found, text = answer(verb, f"env.data={moved}")
        assert (found.returncode, text) == (before[verb][0].returncode, before[verb][1]), found.stderr
    # another graph is none that has moved
    other = engine("eval", run, "env.data=family")
    assert other.returncode == 2 and "was trained on other names than kg has now" in other.stderr
    words = "only env.data=FOLDER may be given, got 'env.atoms=3'"
    done = engine("prove", run, query, "env.atoms=3")
    assert done.returncode == 2 and words in done.stderr
    # a policy acts where it is told to; a search without one is a processor's
    for words in (("prove", run, query, "--search", "policy"), ("rank", run, "--queries", 2)):
        done = engine(*words, "--json", f"env.data={moved}", "device=cpu")
        assert done.returncode in (0, 1) and json.loads(done.stdout).get("device", "cpu") == "cpu", done.stderr
        done = engine(*words, f"env.data={moved}", "device=cuda:99")
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "cuda" in done.stderr, done.stderr
    done = engine("prove", run, query, f"env.data={moved}", "device=cpu")
    assert done.returncode == 2 and "device= goes with --search policy" in done.stderr
    assert "did not expect 'device=cuda'" in refused(engine, "embed", moved, "--out", tmp_path / "e", "device=cuda")


def test_a_run_on_a_folder_of_the_callers_goes_on_from_everywhere(engine, tmp_path):
    begun, other = tmp_path / "begun", tmp_path / "other"
    begun.mkdir(), other.mkdir()
    kg(engine, "make", "countries_s1", "--out", begun / "mine")
    small = ["env.count=8", "ppo.rollout=8", "ppo.minibatch=64", "train.steps=64", "threads=1"]
    done = engine("train", "ppo", "kg", "env.data=mine", *small, "--out", "run", cwd=begun)
    assert done.returncode == 0, done.stderr
    for words in (("eval", "../begun/run", "--episodes", "8"), ("train", "--resume", "../begun/run", "train.steps=128")):
        done = engine(*words, cwd=other)
        assert done.returncode == 0, done.stderr
    # evaluations on another graph of the caller's, too
    kg(engine, "make", "countries_s1", "--out", begun / "judged")
    judged = ("train.eval_env=data=judged,negatives=0", "train.eval_every=64", "train.eval_episodes=4")
    done = engine("train", "ppo", "kg", "env.data=mine", *judged, *small, "--out", "evaluated", cwd=begun)
    assert done.returncode == 0, done.stderr
    done = engine("train", "--resume", "../begun/evaluated", "train.steps=128", cwd=other)
    assert done.returncode == 0, done.stderr
    lost = engine("train", "ppo", "kg", "env.data=mine", "env.potential=none.st", *small, cwd=begun)
    assert lost.returncode == 2 and "[env.potential]" in lost.stderr and "none.st" in lost.stderr


def test_a_folder_with_the_name_of_a_built_in_graph_is_told_of(engine, tmp_path):
    kg(engine, "make", "countries_s1", "--out", tmp_path / "family")
    said = engine("kg", "stats", "family", cwd=tmp_path)
    assert "family is the built-in graph; the folder of that name is ./family" in said.stdout, said.stderr
    assert "built-in" not in engine("kg", "stats", "./family", cwd=tmp_path).stdout
    small = ["env.count=8", "ppo.rollout=8", "ppo.minibatch=64", "train.steps=64", "threads=1"]
    done = engine("train", "ppo", "kg", "env.data=family", *small, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0 and "./family" in (tmp_path / "run" / "log.txt").read_text(), done.stderr


def test_constants_that_no_fact_has_are_asked_like_others(engine, tmp_path):
    folder, run, scores = tmp_path / "graph", tmp_path / "run", tmp_path / "scores.csv"
    kg(engine, "make", "countries_s1", "--out", folder)
    kg(engine, "embed", folder, "--out", tmp_path / "before", "--epochs", "1", "--dim", "4")
    with (folder / "test.txt").open("a") as file:
        file.write("locatedInCR(atlantis,lemuria).\n")
    report = json.loads(kg(engine, "stats", folder, "--json"))
    assert report["splits"]["test"]["unknown"] == 1
    small = ["env.count=8", "ppo.rollout=8", "ppo.minibatch=64", "train.steps=64", "threads=1"]
    done = engine("train", "ppo", "kg", f"env.data={folder}", *small, "--out", run)
    assert done.returncode == 0, done.stderr
    asked = ("rank", run, "--modes", "head", "--corruptions", "3", "--scores", scores)
    done = engine(*asked)
    assert done.returncode == 0 and "atlantis" in scores.read_text(), done.stderr
    done = engine("prove", folder, "locatedInCR(atlantis, X)")
    assert done.returncode == 1 and "no fact and no rule for" in done.stdout
    # vectors that were trained before it was there have none for it
    done = engine(*asked, "--overwrite", "--embedding", tmp_path / "before")
    assert done.returncode == 2 and "has no vector for 'atlantis'" in done.stderr


def test_seeds_are_ranked_each_and_together(engine, tmp_path):
    seeds = tmp_path / "seeds"
    small = ["env.count=8", "ppo.rollout=8", "ppo.minibatch=64", "train.steps=64", "threads=1"]
    done = engine("train", "ppo", "kg", "env.data=countries_s1", *small, "--seeds", "2", "--out", seeds)
    assert done.returncode == 0, done.stderr
    few = ("--queries", "6", "--corruptions", "4", "--width", "1")
    report = ranked(engine, seeds, *few)
    alone = [ranked(engine, seeds / f"seed-{seed}", *few)["scores"] for seed in (1, 2)]
    assert [run["scores"] for run in report["runs"]] == alone
    both = [scores["proof"]["mrr"] for scores in alone]
    mrr = report["results"]["proof"]["mrr"]
    assert mrr["seeds"] == 2 and mrr["mean"] == pytest.approx(sum(both) / 2)
    # two of them: a deviation is their distance, and Student's t of one degree 12.706
    assert mrr["std"] == pytest.approx(abs(both[0] - both[1]) / 2**0.5)
    reach = 12.7062047 * mrr["std"] / 2**0.5
    assert mrr["interval_95"] == pytest.approx([mrr["mean"] - reach, mrr["mean"] + reach])
    text = engine("rank", f"{seeds}@latest", *few).stdout
    assert f"{seeds}/seed-2: ppo on" in text and "all 2 seeds:" in text.splitlines()
    # as RUN@CHECKPOINT names one
    query = "locatedInCR(country_001, X)"
    for words in (("rank", f"{seeds}/seed-1@latest", *few), ("prove", f"{seeds}/seed-1@latest", query, "--search", "policy")):
        done = engine(*words)
        assert done.returncode in (0, 1), done.stderr
    for words, said in (
        (("rank", seeds, "--explain", "1"), f"--explain is for one run; name a seed, e.g. {seeds}/seed-1"),
        (("rank", f"{seeds}@best", "--checkpoint", "latest"), "names a checkpoint already"),
        (("prove", f"{seeds}/seed-1@best", query), "names a policy, which --search policy alone asks"),
    ):
        done = engine(*words)
        assert done.returncode == 2 and said in done.stderr, done.stderr


def test_ranking_says_how_many_candidates_were_tried(engine, tmp_path):
    run, vectors = tmp_path / "run", tmp_path / "vectors.safetensors"
    done = engine("train", "ppo", "kg", "env.data=countries_s1", "train.steps=4096", "--out", run)
    assert done.returncode == 0, done.stderr
    kg(engine, "embed", "countries_s1", "--out", vectors, "--epochs", "1", "--dim", "4")
    # five regions a question, of which two are proved
    asked = ("rank", run, "--modes", "tail", "--corruptions", "all", "--embedding", vectors)
    report = json.loads(engine(*asked, "--shortlist", "2", "--json").stdout)
    assert (report["candidates"], report["tried"], report["different"]) == (5 * 24, 2 * 24, 2 * 24)
    assert list(report["scores"]) == ["embedding", "rules", "joined"]
    # what proves nothing has no share of proofs, also where a policy proves beside it
    shares = {name: (figures["proved_true"], figures["proved_false"]) for name, figures in report["scores"].items()}
    assert shares["embedding"] == shares["rules"] == (None, None) and None not in shares["joined"]
    assert report["joined"]["weights"]["proof"] is not None
    refused_split = engine(*asked, "--shortlist", "2", "--split", "valid")
    assert refused_split.returncode == 2 and "--shortlist ranks by a joined score" in refused_split.stderr
    each, of_all = report["milliseconds_per_candidate"], report["milliseconds_per_candidate_of_all"]
    assert abs(each * 2 / 5 / of_all - 1) < 1e-9
    assert "48 of 120 candidates tried: " in engine(*asked, "--shortlist", "2").stdout
    assert " of 120 candidates tried" not in engine(*asked).stdout
    # a bound on the time, for who watches it
    slow, quick = engine(*asked, "--at-most", "1e-6"), engine(*asked, "--at-most", "1e6")
    assert (slow.returncode, quick.returncode) == (1, 0), slow.stderr + quick.stderr
    assert "and --at-most 1e-06 were allowed" in slow.stderr and quick.stderr == ""
    # a beam of four unless another is asked for; it proves no less than a greedy proof, which is one that is drawn
    greedy, four, beam = (ranked(engine, *asked[1:], "--width", width)["scores"]["proof"] for width in ("1", "4", "8"))
    assert four == ranked(engine, *asked[1:])["scores"]["proof"]
    assert ranked(engine, *asked[1:], "--actions", "sample")["width"] == 1
    assert beam["proved_true"] >= greedy["proved_true"] and beam["proved_false"] >= greedy["proved_false"]
    drawn = engine(*asked, "--width", "8", "--actions", "sample")
    assert drawn.returncode == 2 and "leave out --actions sample" in drawn.stderr
    # why, and how the run's own proofs went
    (explained,) = ranked(engine, *asked[1:], "--queries", "1", "--explain", "1")["explained"]
    true = next(one for one in explained["candidates"] if one["true"])
    assert true["proved"] and true["steps"] >= 1
    text = engine(*asked, "--queries", "1", "--explain", "1").stdout
    assert "the run proves it" in text and "in 1 step" in text, text
    shown = next(line for line in text.splitlines() if line.startswith("the run's own proof: "))
    asked_for = shlex.split(shown.split("`")[1])
    assert asked_for[:4] == ["maglev", "prove", str(run), true["atom"]], shown
    proof = engine(*asked_for[1:])
    assert proof.returncode == 0 and "proved in" in proof.stdout, proof.stderr
    text = engine(*asked, "--queries", "1", "--explain", "1", "--shortlist", "1").stdout
    assert "not tried" in text, text
    # depths that nobody has found are told of, with what finds them
    few, deep = ("--queries", "20", "--corruptions", "3", "--by", "depth"), tmp_path / "deep"
    told = engine("rank", "umls", *few).stdout.splitlines()[-1]
    assert told == "no depths: `maglev prove umls --queries test --exclude-query --out DIR` finds them; then rank DIR"
    assert engine("prove", "umls", "--queries", "test", "--exclude-query", "--out", deep).returncode == 0
    by_depth = engine("rank", deep, *few)
    assert "no depths" not in by_depth.stdout and "\n2 " in by_depth.stdout, by_depth.stdout + by_depth.stderr
    # a setting that the networks are made by is refused by its name
    shaped = engine(*asked, "env.atoms=10")
    assert shaped.returncode == 2 and "do not fit env.atoms=10 (6 as it was trained)" in shaped.stderr, shaped.stderr
    shaped = engine("eval", run, "env.atoms=10", "--episodes", "8")
    assert shaped.returncode == 2 and "differ from the game's with env.atoms=10;" in shaped.stderr, shaped.stderr
    # a graph is not written over a run
    assert "holds a run" in refused(engine, "make", "countries_s1", "--out", run, "--overwrite")


def test_depths_that_nobody_found_are_asked_of_what_finds_them(engine, tmp_path):
    done = engine("train", "ppo", "kg", "env.data=family", "env.depths=1-2", "--out", tmp_path / "run")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "`maglev prove family --queries train --exclude-query --out DIR` finds it for env.data=DIR" in done.stderr


def ranked(engine, *words):
    done = engine("rank", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_predicates_have_a_mean_in_which_each_counts_alike(engine):
    report = ranked(engine, "umls", "--queries", "40", "--corruptions", "20", "--by", "predicate")
    groups = [group["rules"] for group in report["by"].values()]
    macro, micro = report["macro"]["rules"], report["scores"]["rules"]
    assert len(groups) > 5 and len({group["questions"] for group in groups}) > 1
    assert macro["questions"] == micro["questions"] == sum(group["questions"] for group in groups)
    for figure in ("mrr", "hits1", "hits3", "hits10", "auc_pr"):
        assert macro[figure] == pytest.approx(sum(group[figure] for group in groups) / len(groups)), figure
    assert macro["mrr"] != micro["mrr"] and macro["mrr_interval"] == [None, None] and macro["proved_true"] is None
    assert "macro" not in ranked(engine, "umls", "--queries", "5", "--corruptions", "5", "--by", "mode")


# likes(X,Y) by friends (surer) and by neighbours: of each query's three candidates that are not known one has both
LIKED = {
    "facts.txt": "friend(ann,bob).\nfriend(ann,cid).\nnear(ann,bob).\nnear(ann,dee).\nlikes(eve,ann).\n",
    "rules.txt": "0.75::likes(X,Y) :- friend(X,Y).\n0.5::likes(X,Y) :- near(X,Y).\n",
    "train.txt": "likes(eve,ann).\n",
    "valid.txt": "likes(ann,dee).\n",
    "test.txt": "likes(ann,cid).\n",
}


def write_graph(folder, files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_a_graph_is_ranked_by_the_confidences_of_its_rules(engine, tmp_path):
    folder, scores = write_graph(tmp_path / "liked", LIKED), tmp_path / "scores.csv"
    asked = (folder, "--modes", "tail", "--corruptions", "all", "--rank-type", "realistic")
    # among ann, bob and eve (dee is known) bob has both rules: cid is second
    report = ranked(engine, *asked, "--scores", scores)
    assert list(report["scores"]) == ["rules"] and report["aggregate"] == "max"
    assert report["scores"]["rules"]["mrr"] == 0.5 and report["scores"]["rules"]["proved_true"] is None
    rows = {row["second"]: (row["rules"], row["rules_tie"]) for row in csv.DictReader(scores.open())}
    # what tells equal scores apart stands beside them: bob has the second rule too
    assert rows == {"cid": ("0.75", "1"), "bob": ("0.75", "2"), "ann": ("0", "0"), "eve": ("0", "0")}
    assert "joined" not in report and "tried" not in report
    ranked(engine, *asked, "--aggregate", "noisy-or", "--scores", scores, "--overwrite")
    assert "bob,0,0,0,0,0,0,0.875," in scores.read_text()
    # known ones too: dee has the less sure rule, and stands behind
    assert ranked(engine, *asked, "--raw")["scores"]["rules"]["mrr"] == 0.5
    # nobody gave confidences: cid has one rule and bob two
    rules = LIKED["rules.txt"].replace("0.75::", "").replace("0.5::", "")
    sure = write_graph(tmp_path / "sure", LIKED | {"rules.txt": rules})
    assert ranked(engine, sure, *asked[1:])["scores"]["rules"]["mrr"] == 0.5
    # why
    (explained,) = ranked(engine, *asked, "--explain", "1")["explained"]
    first, second = explained["candidates"][:2]
    assert explained["question"] == "likes(ann, ?)"
    assert (first["atom"], second["atom"]) == ("likes(ann,bob)", "likes(ann,cid)")
    assert second["true"] and [rule["confidence"] for rule in first["rules"]] == [0.75, 0.5]
    text = engine("rank", *asked, "--explain", "1").stdout
    assert "likes(ann, ?) by rules" in text and "0.750 likes(X,Y) :- friend(X,Y)." in text and "cid (true)" in text
    proof = engine("prove", folder, "likes(ann,dee)")
    assert "by 0.5::likes(X,Y) :- near(X,Y)." in proof.stdout, proof.stderr
    # what is of runs, and what there is no ground for
    for words, said in {
        ("--actions", "sample"): "--actions is of a run's proofs",
        ("--width", "2"): "--width is of a run's proofs",
        ("env.atoms=3",): "env.atoms=3 is a setting of a run",
        ("threads=-1",): "threads",
        ("--shortlist", "2"): "give --embedding FILE",
        ("--aggregate", "mean"): "--aggregate",
    }.items():
        done = engine("rank", *asked, *words)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
    (folder / "rules.txt").unlink()
    none = {(): "has no rules to rank by", ("--explain", "1"): "has none; give it a rules.txt"}
    for words, said in none.items():
        done = engine("rank", *asked, *words)
        assert done.returncode == 2 and said in done.stderr and "kg mine" in done.stderr, done.stderr
    # a name is looked up before what only a run has is refused
    for words in ((), ("--actions", "sample"), ("env.atoms=3",)):
        done = engine("rank", "familly", *words)
        assert done.returncode == 2 and "did you mean family" in done.stderr, done.stderr


def test_weights_of_a_joined_score_see_no_test_query(engine, tmp_path):
    folder, vectors = tmp_path / "graph", tmp_path / "vectors.safetensors"
    kg(engine, "make", "countries_s1", "--out", folder)
    kg(engine, "embed", folder, "--out", vectors, "--epochs", "2", "--dim", "4")
    asked = ("--embedding", vectors, "--modes", "tail", "--corruptions", "all")
    report = ranked(engine, folder, *asked)
    assert list(report["scores"]) == ["embedding", "rules", "joined"]
    joined = report["joined"]
    assert joined["weights"]["rules"] > 0 and joined["weights"]["proof"] is None
    assert joined["valid_mrr"] > joined["valid_mrr_of_embedding"] and joined["valid_questions"] == 24
    assert report["scores"]["joined"]["mrr"] > report["scores"]["embedding"]["mrr"]
    # the same for any number of threads
    assert ranked(engine, folder, *asked, "threads=1") == ranked(engine, folder, *asked, "threads=3") == report
    # more test queries, every false candidate of a valid one: other figures, the same weights
    of_valid = (folder / "valid.txt").read_text().splitlines()
    regions = sorted({line.split(",")[1] for line in of_valid})
    others = [f"{one.split(',')[0]},{region}" for one in of_valid for region in regions if not one.endswith(region)]
    with (folder / "test.txt").open("a") as file:
        file.write("\n".join(others) + "\n")
    again = ranked(engine, folder, *asked)
    assert again["joined"] == joined and again["scores"] != report["scores"]
    # valid queries find the weights, and are not ranked by them
    done = engine("rank", folder, *asked, "--split", "valid")
    assert done.returncode == 0 and "no joined score of valid queries" in done.stdout, done.stderr
    assert "joined" not in ranked(engine, folder, *asked, "--split", "valid")["scores"]
    (folder / "valid.txt").write_text("")
    done = engine("rank", folder, *asked)
    assert done.returncode == 0 and "has none" in done.stdout, done.stderr


def test_vectors_that_are_damaged_or_of_another_graph_are_refused(engine, tmp_path):
    vectors = tmp_path / "vectors.safetensors"
    kg(engine, "embed", "countries_s1", "--out", vectors, "--epochs", "1", "--dim", "4")
    whole = vectors.read_bytes()
    run = tmp_path / "run"
    small = ["env.count=8", "ppo.rollout=8", "ppo.minibatch=64", "train.steps=64", "threads=1"]
    done = engine("train", "ppo", "kg", "env.data=countries_s1", *small, "--out", run)
    assert done.returncode == 0, done.stderr

    def complaint():
        done = engine("rank", run, "--queries", "2", "--embedding", vectors)
        assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
        again = engine("train", "ppo", "kg", "env.data=countries_s1", f"env.potential={vectors}", *small, "--out", run / "x")
        assert again.returncode == 2 and again.stderr.count("\n") == 1, again.stderr
        assert str(vectors) in done.stderr and str(vectors) in again.stderr
        return done.stderr

    # safetensors: the length of a header, the header, numbers
    begin = 8 + int.from_bytes(whole[:8], "little")
    numbers = array.array("f", whole[begin:])
    vectors.write_bytes(whole[:begin] + array.array("f", [1e25 * x for x in numbers]).tobytes())
    done = engine("rank", run, "--queries", "2", "--embedding", vectors)
    assert done.returncode == 2 and "is not finite" in done.stderr, done.stderr
    header = json.loads(whole[8:begin])
    names = header["__metadata__"]
    (key,) = [k for k in names if "country_001" in names[k]]
    first, *rest = names[key].splitlines()
    names[key] = "\n".join([first, first, *rest[1:]]) + "\n"
    text = json.dumps(header).encode()
    vectors.write_bytes(len(text).to_bytes(8, "little") + text + whole[begin:])
    assert "twice" in complaint()
    vectors.write_bytes(whole[: len(whole) // 2])
    complaint()
    vectors.write_bytes(whole[:5])
    complaint()
    vectors.write_bytes(b"no vectors at all, but text\n")
    complaint()
    nan = bytes.fromhex("0000c07f")
    vectors.write_bytes(whole[:-4] + nan)
    assert "holds a number that is not finite" in complaint()
    vectors.write_bytes(whole.replace(b"country_001", b"country_xyz"))
    assert "has no vector for 'country_001'" in complaint()
    vectors.unlink()
    complaint()


def test_an_embedding_of_a_graph_without_queries_says_so(engine, tmp_path):
    folder = write_graph(tmp_path / "facts", {"train.txt": "p(a,b).\np(b,c).\n", "valid.txt": "", "test.txt": ""})
    said = kg(engine, "embed", folder, "--out", tmp_path / "e.safetensors", "--epochs", "1").splitlines()
    assert said[-1].startswith("facts has no valid or test queries to rank; vectors in ") and "MRR" not in "".join(said)


def test_vectors_are_the_same_for_any_number_of_threads(engine, tmp_path):
    files = [tmp_path / f"{threads}.safetensors" for threads in (1, 2, 3)]
    for threads, file in enumerate(files, 1):
        kg(engine, "embed", "countries_s1", "--out", file, "--epochs", "2", "--dim", "8", f"threads={threads}")
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()
    for words, said in (
        (("threads=-1",), "threads must be in [0, 1024]"),
        (("--threads", "2"), "--threads is the setting threads=<value> here"),
        (("seed=2",), "did not expect 'seed=2'; of settings there is threads=N"),
    ):
        assert said in refused(engine, "embed", "countries_s1", "--out", tmp_path / "none", *words)


def test_vectors_that_a_signal_ended_are_kept(engine, tmp_path):
    vectors = tmp_path / "vectors.safetensors"
    words = ["kg", "embed", "countries_s1", "--out", vectors, "--epochs", "100000", "--dim", "4", "threads=1"]
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen([ENGINE, *words], env=os.environ | {"MAGLEV_HOME": str(HOME)}, **told)
    wait_for_line(child.stdout, "epoch ")
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=LONG_S)
    assert child.returncode == 130 and "maglev: ended by a signal after " in said and f"vectors in {vectors}" in said
    assert ranked(engine, "countries_s1", "--embedding", vectors)["scores"]["embedding"]["mrr"] > 0


def test_a_graph_that_changed_under_a_run_is_told(engine, tmp_path):
    folder, run = tmp_path / "graph", tmp_path / "run"
    kg(engine, "make", "countries_s1", "--out", folder)
    small = ["env.count=8", "ppo.rollout=8", "ppo.minibatch=64", "train.steps=64", "threads=1"]
    done = engine("train", "ppo", "kg", f"env.data={folder}", *small, "--out", run)
    assert done.returncode == 0, done.stderr
    query = (folder / "test.txt").read_text().split(".")[0]
    asked = {
        "eval": ("--episodes", "8"),
        "play": ("--fast",),
        "rank": ("--queries", "4", "--corruptions", "2"),
        "prove": (query,),
        "export": ("--overwrite",),
    }
    told = f"maglev: {folder} holds something else than what {run} was trained on"
    resume = ("train", "--resume", run, "train.steps=128")

    def say():
        return {verb: engine(verb, run, *words).stderr for verb, words in asked.items()}

    assert not any(say().values())
    # a rule more, of the same names
    whole = (folder / "rules.txt").read_text()
    (folder / "rules.txt").write_text(whole + whole.replace("locatedInCS", "locatedInCR"))
    for verb, stderr in say().items():
        assert stderr.startswith(told) and stderr.count("\n") == 1, (verb, stderr)
    checks = {c["check"]: c for c in json.loads(engine("verify", run, "--json").stdout)["checks"]}
    assert checks["environment"]["outcome"] == "failed" and str(folder) in checks["environment"]["what"]
    # one that was asked for by another name is none that changed
    assert engine("eval", run, "--episodes", "8", "env.data=countries_s1").stderr == ""
    # other settings of the same graph are no other graph
    assert "something else" in engine("eval", run, "--episodes", "8", "env.split=valid").stderr
    refused = engine(*resume)
    assert refused.returncode == 2 and f"[{run}] cannot go on: {folder} holds something else" in refused.stderr
    assert f"train.init_from={run}" in refused.stderr and refused.stderr.count("\n") == 1
    (folder / "rules.txt").write_text(whole)
    assert engine("eval", run, "--episodes", "8", "env.split=valid").stderr == ""
    # where it has moved it is as it was
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    assert engine("eval", run, "--episodes", "8", f"env.data={moved}").stderr == ""
    assert engine(*resume, f"env.data={moved}").returncode == 0
