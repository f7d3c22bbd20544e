"""The options that several verbs share: how to load a model, and how to sample from it.

Sampling options follow the table of fields below, so that flags, `/set` and the Python names are
one list. Values are parsed here and judged by SamplingParams and Settings.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrite.cli.progress import Progress
from pyrite.cli.terminal import this_terminal
from pyrite.errors import ParameterError

if TYPE_CHECKING:
    from pyrite.llm import Model

# What `run` samples with where nothing else is asked for: lively, without the tail.
CHAT_DEFAULTS: Mapping[str, Any] = {"temperature": 0.7, "top_p": 0.95}

# What `add_loading` adds, by the names of Settings.
LOADING = (
    *("threads", "context", "precision", "kv_type", "numa", "speculation", "backend"),
    "quant",
    "generation_config",
    "lora",
)
PATIENCE_SECONDS = 1.0  # in which a person does not ask what goes on


def whole(text: str) -> int:
    return int(text)


def flag(text: str) -> bool:
    if text.lower() in ("on", "true", "yes", "1"):
        return True
    if text.lower() in ("off", "false", "no", "0"):
        return False
    raise ValueError(text)


def text_list(text: str) -> tuple[str, ...]:
    """One string, in which \\n and \\t are a line break and a tab."""
    return (text.replace("\\n", "\n").replace("\\t", "\t"),)


def id_list(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def bias(text: str) -> dict[int, float]:
    """`42:-1.5,7:100`: additions to the logits of token ids."""
    pairs = (part.rsplit(":", 1) for part in text.split(","))
    return {int(token_id): float(value) for token_id, value in pairs}


# Field of SamplingParams: (parser of its text, what it does).
SAMPLING: dict[str, tuple[Callable[[str], Any], str]] = {
    "max_tokens": (
        whole,
        "tokens of the answer, at most (default: until the context is full; 256 where a model "
        "continues text)",
    ),
    "temperature": (
        float,
        "0 is greedy; higher is livelier (default for run: the model's, or 0.7)",
    ),
    "top_k": (whole, "sample from the K likeliest tokens (0: all)"),
    "top_p": (
        float,
        "sample from the likeliest tokens that make up P (default for run: the model's, or 0.95)",
    ),
    "min_p": (float, "sample from tokens of at least P times the likeliest one's probability"),
    "typical_p": (float, "sample from the tokens nearest to the expected surprise that make up P"),
    "repetition_penalty": (float, "divide logits of tokens seen in prompt and answer"),
    "presence_penalty": (float, "subtract from logits of tokens in the answer"),
    "frequency_penalty": (float, "subtract from logits, for each time a token is in the answer"),
    "dry_multiplier": (float, "strength of DRY, against repeated sequences (0: off)"),
    "dry_base": (float, "growth of DRY with the length of the repetition"),
    "dry_allowed_length": (whole, "length of repetitions that DRY lets pass"),
    "dry_range": (whole, "tokens that DRY looks back on (-1: all)"),
    "xtc_probability": (float, "chance that XTC drops the likeliest tokens"),
    "xtc_threshold": (float, "probability from which XTC counts a token as likely"),
    "logit_bias": (bias, "ID:VALUE[,ID:VALUE...] to add to logits"),
    "seed": (whole, "number that makes sampling repeatable"),
    "min_tokens": (whole, "tokens before which the answer does not end"),
    "stop": (text_list, "text that ends the answer; may be given several times"),
    "stop_token_ids": (id_list, "ID[,ID...] that end the answer"),
    "ignore_eos": (flag, "go on past the model's own end of an answer"),
}


def add_loading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("loading")
    add_threads(group)
    group.add_argument("-c", "--context", type=int, help="tokens that prompt and answer may have")
    add_precision(group)
    group.add_argument(
        "--kv-type",
        default="f16",
        metavar="{f16,q8}",
        help="keys and values in 16 bits, or in 8: about half the memory",
    )
    group.add_argument(
        "--numa",
        default="spread",
        metavar="{spread,off}",
        help="with several memory nodes: keep each thread to one, and lay weights on all",
    )
    group.add_argument(
        "--quant",
        metavar="RECIPE",
        help="quantize floating weights first, as pyrite quantize does (q4_k_m, q8_0, ...), and "
        "keep them so in the cache",
    )
    group.add_argument(
        "--speculation",
        default="ngram",
        metavar="{ngram,off,MODEL}",
        help="guess next tokens from repetitions, or by a small model of the same vocabulary; "
        "answers are the same",
    )
    group.add_argument(
        "--generation-config",
        default="auto",
        metavar="{auto,off}",
        help="sample as the model's maker recommends where nothing else is asked for, or do not",
    )
    group.add_argument(
        "--lora",
        action="append",
        default=[],
        metavar="[NAME=]PATH",
        help="an adapter (LoRA) beside the model, a folder that PEFT wrote or a GGUF file; may be "
        "given several times",
    )
    group.add_argument(
        "--backend", default="cpu", metavar="{cpu,reference}", help="what runs the model"
    )


def add_threads(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "-t", "--threads", type=int, help="threads to compute with (default: cores)"
    )


def add_precision(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--precision",
        default="default",
        metavar="{default,fast}",
        help="activations of at least 15 bits, or of 8 (last layer and head: 15)",
    )


def add_sampling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling")
    short = {"max_tokens": ["-n"], "temperature": ["--temp"], "seed": ["-s"]}
    for name, (parse, text) in SAMPLING.items():
        names = [f"--{name.replace('_', '-')}", *short.get(name, [])]
        if parse is flag:
            group.add_argument(*names, action="store_const", const=True, help=text)
        elif parse in (text_list, id_list):
            group.add_argument(*names, action="append", metavar="X", help=text)
        else:
            group.add_argument(*names, metavar="X", help=text)


def sampling_of(options: argparse.Namespace) -> dict[str, Any]:
    """The sampling fields that were given, parsed. Raises ParameterError."""
    given: dict[str, Any] = {}
    for name in SAMPLING:
        value = getattr(options, name)
        if isinstance(value, list):
            given[name] = tuple(item for text in value for item in parsed(name, text))
        elif value is not None:
            given[name] = value if value is True else parsed(name, value)
    return given


def parsed(name: str, text: str) -> Any:
    """The value of one sampling field, from text. Raises ParameterError."""
    parse = SAMPLING[name][0]
    try:
        return parse(text)
    except (ValueError, OverflowError):
        limit = {whole: "a whole number", float: "a number", flag: "on or off"}
        raise ParameterError(name, text, limit.get(parse, SAMPLING[name][1])) from None


def loading_of(options: argparse.Namespace) -> dict[str, Any]:
    """What `add_loading` added, as settings of a load."""
    found = {name: getattr(options, name) for name in LOADING}
    return {**found, "lora": tuple(found["lora"])}


def load_model(options: argparse.Namespace, path: Any, **more: Any) -> Model:
    """`more`: settings that no option of the verb names. It answers with its first adapter."""
    from pyrite.llm import load

    with packing(options.model) as progress:
        model = load(path, **loading_of(options), progress=progress, **more)
    model.adapter = next(iter(model.loaded.engine.adapters), "")
    return model


def packing(model: str) -> Progress:
    """A bar for who waits for a model's first start."""
    label = f"packing {Path(model).name}"
    return Progress(label, this_terminal(), after_seconds=PATIENCE_SECONDS)
