"""The models that are here, in Ollama's words: what each is, and bringing and removing them.

Only the model that is served answers, under its name and its aliases; what is pulled waits in the
cache for the next start.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from pyrite.errors import ModelError, ParameterError
from pyrite.formats import hub
from pyrite.formats.checkpoint import Checkpoint
from pyrite.models.registry import build_plan, open_model
from pyrite.server.errors import status_of
from pyrite.server.http import ClientGone, Headers
from pyrite.server.ollama.asks import LATEST
from pyrite.server.ollama.errors import envelope
from pyrite.server.ollama.reply import NDJSON
from pyrite.server.ollama.types import ModelRequest
from pyrite.server.service import Service
from pyrite.text.reasoning import find_reasoning
from pyrite.text.toolcalls import find_format

NEVER = "9999-12-31T23:59:59Z"  # when the served model is unloaded
POLL_SECONDS = 0.1  # between two lines of a pull's progress


def name_of(request: ModelRequest) -> str:
    """Raises ParameterError where none is given."""
    name = request.model or request.name
    if not name:
        raise ParameterError("model", name, "the name of a model")
    return name.removesuffix(LATEST)


class Facts:
    """What the file of the served model says, read once when it is first asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reading: asyncio.Task[Checkpoint] | None = None

    async def checkpoint(self) -> Checkpoint:
        """Raises ModelError."""
        if self._reading is None or (self._reading.done() and self._reading.exception()):
            opened = asyncio.to_thread(open_model, self._service.link.model)
            self._reading = asyncio.ensure_future(opened)
        return await asyncio.shield(self._reading)

    async def tags(self) -> dict[str, Any]:
        card = self._service.card
        checkpoint = await self.checkpoint()
        names = card.names
        entry = entry_of(checkpoint)
        return {"models": [{"name": name, "model": name, **entry} for name in names]}

    async def running(self) -> dict[str, Any]:
        ready = self._service.link.ready
        if ready is None:
            return {"models": []}
        name = self._service.card.name
        entry = entry_of(await self.checkpoint())
        more = {"expires_at": NEVER, "size_vram": 0, "context_length": ready.context_length}
        return {"models": [{"name": name, "model": name, **entry, **more}]}

    async def show(self, name: str) -> dict[str, Any]:
        """Raises HttpError 404."""
        self._service.card.check(name)
        checkpoint = await self.checkpoint()
        entry = entry_of(checkpoint)
        return {
            "modelfile": f"FROM {self._service.card.name}\n",
            "parameters": "",
            "template": checkpoint.chat_template or "",
            "details": entry["details"],
            "model_info": info_of(checkpoint),
            "capabilities": self._capabilities(),
            "modified_at": entry["modified_at"],
        }

    def _capabilities(self) -> list[str]:
        template = self._service.prompts.template
        if template is None:
            return ["completion", "embedding"]
        thinks = find_reasoning(template.source) is not None
        calls = find_format(template) is not None
        more = ["tools"] * calls + ["thinking"] * thinks
        return ["completion", *more, "embedding"]


def entry_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """`digest` tells files apart by name, size and time: their bytes are not read for it."""
    status = checkpoint.path.stat()
    modified = datetime.datetime.fromtimestamp(status.st_mtime, datetime.UTC).isoformat()
    identity = f"{checkpoint.path.name} {checkpoint.num_bytes} {status.st_mtime_ns}"
    return {
        "modified_at": modified.replace("+00:00", "Z"),
        "size": checkpoint.num_bytes,
        "digest": hashlib.sha256(identity.encode()).hexdigest(),
        "details": {
            "parent_model": "",
            "format": checkpoint.format,
            "family": checkpoint.architecture,
            "families": [checkpoint.architecture],
            "parameter_size": size_words(num_parameters(checkpoint)),
            "quantization_level": main_type(checkpoint),
        },
    }


def info_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The numbers and words of the file; what its plan knows, by GGUF's names."""
    plain = (str, int, float, bool)
    info = {name: value for name, value in checkpoint.metadata.items() if isinstance(value, plain)}
    info["general.architecture"] = checkpoint.architecture
    info["general.parameter_count"] = num_parameters(checkpoint)
    try:
        plan = build_plan(checkpoint)
    except ModelError:
        return info
    info[f"{checkpoint.architecture}.context_length"] = plan.context_length
    info[f"{checkpoint.architecture}.block_count"] = plan.num_layers
    return info


def num_parameters(checkpoint: Checkpoint) -> int:
    total = 0
    for tensor in checkpoint.tensors.values():
        count = 1
        for extent in tensor.shape:
            count *= extent
        total += count
    return total


def size_words(count: int) -> str:
    if count >= 10**9:
        return f"{count / 10**9:.1f}B"
    return f"{count / 10**6:.2f}M"


def main_type(checkpoint: Checkpoint) -> str:
    """The type that most bytes of the weights have."""
    num_bytes: dict[str, int] = {}
    for tensor in checkpoint.tensors.values():
        num_bytes[tensor.type] = num_bytes.get(tensor.type, 0) + tensor.num_bytes
    return max(num_bytes, key=lambda name: num_bytes[name], default="").upper()


def remove(service: Service, name: str) -> None:
    """Raises ModelNotFoundError; ParameterError for the model that is served."""
    if name in service.card.names:
        raise ParameterError("model", name, "another one than is being served")
    hub.remove(name)


@dataclass(slots=True)
class PullReply:
    """Lines of progress until the model is in the cache."""

    name: str
    streams: bool
    headers: Headers = ()
    media_type: str = field(init=False)
    keep_alive: bytes = b""

    def __post_init__(self) -> None:
        self.media_type = NDJSON if self.streams else "application/json"

    def failure(self, error: BaseException) -> bytes:
        return envelope(error, status_of(error)) + b"\n"

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        if self.streams:
            yield line(status="pulling manifest")
        async for done, total in progress(partial(hub.pull, self.name)):
            if self.streams:
                digest = {"digest": self.name, "total": total, "completed": done}
                yield line(status=f"pulling {self.name}", **digest)
        yield line(status="success")


def line(**fields: Any) -> bytes:
    return msgspec.json.encode(fields) + b"\n"


async def progress(
    work: Callable[[Callable[[int, int], None]], object],
) -> AsyncGenerator[tuple[int, int], None]:
    """What `work` reports from a thread, now and then. Closing it ends the work at its next report.

    Raises what the work does.
    """
    latest: tuple[int, int] | None = None
    told: tuple[int, int] | None = None
    unwanted = False

    def report(done: int, total: int) -> None:
        nonlocal latest
        if unwanted:
            raise ClientGone
        latest = (done, total)

    working = asyncio.ensure_future(asyncio.to_thread(work, report))
    try:
        while not working.done():
            await asyncio.wait([working], timeout=POLL_SECONDS)
            if latest is not None and latest != told:
                told = latest
                yield latest
        working.result()
    finally:
        unwanted = True
        working.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
