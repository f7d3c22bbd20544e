"""Which pipelines of a tokenizer.json are known here: splitting, normalising, decoding, framing.

A part that is not known raises `UnknownPartError`, in words: the `tokenizers` library takes over
then. What splitting and merging mean is unknown here (`native/text`).

Source of the shapes: what the `tokenizers` library writes, and the files of published models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pyrite.records import dataclass

Part = Mapping[str, Any] | None
SpacePrefix = Literal["always", "unless spaced", "first unless spaced"]

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LEAD = r"[^\r\n\p{L}\p{N}]?"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
BOUNDARY = "\u2581"


class UnknownPartError(Exception):
    """Its text completes "the tokenizer has ..."."""


def cl100k(numbers: str) -> str:
    return rf"{CONTRACTION}|{LEAD}\p{{L}}+|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{LINES}"


def o200k(numbers: str, suffix: str) -> str:
    words = f"{LEAD}{UPPER}*{LOWER}+{suffix}|{LEAD}{UPPER}+{LOWER}*{suffix}"
    return rf"{words}|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{LINES}"


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN35 = (
    rf"{CONTRACTION}|{LEAD}[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{LINES}"
)
DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{LINES}"
)
SEED_CODER = rf"{CONTRACTION}|{LEAD}\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{LINES}"
SUPERWORD = r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+"
EXAONE_MOE = (
    rf"{CONTRACTION}|{LEAD}{SUPERWORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]"
    r"|\s+(?!\S)|\s+"
)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
NUMBER, NUMBERS = r"\p{N}", r"\p{N}{1,3}"


def tiktoken(numbers: str) -> str:
    """cl100k as OpenAI's own file spells it."""
    return (
        rf"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{{L}}\p{{N}}]?+\p{{L}}+|{numbers}"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    )


# Other spellings of the same: nothing is given back where something possessive has matched.
SPELLINGS = {
    tiktoken(NUMBER): cl100k(NUMBER),
    tiktoken(NUMBERS): cl100k(NUMBERS),
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": GPT2,
    r"\p{N}{1}": NUMBER,
}

# The patterns of a pre-tokenizer, in order -> its name in GGUF files (native/text/split.cpp).
SPLITTERS: dict[tuple[str, ...], str] = {
    (GPT2,): "gpt-2",
    (NUMBER, GPT2): "smollm",
    (cl100k(NUMBER),): "qwen2",
    (cl100k(NUMBERS),): "dbrx",
    (QWEN35,): "qwen35",
    (o200k(NUMBERS, CONTRACTION + "?"),): "gpt-4o",
    (o200k(NUMBER, ""),): "tekken",
    (NUMBERS, "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3): "deepseek-v3",
    (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", NUMBER): "deepseek-coder",
    (SEED_CODER,): "seed-coder",
    (EXAONE_MOE,): "exaone-moe",
    (NUMBERS, cl100k(r"\p{N}+")): "minicpm5",
    (BLOOM,): "bloom",
    (BLOOM, NUMBER): "viking",
}
WHOLE_WORDS = {"dbrx": "llama-bpe"}  # the name where a word that is a token is taken as it is


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
    if not steps or steps[-1].get("type") != "ByteLevel":
        raise UnknownPartError(f"the pre-tokenizer {shown(part)}")
    if steps[-1].get("add_prefix_space", True):
        raise UnknownPartError("a byte-level pre-tokenizer that puts a space before each text")
    patterns = [pattern_of(step) for step in steps[:-1]]
    if steps[-1].get("use_regex", True):
        patterns.append(GPT2)
    name = SPLITTERS.get(tuple(patterns))
    if name is None:
        raise UnknownPartError(f"the pre-tokenizer {shown(part)}")
    return WHOLE_WORDS.get(name, name) if whole_words else name


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


def normalization(part: Part) -> Literal["NFC"] | None:
    """Of a byte-level tokenizer."""
    steps = list(stages(part))
    if not steps:
        return None
    if [step.get("type") for step in steps] == ["NFC"]:
        return "NFC"
    raise UnknownPartError(f"the normalizer {shown(part)}")


@dataclass(frozen=True, slots=True)
class Spaces:
    """How a tokenizer over characters writes spaces. `prefix` None: it puts none before a text."""

    prefix: SpacePrefix | None
    replaces_first: bool  # spaces are replaced before the late markers are looked for


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
        and step.get("split", True) is False
        and isinstance(scheme, str)
        and scheme in SCHEMES
    )
    if not known:
        raise UnknownPartError(f"the pre-tokenizer {shown(step)}")
    return Spaces(SCHEMES[scheme], replaces_first=False)


STRIPPED = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
SPACED = {"type": "Replace", "pattern": {"String": BOUNDARY}, "content": " "}


def check_byte_decoder(part: Part) -> None:
    if [step.get("type") for step in stages(part)] != ["ByteLevel"]:
        raise UnknownPartError(f"the decoder {shown(part)}")


def check_piece_decoder(part: Part, *, strips: bool) -> None:
    """`strips`: it takes the space away that was put before the text."""
    steps = [step for step in stages(part) if step.get("type") not in ("ByteFallback", "Fuse")]
    if steps != ([SPACED, STRIPPED] if strips else [SPACED]):
        raise UnknownPartError(f"the decoder {shown(part)}")


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
