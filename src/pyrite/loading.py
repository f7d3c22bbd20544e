"""From a path to an engine: open, plan, see that it fits, prepare a backend.

Decides what the settings left open: the threads, and by `room` the context, pages and slots.
Refuses before anything large is read when memory does not suffice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyrite.backends.base import Backend, Progress, Runner
from pyrite.beside import Beside
from pyrite.config import Settings
from pyrite.cores import Threads, choose_threads
from pyrite.engine import Engine
from pyrite.errors import FormatError, ParameterError
from pyrite.formats.checkpoint import Checkpoint, Tensor, first_difference
from pyrite.formats.folder_text import end_ids
from pyrite.formats.vocabulary import require_tokenizer, stop_ids, takes_ids_alone
from pyrite.graph.plan import Plan
from pyrite.kv.pages import pages_for
from pyrite.memory import memory_errors
from pyrite.models.registry import build_plan, open_model, plan_for
from pyrite.nodes import find_nodes
from pyrite.records import dataclass
from pyrite.room import Room, available_for, find_room, room_note
from pyrite.sampling.params import SamplingParams
from pyrite.sampling.speculate import Guesser, Repetition
from pyrite.scheduler import Policy
from pyrite.speculation import Speculation
from pyrite.stopwatch import Stopwatch
from pyrite.text.ids_only import IdsOnly
from pyrite.text.template import ChatTemplate
from pyrite.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyrite.keeper import Keeper
    from pyrite.models.adapters import Adapter

NORMAL = 1  # of TokenizerData.types
DRAFT_REQUESTS = 2  # of a whole context that a draft model's pages hold
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


def load_engine(path: Path, settings: Settings, progress: Progress | None = None) -> Loaded:
    """`progress` hears of packing. Raises ModelError, CapacityError or BackendError."""
    with memory_errors(f"load {path.name}"):
        return _load_engine(path, settings, progress)


def _load_engine(path: Path, settings: Settings, progress: Progress | None) -> Loaded:
    watch = Stopwatch()
    checkpoint, adapters = open_with_adapters(path, settings, progress)
    watch.lap("open")
    making = Beside(lambda: own_tokenizer(checkpoint))
    plan = build_plan(checkpoint)
    room = find_room(plan, checkpoint.tensors, settings, available_for(plan, settings))
    plan = plan_for(checkpoint, plan, room.context)
    threads = choose_threads(settings.threads)
    watch.lap("plan")
    backend = make_backend(settings, checkpoint.files, progress)
    runner = prepared(backend, plan, checkpoint.tensors, room, settings, threads)
    watch.lap("weights")
    tokenizer = making.result() or ids_only(checkpoint, plan)
    check_vocabulary(checkpoint, plan)
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
        adapters={adapter.name: adapter.fingerprint for adapter in adapters},
    )
    watch.lap("engine")
    return Loaded(
        checkpoint, plan, tokenizer, settings, threads, engine, backend, watch.seconds, notes
    )


def open_with_adapters(
    path: Path, settings: Settings, progress: Progress | None = None
) -> tuple[Checkpoint, Sequence[Adapter]]:
    """The model, quantized if asked for, with the tensors of the adapters that are named."""
    model = _opened(path, settings, progress)
    if not settings.lora:
        return model, ()
    from pyrite.models.adapters import read_adapters, with_adapters

    adapters = read_adapters(settings.lora, path)
    return with_adapters(model, adapters), adapters


def _opened(path: Path, settings: Settings, progress: Progress | None) -> Checkpoint:
    if settings.quant is None:
        return open_model(path)
    from pyrite.quantized import open_quantized

    return open_quantized(path, settings.quant, settings.cache, settings.threads, progress)


def make_keeper(runner: Runner, settings: Settings) -> Keeper | None:
    """None where pages do not outlive the process."""
    if settings.kv_store_bytes is None or not settings.prefix_cache:
        return None
    from pyrite.keeper import Keeper
    from pyrite.kv.store import PageStore

    return Keeper(runner, PageStore(settings.cache / "kv", settings.kv_store_bytes))


def make_tokenizer(checkpoint: Checkpoint, plan: Plan) -> Tokenizer:
    """The model's own; for one that brings none, one that knows ids alone.

    Raises UnsupportedError for a GGUF file whose tokenizer is of an unknown kind.
    """
    return own_tokenizer(checkpoint) or ids_only(checkpoint, plan)


def own_tokenizer(checkpoint: Checkpoint) -> Tokenizer | None:
    """None for a model without one; raises what `make_tokenizer` does."""
    if takes_ids_alone(checkpoint):
        return None
    return Tokenizer.from_data(require_tokenizer(checkpoint))


def check_vocabulary(checkpoint: Checkpoint, plan: Plan) -> None:
    """Raises FormatError where merges make tokens that the model has no rows for: the tokenizer is
    another model's. Added tokens without rows are common, and an error where a text has them."""
    data = checkpoint.tokenizer
    if data is None or len(data.tokens) <= plan.vocabulary:
        return
    beyond = data.tokens.lengths[plan.vocabulary :] > 0
    if data.types is not None:
        beyond &= data.types[plan.vocabulary :] == NORMAL
    found = f"the tokenizer has {len(data.tokens)} tokens, and the model {plan.vocabulary}"
    if beyond.any():
        raise FormatError(
            f"{checkpoint.path.name}: {found}",
            hint="the tokenizer is of another model: take the one that came with the weights",
        )
    logger.warning(f"{found}: a text with one of the others is refused")


def ids_only(checkpoint: Checkpoint, plan: Plan) -> Tokenizer:
    if checkpoint.format == "gguf":
        return IdsOnly(plan.vocabulary, stop_ids(checkpoint.metadata, plan.vocabulary))
    return IdsOnly(plan.vocabulary, end_ids(checkpoint.config))


def sampling_defaults(checkpoint: Checkpoint, settings: Settings) -> Mapping[str, float]:
    """What requests sample with where they state nothing else: the model's maker's choice.

    Raises FormatError for a number that no request may have.
    """
    if settings.generation_config == "off":
        return {}
    try:
        SamplingParams(**checkpoint.sampling)  # type: ignore[arg-type]
    except ParameterError as error:
        raise FormatError(
            f"{checkpoint.path.name} recommends {error.message}", hint="--generation-config off"
        ) from None
    return checkpoint.sampling


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
    draft = open_model(find_model(settings.speculation))
    plan = build_plan(draft)
    num_tokens = same_vocabulary(checkpoint, draft, settings.speculation)
    context = min(room.context, plan.context_length)
    pages = DRAFT_REQUESTS * pages_for(context)
    own = replace(settings, context=context, kv_pages=pages, kv_bytes=None, state_slots=None)
    draft_room = find_room(plan, draft.tensors, own, available_for(plan, own))
    backend = make_backend(settings, draft.files, progress)
    plan = plan_for(draft, plan, draft_room.context)
    runner = prepared(backend, plan, draft.tensors, draft_room, settings, threads)
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
    room: Room,
    settings: Settings,
    threads: Threads,
) -> Runner:
    return backend.prepare(
        plan,
        weights,
        num_pages=room.num_pages,
        num_slots=room.num_slots,
        max_tokens=settings.max_batch_tokens,
        num_threads=threads.count,
        precision=settings.precision,
        kv_type=settings.kv_type,
    )
