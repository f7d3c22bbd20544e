"""A model without a model: logits that are a function of the tokens read back from its pages.

Whatever the engine does to pages, chunks and batches must not change what a request reads; a wrong
page, a page reused too early or a position off by one changes the logits here at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import PAGE_TOKENS, Batch
from pyrite.config import Settings
from pyrite.cores import Threads
from pyrite.engine import Engine
from pyrite.errors import BackendError
from pyrite.formats.checkpoint import Checkpoint, StringTable, TokenizerData
from pyrite.llm import Model
from pyrite.loading import Loaded
from pyrite.request import Delta, Request
from pyrite.sampling.params import SamplingParams
from pyrite.text.tokenizer import Tokenizer

EOS = 256
MARKER = 257
NUM_IDS = 258
VOCABULARY = 260  # the last two rows are padding: no token has these ids
POISON = -7

History = tuple[int, ...]
Logits = Callable[[History], NDArray[np.float32]]


def table(texts: Sequence[bytes]) -> StringTable:
    lengths = np.array([len(text) for text in texts], dtype=np.int32)
    starts = (np.cumsum(lengths) - lengths).astype(np.int64)
    return StringTable(np.frombuffer(b"".join(texts), dtype=np.uint8), starts, lengths)


def byte_characters() -> list[str]:
    """The visible character that stands for each byte in byte-level BPE (GPT-2's table)."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def byte_tokenizer() -> Tokenizer:
    """Token i < 256 is the byte i; then an end of text and a control token `<marker>`."""
    texts = [character.encode() for character in byte_characters()]
    return Tokenizer.from_data(
        TokenizerData(
            model="bpe",
            pre="gpt-2",
            tokens=table([*texts, b"<eos>", b"<marker>"]),
            types=np.array([1] * 256 + [3, 3], dtype=np.int32),
            scores=None,
            merges=table([]),
            eos_ids=(EOS,),
        )
    )


def hashed(history: History) -> NDArray[np.float32]:
    """Random logits that every token of the history changes; letters and blanks are likely."""
    seed = zlib.crc32(np.array(history, dtype=np.int32).tobytes())
    logits = np.random.default_rng(seed).normal(size=VOCABULARY).astype(np.float32)
    logits[[32, *range(97, 123)]] += 20
    return logits


def script(prompt: str | Sequence[int], answer: str | Sequence[int]) -> Logits:
    """Logits peaked on the answer's ids in turn, for one prompt; other histories are hashed."""
    start, following = ids(prompt), ids(answer)

    def logits(history: History) -> NDArray[np.float32]:
        done = len(history) - len(start)
        if history[: len(start)] != start or done >= len(following):
            return hashed(history)
        peaked = np.zeros(VOCABULARY, dtype=np.float32)
        peaked[following[done]] = 50
        return peaked

    return logits


def ids(text: str | Sequence[int]) -> tuple[int, ...]:
    return tuple(text.encode()) if isinstance(text, str) else tuple(text)


class ReadingRunner:
    """`pages` holds the token ids as a real runner holds keys and values."""

    def __init__(
        self, logits: Logits = hashed, *, num_pages: int = 32, max_tokens: int = 64
    ) -> None:
        self.logits = logits
        self.num_pages = num_pages
        self.max_tokens = max_tokens
        self.pages = np.full((num_pages, PAGE_TOKENS), POISON, dtype=np.int32)
        self.fails: Callable[[int, Batch], bool] = lambda number, batch: False
        self.sizes: list[list[int]] = []  # of each run: tokens of each sequence

    def run(self, batch: Batch) -> NDArray[np.float32]:
        sizes = np.diff(batch.sequence_starts)
        self.sizes.append(sizes.tolist())
        if self.fails(len(self.sizes), batch):
            raise BackendError(f"run {len(self.sizes)} failed, as scripted")
        assert 0 < batch.num_tokens == sizes.sum() <= self.max_tokens
        owners = np.repeat(np.arange(len(sizes)), sizes)
        places = batch.page_tables[owners, batch.positions // PAGE_TOKENS]
        assert (places >= 0).all(), "a token without a page"
        self.pages[places, batch.positions % PAGE_TOKENS] = batch.token_ids
        rows = [self._row(batch, int(row), int(owners[row])) for row in batch.output_rows]
        return np.array(rows, dtype=np.float32).reshape(len(rows), VOCABULARY)

    def _row(self, batch: Batch, row: int, owner: int) -> NDArray[np.float32]:
        num_tokens = int(batch.positions[row]) + 1
        used = batch.page_tables[owner, : -(-num_tokens // PAGE_TOKENS)]
        history = self.pages[used].ravel()[:num_tokens]
        assert (history >= 0).all(), "read a page that was never written, or was given back"
        return self.logits(tuple(history.tolist()))

    def copy_page(self, source: int, target: int) -> None:
        self.pages[target] = self.pages[source]

    @property
    def page_bytes(self) -> int:
        return self.pages[0].nbytes

    def read_page(self, page: int, out: NDArray[np.uint8]) -> None:
        out[...] = self.pages[page].view(np.uint8)

    def write_page(self, page: int, data: NDArray[np.uint8]) -> None:
        self.pages[page] = data.view(np.int32)

    num_slots = 0

    @property
    def state_bytes(self) -> int:
        return 0

    def copy_state(self, source: int, target: int) -> None:
        raise AssertionError("no state")

    def read_state(self, slot: int, out: NDArray[np.uint8]) -> None:
        raise AssertionError("no state")

    def write_state(self, slot: int, data: NDArray[np.uint8]) -> None:
        raise AssertionError("no state")


class StateRunner(ReadingRunner):
    """`states` holds of each slot how many tokens went through it, and a sum of them.

    Whoever goes on from a state of other tokens than its pages hold is found out at once.
    """

    def __init__(self, logits: Logits = hashed, *, num_slots: int = 8, **sizes: int) -> None:
        super().__init__(logits, **sizes)
        self.num_slots = num_slots
        self.states = np.full((num_slots, 2), POISON, dtype=np.int64)
        self.free_slots: Callable[[], Iterable[int]] = lambda: ()

    def run(self, batch: Batch) -> NDArray[np.float32]:
        self.states[list(self.free_slots())] = POISON
        slots = batch.state_slots.tolist()
        assert len(slots) == len(set(slots)) == len(batch.sequence_starts) - 1
        logits = super().run(batch)
        ends = pairwise(batch.sequence_starts)
        for owner, (slot, (start, stop)) in enumerate(zip(slots, ends, strict=True)):
            self._move(batch, owner, slot, range(start, stop))
        return logits

    def _move(self, batch: Batch, owner: int, slot: int, rows: range) -> None:
        first, stop = int(batch.positions[rows[0]]), int(batch.positions[rows[-1]]) + 1
        history = self.pages[batch.page_tables[owner, : -(-stop // PAGE_TOKENS)]].ravel()
        count, seen = (0, 0) if first == 0 else self.states[slot].tolist()
        assert count == first, f"the state after {count} tokens, not {first}"
        assert seen == zlib.crc32(history[:first].tobytes()), "the state of other tokens"
        self.states[slot] = stop, zlib.crc32(history[:stop].tobytes())

    @property
    def state_bytes(self) -> int:
        return self.states[0].nbytes

    def copy_state(self, source: int, target: int) -> None:
        self.states[target] = self.states[source]

    def read_state(self, slot: int, out: NDArray[np.uint8]) -> None:
        out[...] = self.states[slot].view(np.uint8)

    def write_state(self, slot: int, data: NDArray[np.uint8]) -> None:
        self.states[slot] = data.view(np.int64)


@dataclass
class Result:
    deltas: list[Delta] = field(default_factory=list)

    @property
    def token_ids(self) -> list[int]:
        return [token_id for delta in self.deltas for token_id in delta.token_ids]

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)

    @property
    def last(self) -> Delta:
        return self.deltas[-1]


def make_engine(runner: ReadingRunner, *, context: int = 512, **options: Any) -> Engine:
    """An engine over the runner, whose pages are poisoned once nobody holds them."""
    engine = Engine(
        runner,
        byte_tokenizer(),
        vocabulary=VOCABULARY,
        context_length=min(context, runner.num_pages * PAGE_TOKENS),
        **options,
    )
    pool = engine.scheduler.cache.pool
    give_back = pool.give_back

    def poisoned(pages: Iterable[int]) -> None:
        pages = list(pages)
        give_back(pages)
        runner.pages[[page for page in pages if not pool.is_held(page)]] = POISON

    pool.give_back = poisoned  # type: ignore[method-assign]
    if isinstance(runner, StateRunner):
        states = engine.scheduler.cache.states
        assert states is not None
        runner.free_slots = lambda: states._free
    return engine


def request(name: str, prompt: str | Sequence[int], **params: object) -> Request:
    params.setdefault("temperature", 0)
    return Request(name, ids(prompt), SamplingParams(**params))  # type: ignore[arg-type]


def drive(engine: Engine, requests: Iterable[Request] = ()) -> dict[str, Result]:
    """Runs until idle, checking every invariant after each step, and that nothing is kept."""
    for one in requests:
        engine.add(one)
    results: dict[str, Result] = {}
    for _ in range(5000):
        if not engine.has_work:
            break
        take_step(engine, results)
    assert_idle(engine)
    return results


def take_step(engine: Engine, results: dict[str, Result]) -> None:
    for delta in engine.step():
        results.setdefault(delta.request_id, Result()).deltas.append(delta)
    engine.check()


def assert_idle(engine: Engine) -> None:
    engine.check()
    assert not engine.has_work
    assert engine.scheduler.cache.num_free == engine.runner.num_pages
    states = engine.scheduler.cache.states
    assert states is None or states.num_held == 0


def alone(one: Request, logits: Logits = hashed, *, context: int = 512) -> Result:
    """The request's result in an engine of its own, with room for everything."""
    runner = ReadingRunner(logits, num_pages=32, max_tokens=1024)
    return drive(make_engine(runner, context=context), [one])[one.request_id]


def scripted_model(logits: Logits = hashed, *, num_pages: int = 32, template: str = "") -> Model:
    """A `Model` whose answers are scripted; everything but the runner is the real thing."""
    tokenizer = byte_tokenizer()
    checkpoint = Checkpoint(
        path=Path("scripted"),
        format="gguf",
        architecture="scripted",
        metadata={},
        tensors={},
        chat_template=template or None,
    )
    engine = make_engine(ReadingRunner(logits, num_pages=num_pages))
    nothing: Any = None  # a plan, a backend: it has none
    threads = Threads(1, "1: scripted")
    return Model(Loaded(checkpoint, nothing, tokenizer, Settings(), threads, engine, nothing))
