"""What maglev bench says of this build."""


def test_the_signature_is_one_hash_an_algorithm_and_always_the_same(engine):
    first, again = engine("bench", "--signature"), engine("bench", "--signature")
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    table = engine("algos").stdout.split("\n\n")[0].splitlines()[1:]
    signed = dict(line.split() for line in first.stdout.splitlines())
    assert list(signed) == [line.split()[0] for line in table]
    assert len(set(signed.values())) == len(signed)


def test_what_bench_does_not_know_is_answered(engine):
    done = engine("bench", "tmieline", "ppo", "cartpole")
    assert done.returncode == 2 and "knows timeline and --signature" in done.stderr
