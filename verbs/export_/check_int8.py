"""What 8 bits cost a policy: how far an exported model is from it, as a share of how far its own outputs lie apart, and
how well it plays.
"""

import sys
from pathlib import Path

import numpy as np

# mean distances may be this share of an output's deviation over the rows, which counts as the next two at least (the
# second of the output's mean): layers of 8 bits leave 0.1 to 5 %, a scale or a zero that is wrong tens of percent
MOST_SHARE, LEAST_SPREAD, LEAST_OF_MEAN = 0.1, 0.1, 0.01
# the share of rows whose other category the policy holds clearly less likely: by more than log_probs may be off
MOST_CLEAR = 0.01
# of whole numbers that are no choice, such as draws of a state
LEAST_EQUAL = 0.9
EPISODES = 100  # as export.cpp has the policy play
# returns are worse where they are lower by more than this share, and by more standard errors than chance gives
WORSE_SHARE, WORSE_ERRORS = 0.05, 3


class Moments:
    """Of an output's numbers, column by column, and of how far the model's are from them."""

    def __init__(self):
        self.count, self.total, self.squares, self.distance = 0, 0, 0, 0
        self.farthest = 0.0

    def add(self, ours, theirs):
        ours, theirs = (x.reshape(len(x), -1).astype(np.float64) for x in (ours, theirs))
        finite = np.isfinite(ours)
        with np.errstate(invalid="ignore"):
            gap = np.where(ours == theirs, 0, np.abs(theirs - ours))
        gap[np.isnan(gap)] = np.inf
        self.count = self.count + finite.sum(0)
        kept = np.where(finite, ours, 0)
        self.total, self.squares = self.total + kept.sum(0), self.squares + (kept * kept).sum(0)
        self.distance = self.distance + gap.sum(0)
        self.farthest = max(self.farthest, float(gap.max(initial=0)))

    @property
    def mean(self):
        return float(self.distance.sum() / max(1, self.count.sum()))

    @property
    def spread(self):
        """The deviation over the rows, all columns together."""
        count = np.maximum(1, self.count)
        variance = np.maximum(0, self.squares / count - (self.total / count) ** 2)
        return float(np.sqrt((variance * self.count).sum() / max(1, self.count.sum())))

    @property
    def most(self):
        """How far the model may be, in the mean."""
        size = abs(float(self.total.sum())) / max(1, self.count.sum())
        return MOST_SHARE * max(self.spread, LEAST_SPREAD, LEAST_OF_MEAN * size)


class Rounded:
    """Outputs of a model in 8 bits beside the policy's, call by call."""

    def __init__(self, heads):
        self.heads = heads  # categories of each head of the action
        self.rows, self.moments, self.equal = {}, {}, {}
        self.lost = []  # of choices that differ: how much less likely the policy holds the model's

    def add(self, ours, theirs):
        """Counts the rows of a call; returns all of them: each call begins with what the policy remembers."""
        for name, x in ours.items():
            y = theirs[name]
            assert x.shape == y.shape, f"{name}: {y.shape} in place of {x.shape}"
            self.rows[name] = self.rows.get(name, 0) + len(x)
            if x.dtype.kind == "f":
                self.moments.setdefault(name, Moments()).add(x, y)
            else:
                same, of = self.equal.get(name, (0, 0))
                self.equal[name] = (same + int((x == y).sum()), of + x.size)
        if "log_probs" in ours:
            first = np.cumsum([0, *self.heads[:-1]])
            of_ours, of_theirs = (
                np.take_along_axis(ours["log_probs"], first + actions["action"], 1) for actions in (ours, theirs)
            )
            self.lost.extend((of_ours - of_theirs).max(1)[(ours["action"] != theirs["action"]).any(1)])
        return np.ones(len(ours["action"]), bool)

    def clear(self):
        """The share of rows whose choice is clearly another."""
        return sum(lost > self.moments["log_probs"].most for lost in self.lost) / self.rows["action"]

    def bad(self):
        """Names of outputs that are farther than 8 bits explain."""
        names = [name for name, moments in self.moments.items() if not moments.mean <= moments.most]
        for name, (same, of) in self.equal.items():
            chosen = name == "action" and "log_probs" in self.moments
            if self.clear() > MOST_CLEAR if chosen else same < LEAST_EQUAL * of:
                names.append(name)
        return names

    def print(self):
        wide = max(map(len, self.rows))
        print(f"{'output':{wide}}  {'rows':>7}  {'equal':>8}  {'mean':>8}  {'farthest':>8}  {'spread':>8}  {'mean at most':>12}")
        for name, rows in self.rows.items():
            if name in self.equal:
                same, of = self.equal[name]
                print(f"{name:{wide}}  {rows:7}  {100 * same / of:6.2f} %")
            else:
                of = self.moments[name]
                figures = f"{of.mean:8.1e}  {of.farthest:8.1e}  {of.spread:8.1e}  {of.most:12.1e}"
                print(f"{name:{wide}}  {rows:7}  {'':8}  {figures}")
        if "log_probs" in self.moments:
            print(f"rows whose category the policy holds clearly less likely: {100 * self.clear():.2f} %")


