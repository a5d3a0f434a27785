"""Run folders, and folders of several: what lies there (engine/run/run_dir.h, several_runs.h)."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maglev_sync.errors import COMMAND, Error, did_you_mean
from maglev_sync.rows import is_number
from maglev_sync.settings import flat, read_settings

# a study's arms, an arm's seeds
DEEPEST = 4
OF_A_RUN = ("config.yaml", "run.json", "metrics.jsonl", "checkpoints")


@dataclass(frozen=True)
class Group:
    """Seeds, or a sweep's trials."""

    folder: Path
    kind: str  # "seeds", "sweep"
    name: str
    parent: Group | None = None  # of a trial's seeds: the sweep

    def top(self) -> Group:
        return self.parent.top() if self.parent else self


@dataclass(frozen=True)
class Place:
    """Where a run lies, and what it is a part of."""

    folder: Path
    name: str
    group: Group | None = None
    trial: Path | None = None  # a sweep's, with its trial.json


@dataclass
class About:
    """A run as trackers are told of it."""

    id: str
    name: str
    settings: dict[str, Any]  # nested, as texts
    facts: dict[str, str]  # algorithm, environment, seed, machine, commit, ...
    started: float
    place: Place
    group_id: str = ""

    def flat_settings(self) -> dict[str, str]:
        return flat(self.settings)


@dataclass
class Outcome:
    state: str  # running, finished, stopped, failed, killed
    error: str = ""
    ended: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.state != "running"

    def told(self) -> dict[str, Any]:
        """What is told again where it differs."""
        return {"state": self.state, **self.figures}


def read_json(path: Path, advice: str = "it is written anew when training goes on") -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Error(f"[{path}] cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Error(f"[{path}] must be JSON, got {error}; {advice}") from None
    if not isinstance(content, dict):
        raise Error(f"[{path}] must be a JSON object, got a {type(content).__name__}; {advice}")
    return content


def is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in OF_A_RUN)


def held(lock: Path) -> bool:
    """Whether a process of this machine trains under it."""
    try:
        file = open(lock, "rb")
    except OSError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def by_number(path: Path) -> tuple[list[int | str], str]:
    """2 before 10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", path.name)], path.name


def children(folder: Path) -> list[Path]:
    return sorted((path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."), key=by_number)


def title_of(folder: Path) -> str:
    """A folder's name; of a study's arm with that of the study."""
    above = folder.parent
    return f"{above.name}/{folder.name}" if (above / "study.json").exists() else folder.name


def seeds_of(group: Group, trial: Path | None = None) -> Iterator[Place]:
    for child in children(group.folder):
        if child.name.startswith("seed-") and is_run(child):
            yield Place(child, f"{group.name}/{child.name}", group, trial)


def trials_of(group: Group) -> Iterator[Place]:
    trials = group.folder / "trials"
    for trial in children(trials) if trials.is_dir() else ():
        run, name = trial / "run", f"{group.name}/trial-{trial.name}"
        if (run / "seeds.json").exists():
            yield from seeds_of(Group(run, "seeds", name, group), trial)
        elif is_run(run):
            yield Place(run, name, group, trial)


def sweep_around(run: Path) -> Group | None:
    """The sweep that a trial's run, or its seeds, are of."""
    trial = run.parent
    sweep = trial.parent.parent
    is_trial = run.name == "run" and (trial / "trial.json").exists() and (sweep / "sweep.json").exists()
    return Group(sweep, "sweep", title_of(sweep)) if is_trial else None


def seeds_group(folder: Path) -> Group:
    """The group that lies in a folder of seeds, which may be a trial's."""
    sweep = sweep_around(folder)
    name = f"{sweep.name}/trial-{folder.parent.name}" if sweep else title_of(folder)
    return Group(folder, "seeds", name, sweep)


def place_of(run: Path) -> Place:
    """A run that was named by itself, as the part of its seeds or its sweep that it is."""
    above = run.parent
    if run.name.startswith("seed-") and (above / "seeds.json").exists():
        group = seeds_group(above)
        return Place(run, f"{group.name}/{run.name}", group, above.parent if group.parent else None)
    sweep = sweep_around(run)
    return Place(run, f"{sweep.name}/trial-{above.name}", sweep, above) if sweep else Place(run, title_of(run))


def places_below(folder: Path, depth: int = 0) -> Iterator[Place]:
    """All runs of a folder, as `./maglev runs` lists them."""
    if is_run(folder):
        yield place_of(folder)
    elif (folder / "sweep.json").exists():
        yield from trials_of(Group(folder, "sweep", title_of(folder)))
    elif (folder / "seeds.json").exists():
        group = seeds_group(folder)
        yield from seeds_of(group, folder.parent if group.parent else None)
    elif depth < DEEPEST:
        for child in children(folder):
            # W&B's own, which has a config.yaml too
            if child.name != "wandb":
                yield from places_below(child, depth + 1)


def find_places(given: str) -> list[Place]:
    """Of a run, several seeds, a sweep, a study or a folder of them. Throws Error where there is none."""
    folder = Path(os.path.abspath(given))
    try:
        if not folder.is_dir():
            siblings = [path.name for path in children(folder.parent)] if folder.parent.is_dir() else []
            raise Error(
                f"[sync] {given} is no folder of a run; {COMMAND} runs lists them{did_you_mean(folder.name, siblings)}"
            )
        places = list(places_below(folder))
    except OSError as error:
        raise Error(f"[{error.filename}] cannot be read: {error.strerror}; name what is beside it alone") from None
    if not places and not is_group(folder):
        raise Error(
            f"[sync] {given} holds no run: expected a folder with run.json, seeds.json, sweep.json or such below"
        )
    return places


