"""maglev.Replay: what comes out is what went in, in slices of one episode of one row, whatever the sizes; where
MAGLEV_TEST_DEVICE says (default: cpu)."""

import os
import pickle
import re
import sys
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import BUILD, HOME

if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
    pytest.skip("Python's headers are not on this machine", allow_module_level=True)

os.environ.setdefault("MAGLEV_BUILD", str(BUILD))
sys.path.insert(0, str(HOME / "python"))
import maglev  # noqa: E402

DEVICE = os.environ.get("MAGLEV_TEST_DEVICE", "cpu")
COLUMNS = {"mark": ((3,), torch.int32), "image": ((5, 2), torch.uint8)}
EXTRA = {"where": ((2,), torch.int64), "half": ((), torch.float16)}


def columns(rows, action=((2,), torch.float32)):
    return maglev.Columns(COLUMNS, action, rows=rows, device=DEVICE)


class Counters:
    """Rows that say what they are (row, episode, step in it) and end after 1 to `longest` steps."""

    def __init__(self, rows, seed, longest=9):
        self.rng, self.longest = np.random.default_rng(seed), longest
        self.row = np.arange(rows)
        self.episode, self.step = np.zeros(rows, int), np.zeros(rows, int)
        self.left = self.rng.integers(1, longest + 1, rows)
        self.time = 0

    def next(self):
        """One step of all rows, as add() takes it."""
        final = self.left == 0
        ends = self.left == 1
        cut = self.rng.random(len(self.row)) < 0.5
        step = {
            "obs": {
                "mark": np.stack([self.row, self.episode, self.step], -1),
                "image": np.tile(self.step[:, None, None] % 251, (1, 5, 2)),
            },
            "action": np.stack([self.row, self.step], -1).astype(np.float32),
            "reward": np.where(final, 0.0, self.step + 0.5),
            "terminated": ends & ~cut,
            "truncated": ends & cut,
            "is_first": self.step == 0,
            "where": np.stack([np.full(len(self.row), self.time), self.row], -1),
            "half": self.step / 2,
        }
        self.episode += final
        self.step = np.where(final, 0, self.step + 1)
        self.left = np.where(final, self.rng.integers(1, self.longest + 1, len(self.row)), self.left - 1)
        self.time += 1
        return step


def filled(steps, rows=3, seed=1, longest=9, **options):
    replay = maglev.Replay(columns(rows), extra=EXTRA, **options)
    counters = Counters(rows, seed, longest)
    for _ in range(steps):
        replay.add(**counters.next())
    return replay, counters


def expect_as_added(batch, crossing=False):
    """Every value follows from the marks, and the marks follow each other."""
    mark, L = batch.obs["mark"].cpu(), batch.reward.shape[0]
    if not crossing:
        assert torch.equal(mark[:, :, :2], mark[:1, :, :2].expand_as(mark[:, :, :2]))
        assert torch.equal(mark[:, :, 2], mark[:1, :, 2] + torch.arange(L + 1).unsqueeze(1))
        # an episode ends a slice, or lies behind it
        assert not (batch.terminated | batch.truncated)[:-1].any() and not batch.is_first[1:].any()
    step = mark[..., 2]
    assert torch.equal(batch.obs["image"].cpu(), (step % 251)[..., None, None].expand(*step.shape, 5, 2).byte())
    assert torch.equal(batch.is_first.cpu(), step == 0)
    assert torch.equal(batch.action.cpu(), torch.stack([mark[:-1, :, 0], step[:-1]], -1).float())
    assert torch.equal(batch.extra["half"].cpu(), (step[:-1] / 2).half())
    assert torch.equal(batch.row.cpu(), mark[0, :, 0].long())
    times = batch.time.cpu() + torch.arange(L).unsqueeze(1)
    where = torch.stack([times, batch.row.cpu().expand(L, -1)], -1)
    assert torch.equal(batch.extra["where"].cpu(), where)
    final = batch.reward.cpu() == 0
    assert torch.equal(batch.reward.cpu(), torch.where(final, torch.zeros(()), step[:-1] + 0.5))
    assert crossing or not final.any()


