"""Which pipelines of a tokenizer.json are known here: splitting, normalising, decoding, framing.

A part that is not known raises `UnknownPartError`, in words: the `tokenizers` library takes over
then. What splitting and merging mean is unknown here (`native/text`).

Source of the shapes: what the `tokenizers` library writes, and the files of published models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pyrite.formats.checkpoint import Normalization
from pyrite.formats.patterns import GPT2, NUMBER, SPELLINGS, SPLITTERS, WHOLE_WORDS
from pyrite.records import dataclass

Part = Mapping[str, Any] | None
SpacePrefix = Literal["always", "unless spaced", "first unless spaced"]
FORMS: tuple[Normalization, ...] = ("NFC", "NFD", "NFKC", "NFKD")

BOUNDARY = "\u2581"


class UnknownPartError(Exception):
    """Its text completes "the tokenizer has ..."."""


def stages(part: Part) -> Iterator[Mapping[str, Any]]:
    """The steps of a part, of sequences within sequences too."""
    if part is None:
        return
    inner = next(
        (part[name] for name in ("pretokenizers", "normalizers", "decoders", "processors")
         if name in part),
        None,
    )  # fmt: skip
    if part.get("type") != "Sequence":
        yield part
    elif isinstance(inner, list):
        for one in inner:
            if not isinstance(one, Mapping):
                raise UnknownPartError(f"a step that is a {type(one).__name__}")
            yield from stages(one)
    else:
        raise UnknownPartError("a sequence without steps")


def splitter(part: Part, *, whole_words: bool) -> str:
    """The name of a byte-level pre-tokenizer."""
    steps = list(stages(part))
    if is_falcon(steps):
        return "falcon-folder"
    if not steps or steps[-1].get("type") != "ByteLevel":
        raise UnknownPartError(f"the pre-tokenizer {shown(part)}")
    if puts_space(steps[-1]) and len(steps) > 1:
        raise UnknownPartError("a byte-level pre-tokenizer that puts a space before each word")
    patterns = [pattern_of(step) for step in steps[:-1]]
    if steps[-1].get("use_regex", True):
        patterns.append(GPT2)
    name = SPLITTERS.get(tuple(patterns))
    if name is None:
        raise UnknownPartError(f"the pre-tokenizer {shown(part)}")
    return WHOLE_WORDS.get(name, name) if whole_words else name


def is_falcon(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Of Falcon and Falcon-Mamba: numbers are looked for in what ByteLevel has written."""
    return (
        [step.get("type") for step in steps] == ["Punctuation", "ByteLevel", "Digits", "Split"]
        and steps[0].get("behavior") == "Contiguous"
        and steps[1].get("use_regex", True) is True
        and not puts_space(steps[1])
        and steps[2].get("individual_digits") is False
        and pattern_of(steps[3]) == "[0-9][0-9][0-9]"
    )


def puts_space(step: Mapping[str, Any]) -> bool:
    """Whether it puts a space before a text that has none, where it is the only step."""
    return step.get("type") == "ByteLevel" and bool(step.get("add_prefix_space", True))


def pattern_of(step: Mapping[str, Any]) -> str:
    """The pattern whose matches, and the gaps between them, are the pieces."""
    if step.get("type") == "Digits" and step.get("individual_digits") is True:
        return NUMBER
    pattern = step.get("pattern")
    regex = pattern.get("Regex") if isinstance(pattern, Mapping) else None
    # Published patterns match all there is, so that to remove what is not matched removes nothing.
    isolated = (step.get("behavior"), step.get("invert", False)) in (
        ("Isolated", False),
        ("Removed", True),
    )
    if step.get("type") != "Split" or not isinstance(regex, str) or not isolated:
        raise UnknownPartError(f"the pre-tokenizer {shown(step)}")
    written = regex.replace("\r", r"\r").replace("\n", r"\n")
    return SPELLINGS.get(written, written)


def normalization(part: Part) -> Normalization | None:
    """Of a byte-level tokenizer."""
    steps = list(stages(part))
    kinds = [step.get("type") for step in steps]
    for form in FORMS:
        if kinds == [form]:
            return form
    if steps:
        raise UnknownPartError(f"the normalizer {shown(part)}")
    return None


