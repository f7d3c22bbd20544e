"""Where two tables of strings part, wherever their bytes lie."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from pyrite.formats.checkpoint import StringTable, first_difference


def table(texts: list[bytes], gap: int) -> StringTable:
    data, starts = b"", []
    for text in texts:
        data += b"#" * gap
        starts.append(len(data))
        data += text
    lengths = np.array([len(text) for text in texts], np.int32)
    return StringTable(np.frombuffer(data, np.uint8), np.array(starts, np.int64), lengths)


pairs = st.lists(st.tuples(*[st.binary(max_size=3)] * 2, st.booleans()), max_size=8)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(pairs=pairs)
def test_the_first_difference(pairs: list[tuple[bytes, bytes, bool]]) -> None:
    one = [first for first, _, _ in pairs]
    other = [first if same else second for first, second, same in pairs]
    expected = next((i for i in range(len(one)) if one[i] != other[i]), None)
    assert first_difference(table(one, 0), table(other, 8)) == expected