def values_of(batch):
    parts = [*batch.obs.values(), batch.action, batch.reward, batch.terminated, batch.truncated, batch.is_first]
    return [*parts, *batch.extra.values(), batch.time, batch.row]


def expect_same(a, b):
    assert all(torch.equal(x, y) for x, y in zip(values_of(a), values_of(b), strict=True))


@pytest.mark.parametrize("length", [1, 3, 8])
@pytest.mark.parametrize(
    "options", [{}, {"running": False}, {"sampling": "trajectory"}, {"sampling": "trajectory", "running": False}]
)
def test_slices_are_what_was_added_of_one_episode_of_one_row(length, options):
    replay = maglev.Replay(columns(4), capacity=4 * 40, length=length, batch=64, extra=EXTRA, **options)
    counters = Counters(4, length)
    drawn = 0
    # three times round the ring
    for _ in range(120):
        replay.add(**counters.next())
        if replay.drawable:
            batch = replay.sample()
            expect_as_added(batch)
            assert batch.time.min() >= counters.time - 40 and batch.time.max() + length < counters.time
            drawn += 1
    assert drawn > 90 and len(replay) == replay.capacity == 160 and replay.faults == 0


def test_slices_that_cross_begin_everywhere_and_say_where_episodes_do():
    replay, _ = filled(200, capacity=3 * 50, length=12, batch=512, crossing=True)
    batch = replay.sample()
    expect_as_added(batch, crossing=True)
    assert batch.is_first[1:].any() and set(batch.time.tolist()) == set(range(150, 188))


def test_an_environments_steps_come_back():
    envs = maglev.make("pendulum", 4, {"env.max_steps": 20}, seed=3, device=DEVICE, copy=False)
    replay = maglev.Replay(envs, capacity=4 * 64, length=5, batch=32)
    obs, info = envs.reset()
    added = []
    for _ in range(100):
        action = envs.sample()
        # views that the environments write again two steps later
        seen, reward, terminated, truncated, told = envs.step(action)
        step = {"obs": obs, "action": action, "reward": reward, "terminated": terminated, "truncated": truncated, **info}
        replay.add(**step)
        added.append({name: column.clone() for name, column in step.items()})
        obs, info = seen, told
    batch = replay.sample()
    for b in range(32):
        time, row = int(batch.time[b]), int(batch.row[b])
        for l in range(5):
            assert torch.equal(batch.obs[l, b], added[time + l]["obs"][row])
            assert torch.equal(batch.obs[l + 1, b], added[time + l + 1]["obs"][row])
            for name in ("action", "reward", "terminated", "truncated"):
                assert torch.equal(getattr(batch, name)[l, b], added[time + l][name][row])
    # of the first that are held the rest, which is a slice long
    assert replay.episodes == 4 * 3 and batch.action.shape == (5, 32, 1)


def test_categories_and_masks_are_as_environments_have_them():
    envs = maglev.make("kg", 2, seed=1, device=DEVICE)
    replay = maglev.Replay(envs, capacity=200, batch=8)
    obs, info = envs.reset()
    for _ in range(30):
        action = envs.sample()
        seen, reward, terminated, truncated, told = envs.step(action)
        replay.add(obs=obs, action=action, reward=reward, terminated=terminated, truncated=truncated, **info)
        obs, info = seen, told
    batch = replay.sample()
    assert batch.action.dtype == torch.int64 and batch.action.shape[:2] == (1, 8)
    assert batch.mask.shape == (2, 8, sum(envs.spec.heads)) and batch.mask.dtype == torch.bool
    chosen = batch.mask[0].gather(1, batch.action[0].reshape(8, -1)[:, :1])
    assert chosen.all()


