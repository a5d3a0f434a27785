"""Folders of plug-ins beside this checkout: MAGLEV_PLUGINS names them once.

.build/plugins.json holds them for commands that are run without the variable.
"""

from __future__ import annotations

import os
from pathlib import Path

from launcher.console import BUILD, HOME, Failure, read_json, screen, write_json

NAMED = BUILD / "plugins.json"
# what is built of a folder, as cmake/Plugins.cmake has it
ROOMS = ("envs", "kernels", "sinks", "networks", "algos", "verbs")


def kept_folders() -> list[str]:
    """Those that were named last."""
    return read_json(NAMED).get("folders", [])


def plugin_folders() -> list[str]:
    """Absolute paths, in the order in which they are named."""
    given, kept = os.environ.get("MAGLEV_PLUGINS"), kept_folders()
    folders = kept
    if given is not None:
        parts = [str(Path(part).expanduser().resolve()) for part in given.split(":") if part]
        folders = list(dict.fromkeys(parts))
    for folder in folders:
        if not any((Path(folder) / room).is_dir() for room in (*ROOMS, "configs")):
            before = "" if given is not None else ", which was named before,"
            raise Failure(
                f"[plugins] MAGLEV_PLUGINS: {folder}{before} is no folder with {', '.join(ROOMS)} or configs in it; "
                "name those that there are with : between them, or none: MAGLEV_PLUGINS= ./maglev build"
            )
    return folders


def keep_folders(folders: list[str]):
    """For later commands; a line says when they are others than before. The lock is held."""
    if folders != kept_folders():
        write_json(NAMED, {"folders": folders})
        screen.say(
            f"from now on with the plug-ins of {', '.join(folders)} (without: MAGLEV_PLUGINS= ./maglev build)"
            if folders
            else "from now on without plug-ins of other folders"
        )


def plugin_rooms(*rooms: str) -> list[Path]:
    """Those of this checkout and of all folders."""
    return [Path(root) / room for root in (HOME, *plugin_folders()) for room in rooms]
