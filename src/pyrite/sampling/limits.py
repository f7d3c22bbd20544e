"""The bounds of every sampling parameter: the one table that validation, documents and tests read.

Pure data. It does not know what a parameter does.
"""

from __future__ import annotations

from pyrite.records import dataclass

GREEDY_BELOW = 1e-5  # a temperature under this is greedy, exactly as 0 is
LOGPROB_FLOOR = -9999.0  # stands for minus infinity, which JSON cannot carry

MAX_TOKEN_ID = 2**31 - 1
MAX_STOPS = 16
MAX_STOP_LENGTH = 256  # characters of one stop string
MAX_STOP_IDS = 128
MAX_BIAS_ENTRIES = 1024
MAX_BREAKERS = 64
MAX_BREAKER_LENGTH = 64  # characters of one sequence breaker

# Of grammars. What lies within them compiles in about a second on a slow core, and costs a few
# milliseconds a mask.
GRAMMAR_BYTES = {  # of UTF-8, by the grammar's kind
    "json_schema": 2**18,
    "json_object": 0,
    "regex": 2**14,
    "lark": 2**19,
    "choice": 2**18,
}
MAX_CHOICES = 10_000
MAX_SCHEMA_DEPTH = 100  # values in values
MAX_ENUM_VALUES = 10_000
MAX_PROPERTIES = 1_000  # of one object
MAX_MINIMUM = 100_000  # minLength, minItems, minProperties: more than any answer reaches
MAX_MATCH_LENGTH = 10_000  # characters of the shortest text that a pattern matches
MAX_RULES = 1_000  # rules and terminals of a Lark grammar
MAX_COMPILE_SECONDS = 10.0  # of waiting for a grammar, in a queue of others too
GRAMMAR_SECONDS = 0.5  # of processor time that following a grammar may take in one request,
GRAMMAR_TOKEN_SECONDS = 0.005  # and more for each token of the answer
GUESS_SECONDS = 0.005  # that it may take to see whether guessed tokens fit, in one step


@dataclass(frozen=True, slots=True)
class Range:
    """A number from `low` to `high`, both included. `optional`: None means not set."""

    low: float
    high: float
    whole: bool = False
    optional: bool = False

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        text = f"{kind} from {self.low} to {self.high}"
        return f"{text}, or none" if self.optional else text


RANGES: dict[str, Range] = {
    "max_tokens": Range(0, 2**31 - 1, whole=True, optional=True),
    "temperature": Range(0.0, 2.0),
    "top_k": Range(0, 2**31 - 1, whole=True),
    "top_p": Range(0.0, 1.0),
    "min_p": Range(0.0, 1.0),
    "typical_p": Range(0.0, 1.0),
    "repetition_penalty": Range(0.01, 10.0),
    "presence_penalty": Range(-2.0, 2.0),
    "frequency_penalty": Range(-2.0, 2.0),
    "dry_multiplier": Range(0.0, 100.0),
    "dry_base": Range(1.0, 10.0),
    "dry_allowed_length": Range(1, 2**31 - 1, whole=True),
    "dry_range": Range(-1, 2**31 - 1, whole=True),
    "xtc_probability": Range(0.0, 1.0),
    "xtc_threshold": Range(0.0, 1.0),
    "seed": Range(-(2**63), 2**63 - 1, whole=True, optional=True),
    "min_tokens": Range(0, 2**31 - 1, whole=True),
    "logprobs": Range(0, 20, whole=True, optional=True),
    "prompt_logprobs": Range(0, 20, whole=True, optional=True),
}
TOKEN_ID = Range(0, MAX_TOKEN_ID, whole=True)
BIAS = Range(-100.0, 100.0)
