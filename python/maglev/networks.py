"""Networks that are torch.nn.Modules, as the engine trains them: forward as a list of torch's operations, in a file."""

from __future__ import annotations

import copy
import inspect
import io
import json
import logging
import math
import operator
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch.func import functional_call

from maglev import _engine
from maglev.given import environment_named
from maglev.settings import Settings, assignments
from maglev.tensor_files import read_tensors, write_tensors

KEY = "maglev_network"  # of a file's metadata, as networks/exported/graph.cpp has it
FILE = "network.safetensors"  # of a run's folder
ROWS = 7  # of the observations that forward is followed with; a size of its own

# sizes and results, by Python's functions
FUNCTIONS: dict[Callable[..., Any], str] = {
    operator.getitem: "item",
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.mod: "mod",
}
aten = torch.ops.aten
# gives what it is given
SAME = {aten.clone.default, aten.alias.default, aten.lift_fresh_copy.default}
# BatchNorm by statistics as they are, of whose results one is used
NORM = aten._native_batch_norm_legit_no_training.default
# the same numbers in another shape
SHAPED = {aten.view.default, aten._unsafe_view.default, aten.reshape.default}
SQUEEZED = {aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.select.int, aten.flatten.using_ints}


class _Refused(Exception):
    """Why a module cannot be taken."""


def _line(frames: traceback.StackSummary) -> str:
    """The newest of these lines that is not torch's or ours: " (net.py, line 12: x = ...)"."""
    ours = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
    for frame in reversed(frames):
        if not frame.filename.startswith(ours) and "<" not in frame.filename:
            return f" ({Path(frame.filename).name}, line {frame.lineno}: {frame.line})"
    return ""


def _line_of(node: torch.fx.Node) -> str:
    """Where a node comes from."""
    frames = traceback.StackSummary()
    lines = (node.meta.get("stack_trace") or "").splitlines()
    for place, code in zip(lines, [*lines[1:], ""]):
        if place.strip().startswith("File "):
            file, number, _ = place.strip().removeprefix("File ").split(", ", 2)
            frames.append(
                traceback.FrameSummary(file.strip('"'), int(number.removeprefix("line ")), "", line=code.strip())
            )
    return _line(frames)


