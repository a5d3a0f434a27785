"""How far an exported model is from what the policy did: check.py MODEL SAMPLES [RETURNS]; alone, whether it can run.

SAMPLES is what `maglev export RUN --samples FILE` writes. With RETURNS, by commas, of the policy's episodes, a model in 8
bits plays as many. Exit status: 0 alike, 1 not, 3 a package is missing, 4 the model cannot be run.
"""

import json
import sys
import traceback

try:
    import numpy as np
    import onnxruntime
except ImportError:
    sys.exit(3)

from check_int8 import Rounded, plays_as_well

TYPES = {"F32": "<f4", "I32": "<i4", "U8": "u1"}
# of a number, or of 1 where it is smaller
FARTHEST = 1e-5
# World models have LayerNorms, which make much of little where they are trained, of rounding too: of their rows so many are
# that near, and a few may be farther apart, where another model's would all be
FARTHEST_OF_AMPLIFIED, FARTHEST_OF_ANY = 1e-4, 1e-3
LEAST_NEAR = 0.99
# the share of actions that are categories that must be the same
LEAST_EQUAL = 0.9999
MOST_ROWS = 1024
# rows a call, and how many rows are tried so
SMALL_BATCHES = (1, 7, 64)
TRIED_ROWS = 256


def read_samples(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], TYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
    }


class Compared:
    """Outputs of the model beside the policy's, call by call."""

    def __init__(self, heads, amplified):
        self.heads = heads  # categories of each head of the action
        self.near = FARTHEST_OF_AMPLIFIED if amplified else FARTHEST
        self.some_far = amplified
        self.farthest, self.rows, self.apart = {}, {}, {}

    def add(self, ours, theirs):
        """Counts the rows of a call; returns those in which a whole number differs."""
        differ = np.zeros(len(ours["action"]), bool)
        for name, x in ours.items():
            assert x.shape == theirs[name].shape, f"{name}: {theirs[name].shape} in place of {x.shape}"
            if x.dtype.kind != "f":
                unequal = (x != theirs[name]).reshape(len(x), -1).any(1)
                self.count(name, unequal & ~self.tied(name, ours, theirs))
                differ |= unequal
        # what follows from another choice is another number
        follows = differ if any(name.startswith("next_") for name in ours) else np.zeros_like(differ)
        for name, x in ours.items():
            if x.dtype.kind == "f":
                y = theirs[name]
                with np.errstate(invalid="ignore"):
                    # also where both are infinite
                    gap = np.where(x == y, 0, np.abs(y - x) / np.maximum(1, np.abs(x)))[~follows]
                gap[np.isnan(gap)] = np.inf
                self.farthest[name] = max(self.farthest.get(name, 0), float(np.max(gap, initial=0)))
                self.count(name, ~(gap <= self.near).reshape(len(gap), -1).all(1))
        return differ

    def count(self, name, apart):
        self.rows[name] = self.rows.get(name, 0) + len(apart)
        self.apart[name] = self.apart.get(name, 0) + int(apart.sum())

    def tied(self, name, ours, theirs):
        """Rows whose other categories are as likely as the policy's."""
        if name != "action" or "log_probs" not in ours:
            return np.zeros(len(ours[name]), bool)
        first = np.cumsum([0, *self.heads[:-1]])
        ours_of, theirs_of = (
            np.take_along_axis(ours["log_probs"], first + actions["action"], 1) for actions in (ours, theirs)
        )
        return (np.abs(ours_of - theirs_of) <= FARTHEST).all(1)

    def alike(self, name):
        if name not in self.farthest:
            return self.apart[name] <= (1 - LEAST_EQUAL) * self.rows[name]
        most = (1 - LEAST_NEAR) * self.rows[name] if self.some_far else 0
        return self.apart[name] <= most and self.farthest[name] <= FARTHEST_OF_ANY


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def compare(session, samples, found):
    """Runs the samples through the model; `found`, Compared or Rounded, hears of each call."""
    given = [i.name for i in session.get_inputs()]
    names = [o.name for o in session.get_outputs()]
    inputs = {name: samples["input/" + name] for name in given if "input/" + name in samples}
    outputs = {name: samples["output/" + name] for name in names}
    carry = {name: samples["carry/" + name] for name in given if "carry/" + name in samples}
    if carry:
        for t in range(len(outputs["action"])):
            ours = {name: x[t] for name, x in outputs.items()}
            theirs = dict(zip(names, session.run(names, {**{n: x[t] for n, x in inputs.items()}, **carry})))
            differ = found.add(ours, theirs)
            # what the model leaves is what it goes on from, but where the two have parted
            carry = {}
            for name in given:
                if "next_" + name in theirs:
                    new = theirs["next_" + name].copy()
                    new[differ] = ours["next_" + name][differ]
                    carry[name] = new
        return

    inputs, outputs = ({n: x.reshape(-1, *x.shape[2:]) for n, x in of.items()} for of in (inputs, outputs))
    rows = len(outputs["action"])
    for batch, most in [(MOST_ROWS, rows), *((size, TRIED_ROWS) for size in SMALL_BATCHES)]:
        for first in range(0, min(most, rows), batch):
            part = slice(first, min(first + batch, most, rows))
            made = session.run(names, {n: x[part] for n, x in inputs.items()})
            found.add({n: x[part] for n, x in outputs.items()}, dict(zip(names, made)))


def check_rounded(session, about, heads, samples, returns):
    found = Rounded(heads)
    compare(session, samples, found)
    found.print()
    wrong = found.bad()
    if wrong:
        print(f"the model is farther from the policy than 8 bits explain: {', '.join(wrong)}")
    as_good = returns is None or plays_as_well(session, about, [float(x) for x in returns.split(",") if x])
    if not as_good:
        print("the model plays worse than the policy")
    if wrong or not as_good:
        return 1
    print(f"the model does what the policy does, as far as 8 bits go, by onnxruntime {onnxruntime.__version__}")
    return 0


def main():
    if len(sys.argv) == 1:
        return 0
    session, samples = session_of(sys.argv[1]), read_samples(sys.argv[2])
    about = session.get_modelmeta().custom_metadata_map
    heads = [int(head) for head in about.get("action_categories", "").split(",") if head]
    if about.get("precision") == "int8":
        return check_rounded(session, about, heads, samples, next(iter(sys.argv[3:]), None))
    found = Compared(heads, about.get("rounding") == "amplified")
    compare(session, samples, found)
    wide = max(map(len, found.rows))
    print(f"{'output':{wide}}  {'rows':>7}  {'farthest':>8}  {'apart':>6}")
    for name, rows in found.rows.items():
        farthest = f"{found.farthest[name]:8.1e}" if name in found.farthest else " " * 8
        print(f"{name:{wide}}  {rows:7}  {farthest}  {found.apart[name]:6}")
    bad = [name for name in found.rows if not found.alike(name)]
    if bad:
        print(f"the model is not the policy: {', '.join(bad)}")
        return 1
    print(f"the model does what the policy does, by onnxruntime {onnxruntime.__version__}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:
        traceback.print_exc()
        sys.exit(4)
