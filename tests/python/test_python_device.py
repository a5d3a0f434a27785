"""Environments, policies and replays as Python has them, where MAGLEV_TEST_DEVICE says (default: cpu): tensors lie there, and
what they hold is the processor's. bench/gpu runs this file on a GPU."""

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(os.environ.get("MAGLEV_HOME", Path(__file__).resolve().parents[2])) / "python"))
import maglev  # noqa: E402

DEVICE = os.environ.get("MAGLEV_TEST_DEVICE", "cpu")
PLACE = torch.device(DEVICE).type


def played(device, actions, name="cartpole"):
    """All that an environment gave for these actions, on the processor; everything lay on `device`."""
    shown = []
    with maglev.make(name, actions.shape[1], seed=5, device=device) as envs:
        obs, info = envs.reset()
        for row in actions:
            obs, reward, terminated, truncated, info = envs.step(row.to(envs.device))
            given = [obs, reward, terminated, truncated, *info.values()]
            assert all(column.device.type == torch.device(device).type for column in given)
            # no wait in between: what is copied is read behind the step, in the stream that torch has
            shown.append([column.to("cpu", torch.float32) for column in given])
    return shown


def test_steps_on_the_device_give_what_the_processor_does():
    actions = torch.randint(2, (100, 64), generator=torch.Generator().manual_seed(1))
    for there, here in zip(played(DEVICE, actions), played("cpu", actions)):
        for a, b in zip(there, here):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_a_loop_of_torchs_own_learns_from_tensors_of_the_device():
    torch.manual_seed(0)
    envs = maglev.make("cartpole", 256, seed=1, device=DEVICE)
    policy = torch.nn.Linear(4, 2).to(envs.device)
    optimiser = torch.optim.Adam(policy.parameters(), 0.01)
    obs, info = envs.reset()
    for _ in range(20):
        distribution = torch.distributions.Categorical(logits=policy(obs))
        action = distribution.sample()
        log_prob = distribution.log_prob(action)
        obs, reward, terminated, truncated, info = envs.step(action)
        optimiser.zero_grad()
        (-log_prob * reward).mean().backward()
        optimiser.step()
    assert policy.weight.device.type == PLACE and policy.weight.isfinite().all()
    assert envs.totals()["episodes"] >= 0


def test_a_replay_of_the_device_draws_what_the_processors_does(tmp_path):
    envs = maglev.make("pendulum", 4, {"env.max_steps": 20}, seed=5, device="cpu")
    columns = maglev.Columns({"vector": ((3,), torch.float32)}, ((1,), torch.float32), rows=4, device=DEVICE)
    options = {"capacity": 4 * 64, "length": 5, "batch": 32, "extra": {"value": ((), torch.float32)}}
    there, here = maglev.Replay(columns, **options), maglev.Replay(columns._replace(device="cpu"), **options)
    obs, info = envs.reset()
    for step in range(150):
        action = envs.sample()
        seen, reward, terminated, truncated, told = envs.step(action)
        given = {"obs": obs, "action": action, "reward": reward, "terminated": terminated, "truncated": truncated, **info}
        for replay in (there, here):
            replay.add(**{name: column.to(replay.device) for name, column in given.items()}, value=reward)
        obs, info = seen, told
        if step < 30 or step % 10:
            continue
        a, b = there.sample(), here.sample()
        assert a.obs.device.type == PLACE and len(there) == len(here)
        there.update(a, {"value": a.reward + step}, first=2), here.update(b, {"value": b.reward + step}, first=2)
        for name in ("obs", "action", "reward", "terminated", "truncated", "is_first", "time", "row"):
            assert torch.equal(getattr(a, name).cpu(), getattr(b, name)), name
        assert torch.equal(a.extra["value"].cpu(), b.extra["value"])
    there.save(tmp_path / "memory")
    loaded = maglev.Replay.load(tmp_path / "memory", device="cpu")
    assert torch.equal(loaded.sample(3).obs, here.sample(3).obs) and there.faults == 0


def test_a_policy_acts_on_rows_of_the_device_as_on_the_processors(tmp_path):
    settings = {"env.count": 8, "ppo.rollout": 32, "ppo.minibatch": 64, "seed": 3, "train.steps": 2048}
    settings |= {"device": DEVICE, "train.precision": "fp32"}
    run = maglev.train("ppo", "cartpole", settings, out=tmp_path / "run", sinks=["jsonl"])
    rows = torch.linspace(-0.2, 0.2, 64).reshape(16, 4)
    there, here = maglev.load(run.folder, device=DEVICE), maglev.load(run.folder, device="cpu")
    assert there.device.type == PLACE
    acted = there.act(rows.to(there.device))
    assert acted.device.type == PLACE
    logits = there.log_probs(rows.to(there.device)).cpu()
    torch.testing.assert_close(logits, here.log_probs(rows), rtol=1e-3, atol=1e-3)
    # where the two actions are not alike to the last bit
    clear = (logits[:, 0] - logits[:, 1]).abs() > 1e-3
    assert torch.equal(acted.cpu()[clear], here.act(rows)[clear])


@pytest.mark.skipif(PLACE == "cpu", reason="a processor has no memory of its own")
def test_steps_take_no_more_memory_of_the_device_from_call_to_call():
    envs = maglev.make("cartpole", 1024, seed=1, device=DEVICE, copy=False)
    envs.reset()
    actions = torch.zeros(1024, dtype=torch.long, device=envs.device)
    for _ in range(10):
        envs.step(actions)
    before = torch.cuda.memory_allocated()
    for _ in range(100):
        envs.step(actions)
    assert torch.cuda.memory_allocated() == before
