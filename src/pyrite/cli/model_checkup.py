"""What `doctor` looks at in a model file; each check gives a line of text or raises."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyrite.cli.doctor import Fault, Skip
from pyrite.cli.probe import layer_errors
from pyrite.cli.terminal import size
from pyrite.config import Settings
from pyrite.errors import CapacityError, TemplateError
from pyrite.formats.finite import find_in_tensor
from pyrite.formats.vocabulary import takes_ids_alone
from pyrite.llm import Model, load
from pyrite.loading import ids_only
from pyrite.models.registry import build_plan, open_model
from pyrite.text.chat import chat_segments
from pyrite.text.template import ChatTemplate
from pyrite.text.tokenizer import Tokenizer

TEXTS = (
    "The quick brown fox jumps over 13 lazy dogs.",
    "déjà vu, 北京, שלום, 👩‍🚀\tand a tab",
    "def f(x):\n    return x + 1\n\n",
    "<|im_end|></s><eos> are only words here",
)
PROBE = "The capital of France is Paris, and the capital of Italy is"
MAX_LAYER_ERROR = 0.02  # of the residual stream; float16 keys and values give about 0.001
MAX_LOST = 0.5  # nats, by quantization; at 2 bits a weight it is some tenths
MAX_DIVERGENCE = 0.005  # nats; at 15 bits of activation it is about a hundredth of that


class ModelChecks:
    """Opens and plans at once, which is the first check: raises ModelError."""

    def __init__(self, path: Path, threads: int | None, original: Path | None = None) -> None:
        self.path = path
        self.original = original
        self.threads = threads
        self.checkpoint = open_model(path)
        self.plan = build_plan(self.checkpoint)
        data = self.checkpoint.tokenizer
        self.tokenizer = None if data is None else Tokenizer.from_data(data)

    def all(self) -> list[tuple[str, Callable[[], str]]]:
        return [
            ("file", self.file),
            ("tensors", self.tensors),
            ("tokenizer", self.round_trip),
            ("tokenizer.json", self.same_tokens),
            ("template", self.template),
            ("end of answer", self.stop_tokens),
            ("numbers", self.numbers),
            ("layers", self.layers),
            ("quantization", self.quantization),
        ]

    def file(self) -> str:
        one = self.checkpoint
        return f"{one.architecture}, {len(one.tensors)} tensors, {size(one.num_bytes)}: {self.path}"

    def tensors(self) -> str:
        wrong = [name for name, one in self.checkpoint.tensors.items() if find_in_tensor(one)]
        if wrong:
            raise Fault(f"infinite or not a number in {len(wrong)}: {', '.join(wrong[:3])}")
        return "every number is finite"

    def round_trip(self) -> str:
        tokenizer = self._tokenizer()
        for text in TEXTS:
            back = tokenizer.decode(tokenizer.encode(text), skip_special=False)
            if back != text:
                raise Fault(f"{text!r} comes back as {back!r}")
        if tokenizer.warnings:
            raise Fault("; ".join(tokenizer.warnings))
        return f"{tokenizer.vocab_size} tokens; texts come back as they were"

    def same_tokens(self) -> str:
        """Against the `tokenizers` library with the tokenizer.json beside the model."""
        folder = self.path if self.path.is_dir() else self.path.parent
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise Skip("there is none beside the model")
        try:
            from tokenizers import Tokenizer as Library
        except ImportError:
            raise Skip("the library tokenizers is not installed: pip install tokenizers") from None
        library = Library.from_file(str(file))
        for text in TEXTS:
            wanted = library.encode(text, add_special_tokens=False).ids
            found = self._tokenizer().encode(text, special=True).tolist()
            if found != wanted:
                raise Fault(f"{text!r} is {wanted} there, and {found} here")
        return f"{len(TEXTS)} texts have the same tokens"

    def template(self) -> str:
        if self.checkpoint.chat_template is None:
            raise Skip("none: the model continues text")
        template = ChatTemplate(
            self.checkpoint.chat_template,
            bos_token=self._text(self._tokenizer().bos_id),
            eos_token=self._text(next(iter(self._tokenizer().eos_ids), None)),
        )
        segments = chat_segments(template, [{"role": "user", "content": PROBE}])
        text = "".join(part for part, _ in segments)
        if PROBE not in text:
            raise Fault("what a user says does not appear in the prompt")
        self._check_markers(segments)
        try:
            chat_segments(
                template, [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]
            )
        except TemplateError as error:
            return f"renders; without system messages: {error.message}"
        return f"renders, {len(text)} characters for one message"

    def _check_markers(self, segments: list[tuple[str, bool]]) -> None:
        tokenizer = self._tokenizer()
        ids = tokenizer.encode_segments(segments)
        if not any(tokenizer.is_special(int(token_id)) for token_id in ids):
            raise Fault("its turns are marked by no control token of this tokenizer")

    def stop_tokens(self) -> str:
        if takes_ids_alone(self.checkpoint):
            return self._ending_ids()
        tokenizer = self._tokenizer()
        stops = tokenizer.stop_ids
        beyond = [token_id for token_id in stops if token_id >= self.plan.vocabulary]
        if not stops or beyond:
            raise Fault(
                f"outside the vocabulary: {beyond}" if beyond else "no token ends an answer"
            )
        return ", ".join(f"{token_id} {tokenizer.token_text(token_id)!r}" for token_id in stops)

    def _ending_ids(self) -> str:
        """Of a model without a tokenizer, which may say them all the same."""
        ends = ids_only(self.checkpoint, self.plan).eos_ids
        if not ends:
            raise Skip("the model names no token that ends an answer: it ends at max_tokens")
        return f"token {', '.join(map(str, ends))}, by its id alone"

    def numbers(self) -> str:
        """Kullback-Leibler divergence of the backend's next-token probabilities."""
        ids = self._probe_ids()
        try:
            expected = self._log_probabilities(ids, "reference")
        except CapacityError as error:
            raise Skip(f"the reference has no room here: {error.message}") from None
        found = self._log_probabilities(ids, "cpu")
        divergence = (np.exp(expected) * (expected - found)).sum(axis=1)  # (tokens,)
        worst = float(divergence.max())
        if not worst < MAX_DIVERGENCE:
            raise Fault(
                f"diverges from the reference by {worst:.2g} nats; {MAX_DIVERGENCE} is much"
            )
        return f"as the reference computes: at most {worst:.1g} nats apart on {len(ids)} tokens"

    def layers(self) -> str:
        """The CPU backend beside the reference, where layers end."""
        ids = self._probe_ids()
        settings = Settings(threads=self.threads)
        try:
            errors = layer_errors(self.checkpoint, ids, settings)
        except CapacityError as error:
            raise Skip(f"the reference has no room here: {error.message}") from None
        worst = max(errors, key=lambda one: one.error)
        first = next((one for one in errors if not one.error < MAX_LAYER_ERROR), None)
        if first is not None:
            raise Fault(
                f"after layer {first.layer} the stream is off by {first.error:.2g} of its size;"
                f" {MAX_LAYER_ERROR} is much"
            )
        return f"{len(errors)} of them off by {worst.error:.1g} of the stream's size at most"

    def quantization(self) -> str:
        """How far the next token's probabilities are from the original's."""
        if self.original is None:
            raise Skip("no original is named: --original MODEL")
        ids = self._probe_ids()
        original = self._log_probabilities(ids, "cpu", self.original)
        divergence = (np.exp(original) * (original - self._log_probabilities(ids, "cpu"))).sum(1)
        mean, worst = float(divergence.mean()), float(divergence.max())
        if not mean < MAX_LOST:
            raise Fault(f"{mean:.2g} nats from the original in the mean; {MAX_LOST} is much")
        return f"{mean:.2g} nats from the original in the mean, {worst:.2g} at most"

    def _probe_ids(self) -> list[int]:
        if self.tokenizer is None:
            return list(range(min(14, self.plan.vocabulary)))
        ids: list[int] = self.tokenizer.encode(PROBE, bos=True).tolist()
        return ids

    def _log_probabilities(
        self, ids: list[int], backend: str, path: Path | None = None
    ) -> NDArray[np.float64]:
        context = min(64, self.plan.context_length)
        with closing(self._load(backend, context, path or self.path)) as model:
            logits = model.logits(ids).astype(np.float64)  # (tokens, vocabulary)
        if not np.isfinite(logits).all():
            raise Fault(f"the {backend} backend gives logits that are not finite")
        shifted = logits - logits.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))

    def _load(self, backend: str, context: int, path: Path) -> Model:
        return load(path, backend=backend, context=context, threads=self.threads)

    def _tokenizer(self) -> Tokenizer:
        if takes_ids_alone(self.checkpoint):
            raise Skip("none: token ids go in and come out")
        if self.tokenizer is None:
            raise Fault("the file holds no tokenizer that is known here")
        return self.tokenizer

    def _text(self, token_id: int | None) -> str:
        return "" if token_id is None else self._tokenizer().token_text(token_id)


def checksum(path: Path) -> str:
    """Whether the files are the ones that were fetched."""
    from pyrite.formats.fetch import sha256_of
    from pyrite.formats.hub import known_checksums

    known = known_checksums(path)
    if not known:
        raise Skip("none is known: the file was not fetched by Pyrite")
    wrong = [file.name for file, digest in known.items() if sha256_of(file) != digest]
    if wrong:
        raise Fault(f"{', '.join(wrong)}: not what was fetched; `pyrite pull` fetches it again")
    return f"SHA-256 of {len(known)} file{'s' if len(known) > 1 else ''}: as it was fetched"