class _Writer:
    """The nodes of an exported module, by the names that the file has them."""

    def __init__(self, module: torch.nn.Module, program: torch.export.ExportedProgram):
        self.program = program
        self.graph = program.graph
        # one that several modules share has the name of the first
        first: dict[int, str] = {}
        self.same = {
            name: first.setdefault(id(tensor), name) for name, tensor in module.named_parameters(remove_duplicate=False)
        }
        self.tied = {name: owner for name, owner in self.same.items() if name != owner}
        self.own = set(module.state_dict())
        self.learned = {name for name, tensor in module.named_parameters() if tensor.requires_grad}
        self.names: dict[torch.fx.Node, str] = {}
        self.tensors: dict[str, torch.Tensor] = dict(module.named_parameters())
        self.tensors.update(program.state_dict, **module.state_dict())
        self.tensors = {self.same.get(name, name): tensor for name, tensor in self.tensors.items()}
        self.inputs: list[torch.fx.Node] = []
        signature = program.graph_signature
        changed = [*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()]
        if changed:
            owner = changed[0].rpartition(".")[0]
            raise _Refused(
                f"forward writes {changed[0]} ({type(module.get_submodule(owner)).__name__}): what a network counts by "
                "itself would differ between acting and learning; use LayerNorm or GroupNorm, let "
                "ppo.network.normalize_obs standardise observations, or have statistics as they are, by net.eval()"
            )
        if signature.user_inputs_to_mutate:
            raise _Refused("forward writes its input; work on obs.clone()")
        stored = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        for node in self.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in signature.user_inputs:
                self.inputs.append(node)
                continue
            if node.name not in stored:
                raise _Refused(f"forward uses {node.name}, which is no tensor")
            name = stored[node.name]
            self.names[node] = self.same.get(name, name)
            if name in program.constants:
                value = program.constants[name]
                if not isinstance(value, torch.Tensor):
                    raise _Refused(f"forward uses {name}, which is no tensor")
                self.tensors[name] = value
        self.outputs = [node for node in next(n for n in self.graph.nodes if n.op == "output").args[0]]

    def name(self, node: torch.fx.Node) -> str:
        """As the file has it, where none of its tensors is called so."""
        if node not in self.names:
            name = node.name
            while name in self.tensors or name in self.names.values():
                name += "_"
            self.names[node] = name
        return self.names[node]

    def argument(self, value: Any) -> Any:
        """As JSON."""
        if isinstance(value, torch.fx.Node):
            return "%" + self.name(value)
        if isinstance(value, (list, tuple)):
            return [self.argument(one) for one in value]
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, torch.memory_format):
            return {"memory_format": str(value).removeprefix("torch.")}
        if isinstance(value, str):
            return {"text": value}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if value is None or isinstance(value, (bool, int, float)):
            return value
        raise _Refused(f"an operation takes {value!r}, which a file cannot say")

    def numbers(self, node: torch.fx.Node) -> int:
        """That it gives a row."""
        value = node.meta.get("val")
        total = 0
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, torch.Tensor):
                count: Any = one.numel()
                total += count if isinstance(count, int) else int(count.node.hint)
        return total // ROWS

    def written(self, node: torch.fx.Node) -> dict[str, Any]:
        """An operation."""
        target: Any = node.target
        if target in FUNCTIONS:
            return {"name": self.name(node), "op": FUNCTIONS[target], "args": self.argument(node.args)}
        if target is aten.sym_size.int:
            return {"name": self.name(node), "op": "size", "args": self.argument(node.args)}
        if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
            raise _Refused(
                f"forward has {target}, which is no operation on tensors: nothing in it may depend on a tensor's numbers "
                "or switch gradients off (torch.where chooses, .detach() stops gradients)" + _line_of(node)
            )
        if self.draws(node):
            raise _Refused(
                f"forward draws random numbers ({target}): acting and learning would see other networks; leave dropout "
                "out, or net.eval()" + _line_of(node)
            )
        if target is aten.index.Tensor and any(one.meta["val"].dtype == torch.bool for one in node.all_input_nodes[1:]):
            raise _Refused(
                "forward takes rows by a mask, as many as there are: torch.where keeps sizes" + _line_of(node)
            )
        if target is NORM:
            x, weight, bias, mean, variance, momentum, eps = node.args
            args = [x, weight, bias, mean, variance, False, momentum, eps, False]
            return {
                "name": self.name(node),
                "op": "aten::batch_norm",
                "args": self.argument(args),
                "row": self.numbers(node),
            }
        op = target._schema.name + (f".{target._overloadname}" if target._overloadname != "default" else "")
        if target in SHAPED:
            # images lie channels last, and so may what is made of them
            op = "aten::reshape"
        # where a pass computes, the engine says
        left_out = {"device", "layout", "pin_memory"}
        kwargs = {k: self.argument(v) for k, v in node.kwargs.items() if k not in left_out and v is not None}
        entry = {"name": self.name(node), "op": op, "args": self.argument(node.args), "row": self.numbers(node)}
        return {**entry, "kwargs": kwargs} if kwargs else entry

    @staticmethod
    def draws(node: torch.fx.Node) -> bool:
        """Whether it gives random numbers: recurrent layers and attention do where they drop."""
        target: Any = node.target
        if torch.Tag.nondeterministic_seeded not in target.tags:
            return False
        names = [argument.name for argument in target._schema.arguments]
        given = {**dict(zip(names, node.args)), **node.kwargs}
        drops = [given.get(name, 0) for name in ("dropout", "dropout_p") if name in names]
        return not drops or any(share != 0 for share in drops)

    def through(self, node: torch.fx.Node) -> torch.fx.Node:
        """Behind what only gives it on."""
        while (node.target in SAME and node.kwargs.get("memory_format") is None) or (
            node.target is operator.getitem and node.all_input_nodes[0].target is NORM and node.args[1] == 0
        ):
            node = node.all_input_nodes[0]
        return node

    def head(self, node: torch.fx.Node) -> dict[str, str] | None:
        """The last layer that gives `node`, where it is one that only this output has."""
        node = self.through(node)
        if node.target is not aten.linear.default or len(node.args) != 3 or len(node.users) != 1:
            return None
        tensors = [value for value in node.args[1:] if isinstance(value, torch.fx.Node)]
        names = [self.names.get(value, "") for value in tensors]
        if len(names) != 2 or any(name not in self.learned for name in names):
            return None
        if any(len(value.users) != 1 for value in tensors):
            return None
        return {"input": "%" + self.name(self.through(node.all_input_nodes[0])), "weight": names[0], "bias": names[1]}

    def value_head(self, node: torch.fx.Node) -> dict[str, str]:
        made = node.meta["val"]
        # how many rows there are is not known to torch.export: a known size is another dimension's
        shaped = made.dim() == 1 or (made.dim() == 2 and made.shape[1] == 1)
        if not shaped or isinstance(made.shape[0], int):
            raise _Refused(f"the value must be [rows] or [rows, 1], got {_shape(made)}")
        while self.through(node).target in SHAPED | SQUEEZED:
            node = self.through(node)
            inner = node.all_input_nodes[0]
            if inner.meta["val"].dim() > 2 or len(node.users) != 1:
                break
            node = inner
        head = self.head(node)
        if head is None or self.tensors[head["weight"]].shape[0] != 1:
            raise _Refused(
                "the value must come from a last torch.nn.Linear(F, 1) of its own, with a bias and nothing behind it but "
                "a squeeze: PopArt and Muon want to know it"
            )
        return head

    def json(self, parts: list[str], shape: dict[str, Any]) -> dict[str, Any]:
        """The file's text."""
        remembers = "memory" in parts
        wanted = "three tensors, (logits or means, value, memory)" if remembers else "two tensors, (logits or means, value)"
        if len(self.outputs) != 2 + remembers or not all(isinstance(node, torch.fx.Node) for node in self.outputs):
            raise _Refused(f"forward must return {wanted}")
        policy, value, *memory = (self.through(node) for node in self.outputs)
        made = policy.meta["val"]
        if made.dim() != 2 or made.shape[1] != shape["outputs"]:
            what = "logits" if shape["discrete"] else "means"
            raise _Refused(f"forward must return {what} [rows, {shape['outputs']}] first, got {_shape(made)}")
        heads: dict[str, Any] = {"value_head": self.value_head(value)}
        head = self.head(policy)
        if head:
            heads["policy_head"] = head
            ends = [head["input"], heads["value_head"]["input"]]
        else:
            heads["logits"] = "%" + self.name(policy)
            ends = [heads["logits"], heads["value_head"]["input"]]
        for behind in memory:
            before = self.inputs[parts.index("memory")].meta["val"]
            kept = behind.meta["val"]
            if kept.dim() != 2 or kept.shape[1] != before.shape[1] or isinstance(kept.shape[0], int):
                raise _Refused(f"forward must return a memory {_shape(before)} third, as it takes one, got {_shape(kept)}")
            heads["memory"] = "%" + self.name(behind)
            ends.append(heads["memory"])

        # what these follow from, in order
        by_name = {"%" + name: node for node, name in self.names.items()}
        for node in self.inputs:
            by_name["%" + self.name(node)] = node
        needed, open_nodes = set[torch.fx.Node](), [by_name[end] for end in ends]
        while open_nodes:
            node = open_nodes.pop()
            if node not in needed:
                needed.add(node)
                open_nodes += [self.through(one) for one in node.all_input_nodes]
        for node in self.graph.nodes:
            if self.through(node) is not node:
                # read before it is asked for its name
                self.names[node] = self.name(self.through(node))
        nodes = [self.written(node) for node in self.graph.nodes if node in needed and node.op == "call_function"]
        used = {self.names[node] for node in needed if node.op == "placeholder"}
        used |= {head[key] for head in (heads["value_head"], head or {}) for key in ("weight", "bias") if key in head}
        log_std = self.tensors.get("log_std")
        if not shape["discrete"] and "log_std" in self.learned and "log_std" not in used:
            assert log_std is not None
            if log_std.numel() != shape["outputs"]:
                raise _Refused(f"log_std must have {shape['outputs']} numbers, got {_shape(log_std)}")
            heads["log_std"] = "log_std"
            used.add("log_std")
        for name in used & self.learned:
            if self.tensors[name].dtype != torch.float32:
                raise _Refused(
                    f"{name} is {self.tensors[name].dtype}; what is learned is float32, net.float() makes it so"
                )
        for what, names in (
            ("tied", self.tied),
            ("constants", [name for name in self.tensors if name not in self.own]),
        ):
            if names:
                heads[what] = names
        return {
            "format": 1,
            "torch": torch.__version__.split("+")[0],
            "inputs": [
                {"name": self.name(node), "of": part, "shape": list(node.meta["val"].shape[1:])}
                for node, part in zip(self.inputs, parts, strict=True)
            ],
            "parameters": [name for name in self.tensors if name in used & self.learned],
            "nodes": nodes,
            **heads,
        }