def is_group(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("seeds.json", "sweep.json", "study.json"))


def group_trains(folder: Path) -> bool:
    """Whether somebody of this machine still trains what lies in a folder of several."""
    locks = [folder / "seeds.lock", folder / "study.lock", *folder.glob("trials/*/trial.lock")]
    return any(map(held, locks))


def members_of(group: Group) -> list[Place]:
    return list(seeds_of(group) if group.kind == "seeds" else trials_of(group))


def reproduce_facts(run: Path) -> dict[str, str]:
    """What reproduce.md says of each session; the newest counts."""
    wanted = {
        "git commit": "commit",
        "plug-ins": "plugins",
        "maglev": "maglev",
        "torch": "torch",
        "device": "device",
        "processor": "processor",
    }
    path = run / "reproduce.md"
    facts = {}
    for line in path.read_text("utf-8", "replace").splitlines() if path.exists() else ():
        name, colon, value = line.removeprefix("- ").partition(": ")
        if line.startswith("- ") and colon and name in wanted:
            facts[wanted[name]] = value.strip()
    return facts


def identity_of(run: Path) -> str:
    """The same wherever the folder lies and however often the run goes on: what began, when, and by which command."""
    status = read_json(run / "run.json")
    try:
        words = [str(status["algo"]), str(status["env"]), repr(float(status["started"]))]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise Error(
            f"[{run}] has no run.json that says what it is and when it began: nothing tells it from other runs; "
            f"it is written anew when the run goes on ({COMMAND} train --resume)"
        ) from None
    # seeds and trials begin in the same second; resumes add to the end of the file
    path = run / "reproduce.md"
    words.append(path.read_text("utf-8", "replace").split("\n## Continued")[0].strip() if path.exists() else "")
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]


def read_about(place: Place, run_id: str, tracker: str) -> About:
    run = place.folder
    settings = read_settings(run, tracker)
    status = read_json(run / "run.json")
    facts = {
        "algorithm": status["algo"],
        "environment": status.get("env_title") or status["env"],
        "seed": settings.get("seed", ""),
        "machine": status.get("host", ""),
        **reproduce_facts(run),
    }
    if place.trial:
        facts["trial"] = place.trial.name
    return About(
        id=run_id,
        name=place.name,
        settings=settings,
        facts={name: str(value) for name, value in facts.items() if value},
        started=float(status["started"]),
        place=place,
    )


def read_outcome(place: Place) -> Outcome:
    """How the run stands: one whose lock is held has not ended, and one that runs here by its word alone was killed."""
    trains = held(place.folder / "run.lock")
    status = read_json(place.folder / "run.json")
    state = str(status.get("state", "running"))
    if trains:
        # a resume has its lock before it says so, and an end has it still
        state = "running"
    elif state == "running" and status.get("host") == socket.gethostname():
        state = "killed"
    score = read_json(place.trial / "trial.json").get("score") if place.trial else None
    figures = {"trial_score": float(score)} if is_number(score) else {}
    ended = next((float(status[name]) for name in ("ended", "updated") if is_number(status.get(name))), 0.0)
    if state == "running":
        return Outcome(state)
    return Outcome(state, str(status.get("message") or ""), ended, figures)


def group_figures(group: Group) -> dict[str, float]:
    """What seeds.json, or a sweep's trials, sum up."""
    if group.kind == "seeds":
        summed = read_json(group.folder / "seeds.json")
        figures = {name: summed.get(name) for name in ("mean", "deviation")}
    else:
        trials = map(read_json, (group.folder / "trials").glob("*/trial.json"))
        scores = [
            trial["score"] for trial in trials if trial.get("state") == "finished" and is_number(trial.get("score"))
        ]
        figures = {"best_score": max(scores)} if scores else {}
    return {name: float(value) for name, value in figures.items() if is_number(value)}


def group_outcome(group: Group, outcomes: list[Outcome]) -> Outcome:
    """What became of several: of them all the state that asks for most."""
    states = {outcome.state for outcome in outcomes}
    state = next((one for one in ("running", "failed", "killed", "stopped") if one in states), "finished")
    return Outcome(state, ended=max((outcome.ended for outcome in outcomes), default=0.0), figures=group_figures(group))


def checkpoint_sequence(folder: Path) -> int:
    """Its place among those that were saved; -1 where it is not whole: its tensors are not as long as it says."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        whole = (folder / "state.safetensors").stat().st_size == manifest["state_file"]["bytes"]
        return int(manifest["sequence"]) if whole else -1
    except (OSError, ValueError, KeyError, TypeError):
        return -1


def checkpoints_of(run: Path) -> dict[str, Path]:
    """The one that was saved last as "final" and that of the link `best`, where they are whole."""
    folder = run / "checkpoints"
    found = {}
    newest = max(folder.glob("step_*"), key=checkpoint_sequence, default=folder)
    if checkpoint_sequence(newest) >= 0:
        found["final"] = newest
    best = folder / "best"
    if checkpoint_sequence(best) >= 0:
        found["best"] = best.resolve()
    return found