class ModelPlayer:
    """A model as maglev.evaluate takes a player: a function (obs, info) -> actions of a block of rows."""

    def __init__(self, session, seed=1):
        self.session = session
        self.given = session.get_inputs()
        self.names = ["action", *(o.name for o in session.get_outputs() if o.name.startswith("next_"))]
        self.rng = np.random.default_rng(seed)
        self.carried = {}  # by each block's first row

    def __call__(self, obs, info):
        rows = len(info["is_first"])
        carry = self.carried.setdefault(info["rows"].start, {})
        known = {"is_first": info["is_first"], "action_mask": info.get("mask")}
        if isinstance(obs, dict):
            known |= obs
        feed = {}
        for port in self.given:
            if port.name == "noise":
                feed[port.name] = self.rng.random((rows, *port.shape[1:]), dtype=np.float32)
            elif port.name.startswith("carry_"):
                kind = np.uint8 if port.type == "tensor(uint8)" else np.float32
                feed[port.name] = carry.get(port.name, np.zeros((rows, *port.shape[1:]), kind))
            else:
                # what shows one column has no names
                x = known.get(port.name, obs).numpy()
                feed[port.name] = x.view(np.uint8) if x.dtype == bool else x
        action, *following = self.session.run(self.names, feed)
        carry.update((name.removeprefix("next_"), x) for name, x in zip(self.names[1:], following))
        return action


def plays_as_well(session, about, own):
    """Prints the returns `own` of the policy's episodes beside the model's, of the same seeds; whether the model's are no
    worse. Where the engine's Python module lacks what that needs it says so.
    """
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    try:
        import maglev
    except ImportError as error:
        print(f"how well the model plays is not known: {str(error).splitlines()[0]}")
        return True
    env = about["environment"]
    if env not in maglev.environments():
        print(f"how well the model plays is not known: the engine's Python module has no {env}")
        return True
    settings = [f"{name}={value}" for name, value in about.items() if name.startswith("env.")]
    judged = maglev.evaluate(ModelPlayer(session), env, settings=settings, episodes=EPISODES)["returns"]
    if not own or not judged:
        print("how well the model plays is not known: no episode ended")
        return True
    means, errors = zip(*((np.mean(x), np.std(x) / len(x) ** 0.5) for x in (own, judged)))
    for who, mean, error, x in zip(("the policy", "the model"), means, errors, (own, judged)):
        print(f"return of {who}: {mean:.2f}, standard error {error:.2f}, {len(x)} episodes")
    lower = means[0] - means[1]
    worse = lower > WORSE_ERRORS * float(np.hypot(*errors)) and lower > WORSE_SHARE * abs(means[0])
    return bool(np.isfinite(lower)) and not worse