def _shape(tensor: torch.Tensor) -> str:
    return "[" + ", ".join("rows" if isinstance(size, torch.SymInt) else str(size) for size in tensor.shape) + "]"


@contextmanager
def _silence() -> Iterator[None]:
    """What torch.export says besides its errors is for who works on it."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def memory_of(module: torch.nn.Module) -> int:
    """Numbers a row that it remembers; 0: its forward takes no memory."""
    if "memory" not in inspect.signature(module.forward).parameters:
        return 0
    size = getattr(module, "memory_size", None)
    if not isinstance(size, int) or size < 1:
        raise _Refused(
            "forward takes a memory, so the module must say how many numbers of a row it remembers, as its memory_size; "
            + ("it has none" if size is None else f"it is {size!r}")
        )
    return size


def _followed(module: torch.nn.Module, shape: dict[str, Any]) -> tuple[torch.export.ExportedProgram, list[str]]:
    """torch.export of forward, and which part of an observation each of its inputs is."""
    obs = {}
    if shape["image"][0] > 0:
        obs["image"] = torch.zeros(ROWS, *shape["image"]).contiguous(memory_format=torch.channels_last)
    if shape["vector"] > 0:
        obs["vector"] = torch.zeros(ROWS, shape["vector"])
    parts = list(obs)
    dynamic: Any = {part: {0: torch.export.Dim("rows")} for part in parts}
    args: list[Any] = [obs] if len(obs) > 1 else list(obs.values())
    sizes: list[Any] = [dynamic] if len(obs) > 1 else list(dynamic.values())
    # what else it takes, in its order
    more = {"memory": memory_of(module)}
    for name in list(inspect.signature(module.forward).parameters)[1:]:
        part = name if name == "memory" else "privileged"
        width = more.get(part, shape["privileged"])
        if width > 0 and part not in parts:
            parts.append(part)
            args.append(torch.zeros(ROWS, width))
            sizes.append({0: torch.export.Dim("rows")})
    try:
        with _silence(), torch.enable_grad():
            # what is written in place becomes a value of its own
            return torch.export.export(module, tuple(args), dynamic_shapes=tuple(sizes)).run_decompositions({}), parts
    except Exception as error:  # whatever forward or torch.export raises
        frames = traceback.extract_tb(error.__traceback__)
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise _Refused(
            f"torch.export cannot follow forward{_line(frames)}: {' '.join(lines[:2])}; it is called with observations as "
            "envs.encode(obs) gives them, of any number of rows, and may not depend on their numbers"
        ) from error


def _expect_rows_apart(module: torch.nn.Module, parts: list[str], shape: dict[str, Any]) -> None:
    """Refuses what makes of a row something else beside other rows: it acts on few and learns from many."""
    numbers = torch.Generator().manual_seed(0)
    # last layers often begin at zero, and would hide what the layers before them mix
    shown = {
        name: torch.empty_like(tensor).uniform_(-0.1, 0.1, generator=numbers)
        for name, tensor in module.named_parameters()
        if tensor.is_floating_point() and not tensor.any()
    }
    made: dict[str, torch.Tensor] = {}
    for part in parts:
        size = shape["image"] if part == "image" else [memory_of(module) if part == "memory" else shape[part]]
        made[part] = torch.rand(ROWS, *size, generator=numbers)

    def rows_of(part: str, rows: int) -> torch.Tensor:
        # images lie as the engine has them
        return made[part][:rows].contiguous(
            memory_format=torch.channels_last if part == "image" else torch.contiguous_format
        )

    def given(rows: int) -> list[torch.Tensor]:
        obs = {part: rows_of(part, rows) for part in ("image", "vector") if part in made}
        rest = [rows_of(part, rows) for part in parts if part not in obs]
        return [obs if len(obs) > 1 else next(iter(obs.values())), *rest]  # type: ignore[list-item]

    def results(rows: int) -> list[torch.Tensor]:
        try:
            with _silence(), torch.no_grad():
                return [result.reshape(rows, -1) for result in functional_call(module, shown, tuple(given(rows)))]
        except Exception as error:  # whatever forward raises
            raise _Refused(f"forward cannot take {rows} rows: {error}") from error

    together = results(ROWS)
    for rows in (1, 2):
        for few, whole in zip(results(rows), together):
            if not torch.allclose(few, whole[:rows], rtol=1e-2, atol=1e-3, equal_nan=True):
                raise _Refused(
                    "forward makes of a row something else where other rows are beside it (by a mean over the first "
                    "dimension, for one): acting and learning would see other networks; ppo.network.normalize_obs "
                    "standardises observations"
                )


def write_network(
    network: torch.nn.Module,
    file: str | Path,
    environment: str,
    settings: list[str],
    config: str | None = None,
    bare: bool = False,
) -> list[str]:
    """save_network for a run of these settings; those that the run has besides."""
    if not isinstance(network, torch.nn.Module):
        raise _engine.Error(f"[network] a network is a torch.nn.Module, got {network!r}")
    shape = _engine.network_shape(environment, settings, config, bare)
    on_host = all(tensor.device.type == "cpu" for tensor in network.state_dict().values())
    module = network if on_host else copy.deepcopy(network).cpu()
    try:
        program, parts = _followed(module, shape)
        writer = _Writer(module, program)
        text = json.dumps(writer.json(parts, shape), allow_nan=False)
        _expect_rows_apart(module, parts, shape)
        memory = memory_of(module)
        if shape["memory"] not in (0, memory):
            raise _Refused(
                f"it remembers {memory or 'no'} numbers a row, ppo.network.memory is {shape['memory']}; leave that out, "
                "a module says by itself what it remembers"
            )
    except _Refused as refused:
        raise _engine.Error(f"[network] {type(network).__name__} cannot be trained: {refused}") from refused.__cause__
    write_tensors(file, writer.tensors, {KEY: text})
    return [
        "ppo.network.kind=exported",
        f"ppo.network.exported.file={os.path.abspath(file)}",
        f"ppo.network.memory={memory}",
    ]


def save_network(
    network: torch.nn.Module, file: str | Path, environment: str, settings: Settings = None, *, overwrite: bool = False
) -> None:
    """Writes what the engine trains in place of a network of its own: `./maglev train ppo ENVIRONMENT
    ppo.network.kind=exported ppo.network.exported.file=FILE`, and ppo.network.memory=N of one that remembers.

    network: forward(obs) of observations as Envs.encode gives them, or forward(obs, privileged) where the environment has
      columns for a critic alone, to (logits [rows, categories] or means [rows, dims], value [rows] or [rows, 1]). Where
      forward has a parameter `memory` it takes and gives, third, what it remembers, [rows, memory_size]. It is taken in
      the mode it is in, with the weights it has.
    settings: those of the run that say what is observed (env.*). overwrite: a file that is there is replaced.
    """
    environment = environment_named(environment, "network")
    if not overwrite and os.path.exists(file):
        raise _engine.Error(f"[network] {file} is there already; name another, or replace it by overwrite=True")
    words = assignments(settings)
    chosen = write_network(network, file, environment, words)
    _engine.check_network(environment, [*words, *chosen], None, False)


def trained_weights(folder: Path, checkpoint: str) -> dict[str, torch.Tensor]:
    """Run.weights()."""
    file = folder / FILE
    if not file.exists():
        raise _engine.Error(
            f"[network] {folder} has no {FILE}: its network is the engine's own, and its weights are in its "
            "checkpoints' state.safetensors"
        )
    state = Path(_engine.verified_checkpoint(str(folder), checkpoint)) / "state.safetensors"
    weights, metadata = read_tensors(file)
    saved, _ = read_tensors(state)
    text = json.loads(metadata[KEY])

    def learned(name: str) -> torch.Tensor:
        return saved["algo.network." + name]

    for name in text["parameters"]:
        # of a head neither has it
        for place in ("policy.", "value."):
            if f"algo.network.{place}{name}" in saved:
                weights[name] = learned(place + name)
    if "log_std" in text:
        weights["log_std"] = learned("log_std").reshape(weights["log_std"].shape)
    for head in ("policy_head", "value_head"):
        for kind in ("weight", "bias"):
            if head in text:
                weights[text[head][kind]] = learned(f"{head}.{kind}")
    if "algo.network.value_head.std" in saved:
        # PopArt's units
        last = text["value_head"]
        weights[last["weight"]] = weights[last["weight"]] * learned("value_head.std")
        weights[last["bias"]] = weights[last["bias"]] * learned("value_head.std") + learned("value_head.mean")
    for name in text.get("constants", []):
        del weights[name]
    weights.update({name: weights[owner] for name, owner in text.get("tied", {}).items()})
    return weights


@contextmanager
def training(
    network: torch.nn.Module | None, algorithm: str, environment: str, words: list[str], config: str | None, bare: bool
) -> Iterator[list[str]]:
    """The settings of a run with this network, whose file is there until the run has its own."""
    if network is None:
        yield words
        return
    if algorithm != "ppo":
        raise _engine.Error(f"[network] network= is for ppo; {algorithm}'s networks are its own")
    with tempfile.TemporaryDirectory(prefix="maglev-") as folder:
        file = Path(folder) / FILE
        yield [*words, *write_network(network, file, environment, words, config, bare)]