def test_the_same_memory_and_number_are_the_same_batch():
    replay, _ = filled(60, capacity=300, length=3, batch=32, seed=5)
    again, _ = filled(60, capacity=300, length=3, batch=32, seed=5)
    other = maglev.Replay(columns(3), capacity=300, length=3, batch=32, extra=EXTRA, seed=6)
    counters = Counters(3, 1)
    for _ in range(60):
        other.add(**counters.next())
    seventh = replay.sample(number=7)
    assert not torch.equal(seventh.time, other.sample(7).time)
    # those without a number count from 0, whatever was asked for between them
    for number in range(10):
        batch = replay.sample()
        assert not torch.equal(batch.time, seventh.time) or number == 7
        expect_same(batch, again.sample(number))
        expect_same(replay.sample(7), seventh)


def test_every_start_is_as_likely():
    replay, _ = filled(41, rows=2, longest=50, capacity=200, batch=500, seed=2)
    counts = np.zeros((2, 41))
    for _ in range(80):
        batch = replay.sample()
        np.add.at(counts, (batch.row.cpu().numpy(), batch.time.cpu().numpy()), 1)
    possible = counts > 0
    # all but what only began an episode, and the newest, of which nobody knows what it led to
    assert not possible[:, 40].any() and possible.sum() >= 76
    expected = 40_000 / possible.sum()
    chi_square = ((counts[possible] - expected) ** 2 / expected).sum()
    assert chi_square < possible.sum() + 5 * (2 * possible.sum()) ** 0.5


def test_a_batch_is_a_copy_or_what_its_thread_draws_into():
    for copy in (True, False):
        replay, _ = filled(60, capacity=300, copy=copy)
        first = replay.sample()
        mark = first.obs["mark"].clone()
        second = replay.sample()
        assert torch.equal(first.obs["mark"], mark) == copy and torch.equal(first.reward, second.reward) != copy
        with ThreadPoolExecutor(1) as other:
            assert not torch.equal(other.submit(replay.sample).result().obs["mark"], second.obs["mark"])


def test_what_is_drawn_without_gradients_may_be_learned_from():
    for copy in (True, False):
        replay, counters = filled(60, capacity=300, copy=copy)
        with torch.inference_mode():
            replay.add(**counters.next())
            drawn = replay.sample()
        weight = torch.ones((), device=DEVICE, requires_grad=True)
        (replay.sample().reward * weight + drawn.reward * weight).sum().backward()
        assert weight.grad > 0


def test_columns_are_written_back_where_they_came_from():
    replay, counters = filled(60, capacity=3 * 40, length=4, batch=16)
    batch = replay.sample(3)
    mine = torch.stack([batch.time + 1000, batch.row], -1).expand(4, 16, 2)
    half = batch.extra["half"].clone()
    replay.update(batch, {"where": mine}, first=1)
    again = replay.sample(3)
    # its first step is another slice's later one, or as it was
    untouched = again.extra["where"][0, :, 0] < 1000
    assert untouched.any() and (again.extra["where"][1:, :, 0] >= 1000).all()
    assert torch.equal(again.extra["half"], half)
    replay.update(batch, {"where": mine})
    assert (replay.sample(3).extra["where"][..., 0] >= 1000).all()
    # where the ring has gone on nothing is written
    for _ in range(60):
        replay.add(**counters.next())
    replay.update(batch, {"where": mine})
    for number in range(20):
        expect_as_added(replay.sample(number))


def test_a_saved_replay_goes_on_to_the_bit(tmp_path):
    for steps in (0, 1, 30, 150):
        replay, counters = filled(steps, capacity=3 * 50, length=2, batch=32)
        if replay.drawable:
            replay.sample(), replay.sample()
        replay.save(tmp_path / "memory")
        # what was saved before is replaced, not kept beside
        assert len(list((tmp_path / "memory" / "checkpoints").glob("step_*"))) == 1
        loaded = maglev.Replay.load(tmp_path / "memory", device=DEVICE)
        assert len(loaded) == len(replay) and repr(loaded) == repr(replay) and loaded.episodes == replay.episodes
        for _ in range(20):
            step = counters.next()
            replay.add(**step), loaded.add(**step)
            if replay.drawable:
                expect_same(replay.sample(), loaded.sample())
        expect_as_added(loaded.sample())


