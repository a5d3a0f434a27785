"""What a run says of its replay: one that is resumed otherwise, and one that a dataset stands for."""

import pytest

SMALL = [
    *("--bare", "--sinks", "jsonl", "env.max_steps=25", "threads=2", "tdmpc2.batch=8", "tdmpc2.num_q=2"),
    *("tdmpc2.enc_dim=16", "tdmpc2.mlp_dim=16", "tdmpc2.latent_dim=16", "tdmpc2.samples=8", "tdmpc2.elites=4"),
    *("tdmpc2.policy_trajectories=2", "tdmpc2.iterations=1", "tdmpc2.updates_per_step=0.1"),
]


def train(engine, *words):
    done = engine("train", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def log_of(run):
    return (run / "log.txt").read_text()


@pytest.fixture(scope="module")
def data(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay")
    words = ("env.count=4", "train.steps=240", "tdmpc2.seed_steps=400")
    train(engine, "tdmpc2", "pendulum", *SMALL, *words, "--out", folder / "played")
    done = engine("data", folder / "played", folder / "data.safetensors")
    assert done.returncode == 0, done.stderr
    return folder / "data.safetensors"


def test_a_dataset_waits_for_no_first_steps_when_it_is_resumed(engine, data, tmp_path):
    run = tmp_path / "run"
    train(engine, "tdmpc2", "pendulum", *SMALL, f"train.dataset={data}", "train.steps=4", "--out", run)
    told = train(engine, "--resume", run, "train.steps=6")
    assert "return    -, for it learned from a dataset and played no episode\n" in told, told
    assert "resumed at step 4" in log_of(run) and "no update is made" not in log_of(run)


def test_settings_of_what_a_dataset_run_does_not_collect_are_told(engine, data, tmp_path):
    learn = ("tdmpc2", "pendulum", *SMALL, f"train.dataset={data}", "train.steps=4")
    idle = {
        *("tdmpc2.seed_steps=99", "tdmpc2.update_every=9", "tdmpc2.capacity=999", "env.count=2"),
        *("train.replay_capacity=777", "train.save_replay=false", "train.collect=blocks", "train.until_return=5"),
    }
    train(engine, *learn, *idle, "--out", tmp_path / "told")
    told = [line for line in log_of(tmp_path / "told").splitlines() if " changes nothing here: " in line]
    # updates_per_step is of SMALL
    for setting in idle | {"tdmpc2.updates_per_step=0.1"}:
        assert any(f"{setting} changes nothing here: " in line and "train.dataset" in line for line in told), (setting, told)
    assert len(told) == len(idle) + 1, told

    # where there are evaluations they may end such a run
    words = ("train.eval_every=4", "train.eval_episodes=1", "train.until_return=5")
    train(engine, *learn, *words, "--out", tmp_path / "judged")
    assert "train.until_return=5 changes nothing" not in log_of(tmp_path / "judged")


def test_a_replay_that_is_not_saved_may_have_another_size_when_it_is_resumed(engine, tmp_path):
    run = tmp_path / "run"
    words = ("env.count=4", "train.steps=240", "tdmpc2.seed_steps=1000", "train.replay_capacity=200")
    train(engine, "tdmpc2", "pendulum", *SMALL, *words, "train.save_replay=false", "--out", run)
    told = train(engine, "--resume", run, "train.steps=480")
    assert "the replay keeps 200 rows; a new run" in told and "so does this one by train.replay_capacity=0" in told
    told = train(engine, "--resume", run, "train.steps=720", "train.replay_capacity=40")
    assert "changed train.replay_capacity: 200 -> 40" in told and "the replay keeps" not in told
    # by the length of the run, as a new one has it, and that is kept
    told = train(engine, "--resume", run, "train.steps=960", "train.replay_capacity=0")
    assert "changed train.replay_capacity: 40 -> 964" in told and "the replay keeps" not in told
    assert "  replay_capacity: 964\n" in (run / "config.yaml").read_text()
