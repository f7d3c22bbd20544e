"""Reader of RWKV's vocabulary: a line a token, `id literal length`, as Python writes the literal.

Becomes `TokenizerData` with the escapes that GGUF files have. Nothing is evaluated but literals of
text and bytes, which are matched first.

Source: rwkv_vocab_v20230424.txt and its reader in the `rwkv` package.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import TokenizerData
from pyrite.formats.json_file import content_of
from pyrite.formats.token_table import CONTROL, MAX_TOKENS, NORMAL, UNUSED, string_table
from pyrite.formats.tokenizer_json import TokenizerFile

MAX_BYTES = 1 << 24
LINE = re.compile(
    r"""(\d{1,9}) (b?(?:'(?:[^'\\\n]|\\[^\n])*'|"(?:[^"\\\n]|\\[^\n])*")) (\d{1,9})"""
)
END = "<s>"  # of a text: id 0, which no line names


def read_rwkv_vocab(path: Path) -> TokenizerFile:
    """Raises FormatError naming the line that lies."""
    texts: dict[int, str] = {0: END}
    for number, line in enumerate(_lines(path), start=1):
        match = LINE.fullmatch(line)
        if match is None:
            raise FormatError(f"{path.name}: line {number} is not `id literal length`")
        token_id, content = int(match[1]), _bytes(match[2], f"{path.name}: line {number}")
        if len(content) != int(match[3]):
            problem = f"{len(content)} bytes, and it says {match[3]}"
            raise FormatError(f"{path.name}: line {number} holds {problem}")
        if token_id in texts or token_id >= MAX_TOKENS:
            raise FormatError(f"{path.name}: line {number}: id {token_id} is taken, or too large")
        texts[token_id] = repr(content)[2:-1]
    count = max(texts) + 1
    types = np.full(count, UNUSED, np.int32)
    types[list(texts)] = NORMAL
    types[0] = CONTROL
    data = TokenizerData(
        model="rwkv",
        pre=None,
        tokens=string_table([texts.get(index, "") for index in range(count)]),
        types=types,
        scores=None,
        merges=None,
        bos_id=0,
        eos_ids=(0,),
        add_space_prefix=False,
    )
    return TokenizerFile(data, {END: 0}.get)


def _lines(path: Path) -> list[str]:
    try:
        text = content_of(path, MAX_BYTES).decode()
    except UnicodeDecodeError:
        raise FormatError(f"{path.name} is not text in UTF-8") from None
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _bytes(literal: str, where: str) -> bytes:
    if literal[0] != "b" and "\\" not in literal:
        return literal[1:-1].encode()
    try:
        value = ast.literal_eval(literal)
        return value if isinstance(value, bytes) else str(value).encode()
    except (ValueError, SyntaxError):
        raise FormatError(f"{where} holds no literal") from None