def test_a_damaged_or_foreign_folder_is_refused(tmp_path):
    with pytest.raises(maglev.Error, match="holds no saved replay"):
        maglev.Replay.load(tmp_path)
    replay, _ = filled(30, capacity=300)
    replay.save(tmp_path / "memory")
    state = next((tmp_path / "memory").rglob("state.safetensors"))
    data = bytearray(state.read_bytes())
    data[-9] ^= 1
    state.write_bytes(data)
    with pytest.raises(maglev.Error, match="holds no saved replay: "):
        maglev.Replay.load(tmp_path / "memory")
    maglev.train("ppo", "cartpole", {"train.steps": 512, "env.count": 8}, out=tmp_path / "run", sinks=["jsonl"])
    with pytest.raises(maglev.Error, match="checkpoints of a run"):
        replay.save(tmp_path / "run")


def test_threads_sample_while_one_adds():
    replay, counters = filled(40, rows=8, capacity=8 * 30, length=3, batch=64, threads=2)
    done = threading.Event()

    def sample(which):
        drawn = 0
        while not done.is_set() or drawn < 20:
            batch = replay.sample()
            mark = batch.obs["mark"]
            assert torch.equal(mark[:, :, 2], mark[:1, :, 2] + torch.arange(4, device=mark.device).unsqueeze(1))
            assert torch.equal(batch.extra["where"][:, :, 1], batch.row.expand(3, -1))
            assert 0 < len(replay) <= replay.capacity and replay.episodes > 0
            if which == 0:
                replay.update(batch, {"half": batch.extra["half"]})
            drawn += 1
        return drawn

    with ThreadPoolExecutor(4) as pool:
        samplers = [pool.submit(sample, which) for which in range(4)]
        for _ in range(300):
            replay.add(**counters.next())
        done.set()
        assert min(sampler.result() for sampler in samplers) >= 20
    expect_as_added(replay.sample())


def test_gymnasiums_environments_are_told_by_their_columns():
    gymnasium = pytest.importorskip("gymnasium")
    envs = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    replay = maglev.Replay(maglev.Columns({"obs": ((4,), torch.float32)}, ((), torch.int64), rows=2), batch=16)
    obs, _ = envs.reset(seed=1)
    first, ended = np.ones(2, bool), np.zeros(2, bool)
    for _ in range(60):
        action = np.zeros(2, int)
        seen, reward, terminated, truncated, _ = envs.step(action)
        replay.add(obs=obs, action=action, reward=reward, terminated=terminated, truncated=truncated, is_first=first)
        # the step after an episode's last begins the next one
        obs, first, ended = seen, ended, terminated | truncated
    assert replay.episodes > 6
    batch = replay.sample()
    assert batch.obs.shape == (2, 16, 4) and batch.action.shape == (1, 16) and batch.action.dtype == torch.int64
    assert (batch.reward == 1).all()


