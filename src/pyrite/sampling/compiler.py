"""Grammars made ready to be followed: compiled once, copied for each request.

The library is `llguidance`; it is imported, and the vocabulary laid out for it, when the first
grammar comes. Compiling runs on a thread of its own. Knows no request.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING

from pyrite.errors import ParameterError
from pyrite.records import dataclass
from pyrite.sampling.constraint import Constraint, shortened
from pyrite.sampling.deep_thread import DeepThread
from pyrite.sampling.forcing import Forcing
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.lark import prepare_lark
from pyrite.sampling.pattern import check_pattern
from pyrite.sampling.schema import parse_schema, written

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLParserLimits, LLTokenizer

KEPT = 64  # compiled grammars
ROW_ITEMS = 20_000  # of the parser: an object of 1000 optional properties takes 4007
LEXER_STATES = 50_000  # 1 to 2 kB each
LEXER_FUEL = 500_000  # to lay out all terminals: about half a second

# Tokens that may stand in a JSON string at once, of a bounded length and of any: their part of a
# mask is known beforehand. A mask of 262144 tokens takes 12 us so, and 3 ms without. Two more kinds
# that the library would add cost 0.3 s and 40 MB, and bring nothing here.
SLICES = [r'[^"\\\x00-\x1F\x7F]{1,10}', r'[^"\\\x00-\x1F\x7F]+']

# Without it each mask would spell out all text that can only follow: see `forcing.py`.
OPTIONS = '%llguidance {"no_forcing": true}\n'


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a compiler needs to know of a tokenizer."""

    texts: Sequence[bytes]  # of each token; empty: it stands for no text
    special_ids: Sequence[int]  # tokens that no text reaches
    end_ids: Sequence[int]  # tokens that end an answer
    encode: Callable[[bytes], list[int]]
    find: Callable[[str], int | None]  # the id of a special token


class GrammarCompiler:
    """`vocabulary` is asked for with the first grammar. Threads may share one.

    `ready_at` is when it was laid out (time.monotonic()), which the first grammar waits for.
    """

    def __init__(self, vocabulary: Callable[[], Vocabulary]) -> None:
        self._make_vocabulary = vocabulary
        self._thread = DeepThread("pyrite-grammar")
        self.ready_at: float | None = None
        self._lock = threading.Lock()
        self._kept: OrderedDict[Grammar, LLMatcher] = OrderedDict()  # the last used last

    def submit(self, grammar: Grammar) -> Future[Constraint]:
        """The constraint of one request, soon. Its error is a ParameterError."""
        matcher = self._found(grammar)
        if matcher is None:
            return self._thread.submit(lambda: self.compile(grammar))
        done: Future[Constraint] = Future()
        done.set_result(self._constraint(matcher, grammar))
        return done

    def let_go(self) -> None:
        """Nobody waits for what is being compiled: what comes next does not either."""
        self._thread = DeepThread("pyrite-grammar")

    def prepare(self) -> Future[object]:
        """Imports the library and lays out the vocabulary, as the first grammar would."""
        return self._thread.submit(lambda: self._tokenizer)

    def compile(self, grammar: Grammar) -> Constraint:
        """On this thread. Raises ParameterError."""
        matcher = self._found(grammar)
        if matcher is None:
            matcher = self._compiled(grammar)
            self._keep(grammar, matcher)
        return self._constraint(matcher, grammar)

    def _found(self, grammar: Grammar) -> LLMatcher | None:
        with self._lock:
            matcher = self._kept.get(grammar)
            if matcher is not None:
                self._kept.move_to_end(grammar)
            return matcher

    def _keep(self, grammar: Grammar, matcher: LLMatcher) -> None:
        with self._lock:
            self._kept[grammar] = matcher
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def _constraint(self, matcher: LLMatcher, grammar: Grammar) -> Constraint:
        size = self._tokenizer.vocab_size
        return Constraint(matcher.deep_copy(), self._forcing, grammar.kind, size)

    def _compiled(self, grammar: Grammar) -> LLMatcher:
        from llguidance import LLMatcher

        source = self._source(grammar)
        matcher = LLMatcher(self._tokenizer, source, log_level=0, limits=self._limits)
        if not matcher.is_error():
            matcher.compute_bitmask()  # finds what the compiler does not: no text at all fits
        if matcher.is_error():
            limit = f"one that can be enforced: {shortened(matcher.get_error())}"
            raise ParameterError(grammar.kind, grammar.source, limit)
        return matcher

    def _source(self, grammar: Grammar) -> str:
        """The grammar as the library takes it."""
        return json.dumps({"grammars": [{"lark_grammar": OPTIONS + self._lark(grammar)}]})

    def _lark(self, grammar: Grammar) -> str:
        if grammar.kind == "lark":
            size = len(self._vocabulary.texts)
            return prepare_lark(grammar.source, self._vocabulary.find, size)
        if grammar.kind == "choice":
            texts = (json.dumps(text, ensure_ascii=False) for text in json.loads(grammar.source))
            return "start: TEXT\nTEXT: " + " | ".join(texts)
        if grammar.kind == "regex":
            from llguidance import regex_to_lark

            check_pattern("regex", grammar.source)
            return f"start: TEXT\nTEXT: /{regex_to_lark(grammar.source)}/"
        schema = {"type": "object"} if grammar.kind == "json_object" else None
        return f"start: %json {json.dumps(written(schema or parse_schema(grammar.source)))}"

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return self._make_vocabulary()

    @cached_property
    def _forcing(self) -> Forcing:
        return Forcing(self._vocabulary, self._tokenizer)

    @cached_property
    def _limits(self) -> LLParserLimits:
        from llguidance import LLParserLimits

        return LLParserLimits(
            max_items_in_row=ROW_ITEMS,
            max_lexer_states=LEXER_STATES,
            initial_lexer_fuel=LEXER_FUEL,
            verbose_errors=False,
        )

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        from llguidance import LLTokenizer

        vocabulary = self._vocabulary
        if not any(vocabulary.texts):
            raise ParameterError("grammar", "", "absent: the model's tokens stand for no text")
        ends = list(vocabulary.end_ids)
        wrapper = _Wrapper(vocabulary)
        made = LLTokenizer(wrapper, eos_token=ends or None, slices=SLICES)  # type: ignore[arg-type]
        self.ready_at = time.monotonic()
        return made


class _Wrapper:
    """A vocabulary under the names that `LLTokenizer` reads."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = next(iter(vocabulary.end_ids), None)
        self.tokens = vocabulary.texts
        self.special_token_ids = vocabulary.special_ids
        self._encode = vocabulary.encode

    def __call__(self, text: str) -> list[int]:
        return self._encode(text.encode())
