"""Answers put together from markers, halves of markers, calls and what looks like calls."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from pyrite.text.calls.write import write_calls
from pyrite.text.reasoning import FORMATS as REASONING
from pyrite.text.toolcalls import FORMATS

CALLS = [("f", {}), ("g", {"a": 'x "y" \\ {z}\n', "b": [1, {"c": None}], "é😀": -1.5e3})]
MARKERS = sorted(
    {marker for row in FORMATS for marker in row.markers}
    | {marker for row in REASONING for marker in (*row.markers, *row.wrappers)}
)
WHOLE = [str(write_calls(row, CALLS[:count])) for row in FORMATS for count in (1, 2)]
BITS = [
    *('{"name": "f", "arguments": {}}', '{"arguments": {"a": 1}, "name": "f"}', '{"name": "f"'),
    *('{"name": "f", "parameters": "{\\"a\\": 1}"}', '"arguments": ', "null", "[f(a=1,", "g()]"),
    *("\\u00", "\\ud83d\\ude00", "\\x", '\\"', "{", "}", "[", "]", ",", ":", '"', "'", "(", ")"),
    *("<function=f>", "<parameter=a>", "</parameter>", "</function>", "call:f{", "functions.f:0"),
    *("function", "json", "final", "analysis", "commentary", "assistant", " to=functions.f"),
    *(" ", "\n", "\n\n", "text", "é😀", "\x00", "-1.5e", "tru", "True", "1_0", ";", "```json\n"),
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    parts = st.one_of(
        st.sampled_from(MARKERS), st.sampled_from(WHOLE), st.sampled_from(BITS), st.text(max_size=5)
    )
    text = "".join(draw(st.lists(parts, max_size=8)))
    start, end = draw(st.integers(0, 8)), draw(st.integers(0, 8))
    return text[start : len(text) - end]


formats = st.sampled_from([None, *FORMATS])
reasonings = st.sampled_from([None, *REASONING])
places = st.lists(st.integers(0, 10_000), max_size=12)


def cut(text: str, where: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in where)})
    return [text[start:end] for start, end in pairwise(edges)]
