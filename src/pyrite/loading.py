"""From a path to an engine: open, plan, see that it fits, prepare a backend.

Decides what the settings left open: the context, the number of pages, the threads. Refuses before
anything large is read when memory does not suffice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyrite.backends.base import PAGE_TOKENS, Backend, Progress, Runner
from pyrite.beside import Beside
from pyrite.config import Settings
from pyrite.cores import Threads, choose_threads
from pyrite.engine import Engine
from pyrite.errors import ParameterError
from pyrite.formats.checkpoint import Checkpoint, Tensor, first_difference, open_checkpoint
from pyrite.formats.folder_text import end_ids
from pyrite.formats.vocabulary import require_tokenizer
from pyrite.graph.plan import Plan
from pyrite.kv.pages import pages_for
from pyrite.memory import available_bytes, memory_errors
from pyrite.models.estimate import FLOAT_BYTES, estimate_memory, kv_bytes_per_token, require_memory
from pyrite.models.registry import build_plan
from pyrite.nodes import find_nodes
from pyrite.records import dataclass
from pyrite.sampling.speculate import Guesser, Repetition
from pyrite.scheduler import Policy
from pyrite.speculation import Speculation
from pyrite.stopwatch import Stopwatch
from pyrite.text.ids_only import IdsOnly
from pyrite.text.template import ChatTemplate
from pyrite.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyrite.keeper import Keeper

DEFAULT_CONTEXT = 8192  # tokens, unless asked for: what a model can do may be far more
# Requests of a whole context that the pages hold by default, if memory allows. A context that is
# shorter than DEFAULT_CONTEXT has as many pages as that: short requests come in greater numbers.
FULL_REQUESTS = 4
DRAFT_REQUESTS = 2  # of a whole context that a draft model's pages hold
KV_SHARE = 0.5  # of the memory that the weights leave: what pages may take by default
logger = logging.getLogger("pyrite")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that is ready to run, and what was decided for it."""

    checkpoint: Checkpoint
    plan: Plan
    tokenizer: Tokenizer
    settings: Settings
    threads: Threads
    engine: Engine
    backend: Backend
    seconds: Mapping[str, float] = field(default_factory=dict)  # of each stage of loading
    notes: tuple[str, ...] = ()  # lines for logs: what was decided, and why


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens that one request may hold, and the pages for all requests together."""

    context: int
    num_pages: int
    reason: str = field(default="", compare=False)  # of the number of pages, for logs


def load_engine(path: Path, settings: Settings, progress: Progress | None = None) -> Loaded:
    """`progress` hears of packing. Raises ModelError, CapacityError or BackendError."""
    with memory_errors(f"load {path.name}"):
        return _load_engine(path, settings, progress)


def _load_engine(path: Path, settings: Settings, progress: Progress | None) -> Loaded:
    watch = Stopwatch()
    checkpoint = open_checkpoint(path)
    watch.lap("open")
    making = Beside(lambda: own_tokenizer(checkpoint))
    plan = build_plan(checkpoint)
    room = find_room(plan, checkpoint.tensors, settings, available_for(plan, settings))
    threads = choose_threads(settings.threads)
    watch.lap("plan")
    backend = make_backend(settings, checkpoint.files, progress)
    runner = prepared(backend, plan, checkpoint.tensors, room.num_pages, settings, threads)
    watch.lap("weights")
    tokenizer = making.result() or ids_only(checkpoint, plan)
    watch.lap("tokenizer")
    notes = (f"threads {threads.reason}", room_note(room, runner))
    for note in notes:
        logger.info(note)
    keeper = make_keeper(runner, settings)
    fingerprint = ""  # within one process every page is of one model
    if keeper is not None:
        from pyrite.identity import identity

        fingerprint = identity(checkpoint, plan, tokenizer, runner, settings)
    engine = Engine(
        runner,
        tokenizer,
        vocabulary=plan.vocabulary,
        context_length=room.context,
        policy=Policy(settings.max_batch_tokens, settings.prefill_chunk),
        prefix_cache=settings.prefix_cache,
        window=plan.window,
        speculation=Speculation(make_guesser(settings, checkpoint, room, threads, progress)),
        fingerprint=fingerprint,
        keeper=keeper,
    )
    watch.lap("engine")
    return Loaded(
        checkpoint, plan, tokenizer, settings, threads, engine, backend, watch.seconds, notes
    )


def make_keeper(runner: Runner, settings: Settings) -> Keeper | None:
    """None where pages do not outlive the process."""
    if settings.kv_store_bytes is None or not settings.prefix_cache:
        return None
    from pyrite.keeper import Keeper
    from pyrite.kv.store import PageStore

    return Keeper(runner, PageStore(settings.cache / "kv", settings.kv_store_bytes))


def make_tokenizer(checkpoint: Checkpoint, plan: Plan) -> Tokenizer:
    """The file's own; for a folder of safetensors one that knows ids alone.

    Raises UnsupportedError for a GGUF file whose tokenizer is missing or of an unknown kind.
    """
    return own_tokenizer(checkpoint) or ids_only(checkpoint, plan)


def own_tokenizer(checkpoint: Checkpoint) -> Tokenizer | None:
    """None for a folder of safetensors without one; raises what `make_tokenizer` does."""
    if checkpoint.tokenizer is None and checkpoint.format == "safetensors":
        return None
    return Tokenizer.from_data(require_tokenizer(checkpoint))


def ids_only(checkpoint: Checkpoint, plan: Plan) -> Tokenizer:
    return IdsOnly(plan.vocabulary, end_ids(checkpoint.metadata))


def make_template(checkpoint: Checkpoint, tokenizer: Tokenizer) -> ChatTemplate | None:
    """None for a model that continues text."""
    if checkpoint.chat_template is None:
        return None
    eos_id = next(iter(tokenizer.eos_ids), None)
    return ChatTemplate(
        checkpoint.chat_template,
        bos_token="" if tokenizer.bos_id is None else tokenizer.token_text(tokenizer.bos_id),
        eos_token="" if eos_id is None else tokenizer.token_text(eos_id),
    )


def find_model(model: str | Path) -> Path:
    """A path as it is; anything else is a name, to be found in the cache or fetched into it."""
    if not isinstance(model, (str, Path)):
        raise ParameterError("model", model, "a path or a name")
    path = Path(model).expanduser()
    if (model and path.exists()) or isinstance(model, Path):
        return path
    from pyrite.formats.hub import resolve

    return resolve(model)


def make_guesser(
    settings: Settings,
    checkpoint: Checkpoint,
    room: Room,
    threads: Threads,
    progress: Progress | None = None,
) -> Guesser | None:
    """By the setting. Raises ParameterError for a draft model of another vocabulary, and what
    loading it raises."""
    if settings.speculation == "off":
        return None
    if settings.speculation == "ngram":
        return Repetition()
    draft = open_checkpoint(find_model(settings.speculation))
    plan = build_plan(draft)
    num_tokens = same_vocabulary(checkpoint, draft, settings.speculation)
    context = min(room.context, plan.context_length)
    pages = DRAFT_REQUESTS * pages_for(context)
    own = replace(settings, context=context, kv_pages=pages, kv_bytes=None)
    draft_room = find_room(plan, draft.tensors, own, available_for(plan, own))
    backend = make_backend(settings, draft.files, progress)
    runner = prepared(backend, plan, draft.tensors, draft_room.num_pages, settings, threads)
    from pyrite.drafting import DraftModel

    return DraftModel(runner, num_tokens=num_tokens, context_length=context)


def same_vocabulary(model: Checkpoint, draft: Checkpoint, name: str) -> int:
    """How many tokens both have. Raises ParameterError where they differ."""
    own = require_tokenizer(model).tokens
    other = require_tokenizer(draft).tokens
    if len(own) != len(other):
        found = f"it has {len(other)} tokens, and the model {len(own)}"
    elif (differing := first_difference(own, other)) is None:
        return len(own)
    else:
        texts = own[differing].decode(errors="replace"), other[differing].decode(errors="replace")
        found = f"token {differing} is {texts[1]!r} there, and {texts[0]!r} in the model"
    hint = f"{found}; take a draft model of the same family"
    raise ParameterError("speculation", name, "a model of the same vocabulary", hint=hint)


def make_backend(
    settings: Settings, files: Sequence[Path], progress: Progress | None = None
) -> Backend:
    """Imports no backend but the one that is asked for."""
    if settings.backend == "reference":
        from pyrite.backends.reference import ReferenceBackend

        return ReferenceBackend()
    from pyrite.backends.cpu import CpuBackend

    nodes = find_nodes() if settings.numa == "spread" else ()
    return CpuBackend(settings.cache, files, nodes, progress)


def prepared(
    backend: Backend,
    plan: Plan,
    weights: Mapping[str, Tensor],
    num_pages: int,
    settings: Settings,
    threads: Threads,
) -> Runner:
    return backend.prepare(
        plan,
        weights,
        num_pages=num_pages,
        max_tokens=settings.max_batch_tokens,
        num_threads=threads.count,
        precision=settings.precision,
        kv_type=settings.kv_type,
    )


def available_for(plan: Plan, settings: Settings) -> int | None:
    """Bytes that a model may take. A step may have the logits of every token, and hardly has."""
    logits = settings.max_batch_tokens * plan.vocabulary * FLOAT_BYTES
    return available_bytes(reserved=logits)


def find_room(
    plan: Plan, weights: Mapping[str, Tensor], settings: Settings, available: int | None
) -> Room:
    """Context and pages that fit into `available` bytes (None: nobody knows).

    What is asked for is granted or refused, never reduced. By default the context is the model's,
    at most DEFAULT_CONTEXT, and less where memory is short. Pages cost memory once they are used;
    those that hold one request of a whole context must fit.

    Raises ParameterError for settings that contradict the model or each other, CapacityError.
    """
    page_bytes = PAGE_TOKENS * kv_bytes_per_token(plan, settings.kv_type)
    fixed = estimate_memory(plan, weights, kv_tokens=0, max_tokens=settings.max_batch_tokens)
    left = None if available is None else max(0, available - fixed.total) // page_bytes  # pages
    asked = _asked_pages(settings, page_bytes)
    context = _context(plan, settings, asked, left)
    least = pages_for(context)
    if asked is not None and asked < least:
        limit = f"at least {least} to hold one request of {context} tokens"
        raise ParameterError("kv_pages", asked, limit)
    needed = replace(fixed, keys_and_values=(asked or least) * page_bytes)
    require_memory(needed, available)
    if asked is not None:
        return Room(context, asked, "as asked")
    return Room(context, *_default_pages(least, left))


def _default_pages(least: int, left: int | None) -> tuple[int, str]:
    """And why so many."""
    wanted = FULL_REQUESTS * max(least, pages_for(DEFAULT_CONTEXT))
    share = wanted if left is None else int(left * KV_SHARE)
    if share >= wanted:
        return wanted, f"{wanted // least} whole contexts"
    if share > least:
        return share, f"{KV_SHARE:.0%} of the memory that the weights leave"
    return least, "one whole context: memory is short"


def room_note(room: Room, runner: Runner) -> str:
    num_bytes = room.num_pages * runner.page_bytes
    return (
        f"keys and values at most {-(-num_bytes >> 20)} MiB, {room.num_pages * PAGE_TOKENS} tokens:"
        f" {room.reason}; filled as they are used"
    )


def _asked_pages(settings: Settings, page_bytes: int) -> int | None:
    if settings.kv_bytes is None:
        return settings.kv_pages
    if settings.kv_bytes < page_bytes:
        limit = f"at least {page_bytes}, the bytes of one page"
        raise ParameterError("kv_bytes", settings.kv_bytes, limit)
    return settings.kv_bytes // page_bytes


def _context(plan: Plan, settings: Settings, asked: int | None, left: int | None) -> int:
    """`asked` and `left`: pages that the settings name, and that memory has room for."""
    if settings.context is None:
        limits = [plan.context_length, DEFAULT_CONTEXT]
        return min(*limits, *(pages * PAGE_TOKENS for pages in (asked, left) if pages))
    if settings.context > plan.context_length:
        limit = f"at most {plan.context_length}, what the model was made for"
        raise ParameterError("context", settings.context, limit)
    return settings.context