def test_what_is_wrong_is_said(tmp_path):
    envs = maglev.make("cartpole", 3, device=DEVICE)
    obs, info = envs.reset()
    replay = maglev.Replay(envs, extra={"value": ((), torch.float32)}, batch=4, length=2)
    none = torch.zeros(3, dtype=torch.bool)
    step = {"obs": obs, "action": none.long(), "reward": torch.zeros(3), "terminated": none, "truncated": none, **info}
    step["value"] = torch.zeros(3)

    def add(**other):
        return lambda: replay.add(**{name: column for name, column in (step | other).items() if column is not ...})

    wrong = [
        (replay.sample, "nothing can be drawn: no episode that is held has the 2 transitions of a slice"),
        (add(obs=obs[:2]), "[add] obs vector must have shape [3, 4], got [2, 4]"),
        (add(obs={"pixels": obs}), "lacks vector; it has pixels"),
        (add(action=torch.zeros(3)), "[add] actions are categories, integers; got Float"),
        (add(action=torch.full((3,), 2)), "[add] an action must be in 0..1, got 2 in row 0"),
        (add(action=torch.zeros(4).long()), "[add] actions must have shape [3, 1] or [3], got [4]"),
        (add(reward=torch.zeros(3, 1)), "[add] reward must have shape [3], got [3, 1]"),
        (add(terminated=torch.zeros(3)), "[add] terminated must be flags, bool or integers, kept as Bool, got Float"),
        (add(mask=torch.ones(3, 2)), "got a mask, and these rows have none"),
        (add(value=...), "[add] lacks value"),
        (add(valu=torch.zeros(3)), "unknown column 'valu'; did you mean value?"),
        (add(value="many"), "[add] value must be a tensor"),
        (lambda: maglev.Replay(envs, capacity=9, length=4), "raise the capacity to at least 21"),
        (lambda: maglev.Replay(envs, **{"pinned": True} if DEVICE == "cpu" else {"folder": tmp_path}), "; leave it out"),
        (lambda: maglev.Replay(envs, length=0), "length must be in 1..2147483647, got 0"),
        (lambda: maglev.Replay(envs, batch=-1), "batch must be a whole number"),
        (lambda: maglev.Replay(envs, sampling="uniform"), "sampling must be start or trajectory, got 'uniform'"),
        (lambda: maglev.Replay("cartpole"), "of environments as maglev.make gives them, or of maglev.Columns"),
        (lambda: maglev.Replay(envs, extra={"reward": ((), torch.float32)}), "a word other than obs, action, reward"),
        (lambda: maglev.Replay(envs, extra={"value": torch.float32}), "value must be (shape, dtype)"),
        (lambda: maglev.Replay(envs, extra={f"c{i}": ((), torch.float32) for i in range(30)}), "at most 24 columns"),
        (lambda: maglev.Replay(envs, extra={"c": ((), torch.complex64)}), "c must be of float64, float32, float16"),
        (lambda: maglev.Replay(maglev.Columns({"x": ((2,), torch.float64)}, ((), torch.int64))), "uint8, int32 or float32"),
        (lambda: maglev.Replay(maglev.Columns({"x": ((2,), torch.uint8)}, ((), torch.bool))), "actions are integers"),
        (lambda: maglev.Replay(maglev.Columns({"x": ((2,), torch.uint8)}, ((), torch.float64))), "float32; got float64"),
        (lambda: maglev.Replay(maglev.Columns({}, ((), torch.int64))), "at least one column of observations"),
        (lambda: pickle.dumps(replay), "a replay stays where it was made"),
    ]
    for act, why in wrong:
        with pytest.raises(maglev.Error, match=re.escape(why)):
            act()
    # what was refused was not added
    assert len(replay) == 0
    for _ in range(4):
        add()()
        step["is_first"] = none
    batch = replay.sample()
    twin = maglev.Replay(envs, extra={"value": ((), torch.float32)}, batch=4, length=2)
    later = [
        (lambda: twin.update(batch, {"value": batch.reward}), "takes a batch that this replay gave"),
        (lambda: replay.update(batch, {"valu": batch.reward}), "did you mean value?"),
        (lambda: replay.update(batch, {"value": batch.reward[0]}), "[update] value must have shape [2, 4], got [4]"),
        (lambda: replay.update(batch, {"value": batch.reward}, first=2), "first is a step of a slice, in 0..1, got 2"),
    ]
    later.append((lambda: replay.update(pickle.loads(pickle.dumps(batch)), {"value": batch.reward}), "no copy of one"))
    for act, why in later:
        with pytest.raises(maglev.Error, match=re.escape(why)):
            act()
    # which is one like any, for whoever only learns from it
    copied = pickle.loads(pickle.dumps(batch))
    assert torch.equal(copied.obs, batch.obs) and torch.equal(copied.row, batch.row)
    assert torch.equal(copied.extra["value"], batch.extra["value"]) and copied.mask is None


def test_more_than_memory_holds_is_refused():
    of = maglev.Columns(COLUMNS, ((), torch.int64))
    with pytest.raises(maglev.Error, match="of memory are left; take fewer"):
        maglev.Replay(of, capacity=10**12)


