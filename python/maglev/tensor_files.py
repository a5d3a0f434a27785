"""safetensors files, as the engine reads and writes them: named tensors behind a JSON header."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch

from maglev import _engine

DTYPES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_tensors(path: str | Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """A file whose tensors lie wide ones first, so that all begin where their numbers may."""
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    blocks, end = [], 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        if tensor.dtype not in DTYPES:
            raise _engine.Error(f"[network] {name} is of {tensor.dtype}; tensors are of {', '.join(map(str, DTYPES))}")
        block = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + len(block)],
        }
        blocks.append(block)
        end += len(block)
    text = json.dumps(header, allow_nan=False).encode()
    text += b" " * (-len(text) % 8)
    # whoever reads finds what was there before or all of it
    beside = Path(f"{path}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.writelines([len(text).to_bytes(8, "little"), text, *blocks])
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise _engine.Error(f"[network] {path} cannot be written: {error.strerror}") from error


def read_tensors(path: str | Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """(tensors, metadata) of a file that the engine has written or read."""
    data = Path(path).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    metadata: dict[str, str] = header.pop("__metadata__", {})
    kinds = {name: dtype for dtype, name in DTYPES.items()}
    tensors = {}
    for name, about in header.items():
        first, last = about["data_offsets"]
        if about["dtype"] in kinds:
            block = torch.frombuffer(bytearray(data[begin + first : begin + last] or b"\0" * 8), dtype=torch.uint8)
            tensors[name] = block[: last - first].view(kinds[about["dtype"]]).reshape(about["shape"])
    return tensors, metadata