@dataclass(frozen=True, slots=True)
class Spaces:
    """How a tokenizer over characters writes spaces. `prefix` None: it puts none before a text."""

    prefix: SpacePrefix | None
    replaces_first: bool  # spaces are replaced before the late markers are looked for
    cuts: bool = False  # each space begins a word


REPLACED = {"type": "Replace", "pattern": {"String": " "}, "content": BOUNDARY}
PREPENDED = {"type": "Prepend", "prepend": BOUNDARY}
SCHEMES: dict[object, SpacePrefix | None] = {
    "always": "unless spaced",
    "first": "first unless spaced",
    "never": None,
}


def spaces(normalizer: Part, pre_tokenizer: Part) -> Spaces:
    """Of a tokenizer over characters."""
    changes = list(stages(normalizer))
    steps = [step for step in stages(pre_tokenizer) if not (changes and splits_at_spaces(step))]
    if changes == [PREPENDED, REPLACED] and not steps:
        return Spaces("always", replaces_first=True)
    if changes == [REPLACED] and not steps:
        return Spaces(None, replaces_first=True)
    if changes or len(steps) != 1:
        both = [part for part in (normalizer, pre_tokenizer) if part is not None]
        raise UnknownPartError(f"the steps {', '.join(map(shown, both)) or 'none'} before it")
    return metaspace(steps[0])


def splits_at_spaces(step: Mapping[str, Any]) -> bool:
    """After spaces have been replaced, it finds none."""
    return step.get("type") == "Split" and step.get("pattern") == {"String": " "}


def metaspace(step: Mapping[str, Any]) -> Spaces:
    scheme = step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
    known = (
        step.get("type") == "Metaspace"
        and step.get("replacement") == BOUNDARY
        and isinstance(step.get("split", True), bool)
        and isinstance(scheme, str)
        and scheme in SCHEMES
    )
    if not known:
        raise UnknownPartError(f"the pre-tokenizer {shown(step)}")
    return Spaces(SCHEMES[scheme], replaces_first=False, cuts=step.get("split", True))


STRIPPED = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
SPACED = {"type": "Replace", "pattern": {"String": BOUNDARY}, "content": " "}


def check_byte_decoder(part: Part) -> None:
    if [step.get("type") for step in stages(part)] != ["ByteLevel"]:
        raise UnknownPartError(f"the decoder {shown(part)}")


def strips_space(part: Part) -> bool:
    """Whether a decoder of a tokenizer over characters takes a space away that begins a text."""
    steps = [step for step in stages(part) if step.get("type") not in ("ByteFallback", "Fuse")]
    if steps not in ([SPACED], [SPACED, STRIPPED]):
        raise UnknownPartError(f"the decoder {shown(part)}")
    return steps[-1] == STRIPPED


def frame(part: Part) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that a post-processor puts before and after a text."""
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    for step in stages(part):
        if step.get("type") == "ByteLevel":  # it moves offsets alone
            continue
        added = frame_of(step)
        before, after = added[0] + before, after + added[1]
    return before, after


def frame_of(step: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    try:
        if step.get("type") in ("RobertaProcessing", "BertProcessing"):
            return (whole(step["cls"][1]),), (whole(step["sep"][1]),)
        if step.get("type") != "TemplateProcessing":
            raise UnknownPartError(f"the post-processor {shown(step)}")
        return frame_of_template(step["single"], step["special_tokens"])
    except (KeyError, IndexError, TypeError, AttributeError):
        raise UnknownPartError(f"the post-processor {shown(step)}") from None


def frame_of_template(
    pieces: Sequence[Mapping[str, Any]], named: Mapping[str, Any]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sides: tuple[list[int], list[int]] = ([], [])
    seen = 0
    for piece in pieces:
        if "Sequence" in piece:
            seen += 1
        else:
            ids = named[piece["SpecialToken"]["id"]]["ids"]
            sides[min(seen, 1)].extend(whole(one) for one in ids)
    if seen != 1:
        raise UnknownPartError(f"a post-processor that gives the text {seen} times")
    return tuple(sides[0]), tuple(sides[1])


def whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def shown(part: Part) -> str:
    """A part's kinds, and enough of a pattern to know it by."""
    if part is None:
        return "none"
    names = []
    for step in stages(part):
        details = step.get("pattern") or step.get("behavior") or ""
        names.append(f"{step.get('type')} {str(details)[:60]}".strip())
    return " then ".join(names)[:200]