def test_observations_may_lie_on_a_disk(tmp_path):
    of = maglev.Columns(COLUMNS, ((2,), torch.float32), rows=3)
    replay, counters = maglev.Replay(of, capacity=300, length=4, extra=EXTRA, folder=tmp_path), Counters(3, 1)
    for _ in range(150):
        replay.add(**counters.next())
    expect_as_added(replay.sample())


@pytest.mark.skipif(DEVICE != "cpu", reason="flags on a device are not looked at as they come")
def test_an_episode_that_lacks_its_last_observation_is_refused():
    replay, _ = filled(0, rows=1)
    counters = Counters(1, 1, longest=3)
    with pytest.raises(maglev.Error, match="row 0 begins an episode in the step right after the one that ended"):
        for _ in range(9):
            step = counters.next()
            # environments that reset in the step that ends an episode
            if step["is_first"][0] or step["reward"][0] != 0:
                replay.add(**step)

def errors_of(batch):
    """Of each slice, from what is in it."""
    return batch.obs["mark"][0, :, 1:].sum(-1).float() % 5


def test_slices_are_drawn_as_often_as_their_priorities_say():
    replay, _ = filled(60, rows=2, longest=30, capacity=200, batch=512, length=2, priorities=0.5, seed=3)
    # nothing is known yet: all are alike, and each that can be is drawn
    first = replay.sample(0)
    assert first.probability.unique().numel() == 1 and torch.equal(first.weights.cpu(), torch.ones(512))
    for number in range(12):
        batch = replay.sample(number)
        replay.update_priorities(batch, batch.time.float() % 7, epsilon=1)
    counts, chance = np.zeros((2, 60)), np.zeros((2, 60))
    for number in range(100, 180):
        batch = replay.sample(number, beta=1)
        place = (batch.row.cpu().numpy(), batch.time.cpu().numpy())
        np.add.at(counts, place, 1)
        chance[place] = batch.probability.cpu().numpy()
        power = (batch.time.cpu() % 7 + 1) ** 0.5
        assert torch.allclose(batch.probability.cpu() / power, (batch.probability.cpu() / power)[0].expand(512), rtol=1e-4)
        assert torch.allclose(batch.weights.cpu(), (batch.probability.min() / batch.probability).cpu())
    drawn = chance > 0
    assert abs(chance.sum() - 1) < 1e-5
    expected = counts.sum() * chance[drawn]
    chi_square = ((counts[drawn] - expected) ** 2 / expected).sum()
    assert chi_square < drawn.sum() + 5 * (2 * drawn.sum()) ** 0.5
    # with beta 1 weights undo what priorities did
    assert torch.equal(replay.sample(3, beta=0).weights.cpu(), torch.ones(512))


@pytest.mark.parametrize("options", [{}, {"crossing": True}, {"crossing": True, "running": False}])
def test_slices_by_priorities_are_what_was_added(options):
    replay = maglev.Replay(columns(4), capacity=4 * 40, length=3, batch=64, extra=EXTRA, priorities=0.6, **options)
    counters, drawn = Counters(4, 7), 0
    for _ in range(160):
        replay.add(**counters.next())
        if replay.drawable:
            batch = replay.sample()
            expect_as_added(batch, crossing="crossing" in options)
            assert batch.time.min() >= counters.time - 40 and batch.time.max() + 3 < counters.time
            # of slices, or of each step
            errors = errors_of(batch)
            replay.update_priorities(batch, errors if drawn % 2 else errors.expand(3, 64))
            drawn += 1
    assert drawn > 140 and replay.faults == 0 and replay.episodes > 0


def test_new_slices_have_the_largest_priority_and_the_last_of_two_counts():
    replay, counters = filled(50, rows=1, longest=100, capacity=100, batch=200, priorities=1)
    batch = replay.sample()
    errors = torch.full((200,), 0.25)
    replay.update_priorities(batch, errors, epsilon=0)
    # of one start that was drawn several times
    time = int(batch.time.mode().values)
    places = (batch.time == time).nonzero().flatten().cpu()
    errors[places[0]], errors[places[-1]] = 9, 4
    replay.update_priorities(batch, -errors, epsilon=0)
    for _ in range(2):
        replay.add(**counters.next())
    again = replay.sample()
    chance = dict(zip(again.time.tolist(), again.probability.tolist()))
    newest = max(chance)
    assert newest >= 49 and len(chance) > 5
    # 9 was the largest, though another took its place
    assert chance[newest] == pytest.approx(9 / 4 * chance[time], rel=1e-3)
    assert chance[newest] == pytest.approx(36 * min(chance.values()), rel=1e-3)


def test_a_replay_with_priorities_goes_on_to_the_bit(tmp_path):
    for steps in (0, 1, 30, 150):
        replay, counters = filled(steps, capacity=3 * 50, length=2, batch=32, priorities=0.7)
        for _ in range(5 if replay.drawable else 0):
            batch = replay.sample()
            replay.update_priorities(batch, errors_of(batch))
        replay.save(tmp_path / "memory")
        loaded = maglev.Replay.load(tmp_path / "memory", device=DEVICE)
        for _ in range(20):
            step = counters.next()
            replay.add(**step), loaded.add(**step)
            if replay.drawable:
                mine, other = replay.sample(), loaded.sample()
                expect_same(mine, other)
                assert torch.equal(mine.probability, other.probability) and torch.equal(mine.weights, other.weights)
                for memory, batch in ((replay, mine), (loaded, other)):
                    memory.update_priorities(batch, errors_of(batch))


def test_what_is_wrong_with_priorities_is_said():
    plain, _ = filled(20, capacity=300, batch=8)
    replay, _ = filled(20, capacity=300, batch=8, length=2, priorities=0.6)
    batch = replay.sample()
    assert plain.sample().probability is None and plain.sample().weights is None
    with_sampling = "with priorities every start has one as soon as its slice is there"
    wrong = [
        (lambda: maglev.Replay(columns(3), priorities=5), "[replay] priorities must be in 0..4, got 5"),
        (lambda: maglev.Replay(columns(3), priorities=float("nan")), "[replay] priorities must be in 0..4, got nan"),
        (lambda: maglev.Replay(columns(3), priorities="much"), "[replay] priorities must be a number, got 'much'"),
        (lambda: maglev.Replay(columns(3), priorities=0.6, sampling="trajectory"), with_sampling),
        (lambda: maglev.Replay(columns(3), priorities=0.6, running=False), with_sampling),
        (lambda: replay.sample(beta=2), "[sample] beta must be in 0..1, got 2"),
        (lambda: plain.update_priorities(plain.sample(), torch.zeros(8)), "make it with priorities=0.6"),
        (lambda: replay.update_priorities(plain.sample(), torch.zeros(8)), "[update_priorities] takes a batch that this"),
        (lambda: replay.update_priorities(batch, torch.zeros(9)), "td_errors must have shape [8], got [9]"),
        (lambda: replay.update_priorities(batch, torch.zeros(1, 8)), "td_errors must have shape [2, 8], got [1, 8]"),
        (lambda: replay.update_priorities(batch, torch.zeros(8), epsilon=-1), "epsilon must be in 0..inf, got -1"),
    ]
    if DEVICE == "cpu":
        for bad in (float("nan"), float("inf")):
            wrong.append((lambda bad=bad: replay.update_priorities(batch, torch.full((8,), bad)), "must be finite"))
    for act, why in wrong:
        with pytest.raises(maglev.Error, match=re.escape(why)):
            act()


def test_more_than_can_be_counted_is_refused():
    of = maglev.Columns(COLUMNS, ((), torch.int64))
    with pytest.raises(maglev.Error, match="a batch of 2147483647 slices of 1000000 transitions takes more than the memory"):
        maglev.Replay(of, capacity=1_000_010, length=1_000_000, batch=2**31 - 1)
