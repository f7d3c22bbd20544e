"""What stands between the markers of a tool call: the shapes that models write, as plain data.

Read by the parser (`parse`) and by the writer of grammars; a new family of models is mostly a row
of `toolcalls.FORMATS` made of these. Knows no marker of any family.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JsonBody:
    """`{"name": "f", "arguments": {...}}`, its keys in any order; or a list of such objects."""

    name_key: str = "name"
    arguments_key: str = "arguments"
    listed: bool = False
    id_key: str = ""  # written first, with a number as text


@dataclass(frozen=True, slots=True)
class NamedBody:
    """The name as text, then the arguments as JSON:
    `before` name (`before_id` id)? `between` arguments `after`."""

    before: str
    between: str
    after: str = ""
    before_id: str = ""
    name_is_id: bool = False  # `functions.NAME:0` is the id, and NAME the name


@dataclass(frozen=True, slots=True)
class TagBody:
    """Every argument in tags of its own, text as it is and anything else as JSON:
    `before` name `after_name` (`before_key` key `after_key` `before_value` value `after_value`)*
    `after`, with whitespace between these."""

    before: str
    after_name: str
    before_key: str
    after_key: str
    before_value: str
    after_value: str
    after: str
    lines: bool = False  # a value stands between two line ends, which are no part of it


@dataclass(frozen=True, slots=True)
class PythonBody:
    """`[f(a="x", b=2), g()]`; or one such call a line, without brackets."""

    listed: bool = True


@dataclass(frozen=True, slots=True)
class BracedBody:
    """`call:f{a:<escape>x<escape>,b:2}`, with `quote` around strings."""

    quote: str = "<escape>"


@dataclass(frozen=True, slots=True)
class ChannelBody:
    """The channels of GPT-OSS, which carry content and reasoning too: the whole answer's shape."""


Body = JsonBody | NamedBody | TagBody | PythonBody | BracedBody | ChannelBody


@dataclass(frozen=True, slots=True)
class CallFormat:
    """How one family of models writes its calls. A row of `toolcalls.FORMATS`.

    A call, or several where the body allows it, stand between one of `begins` and `end`; without an
    `end` they end by themselves. `bare`: an answer may also begin with a call, without a marker.
    `separator` may stand between two calls. `signs`: a template in which one of these is written
    is of this family, though it writes no calls itself.
    """

    name: str
    begins: tuple[str, ...]
    end: str
    body: Body
    inner: tuple[str, ...] = ()  # further markers, which may be special tokens
    bare: bool = False
    separator: str = ""
    between: str = ""  # written between two calls
    padding: str = ""  # written after a marker that begins calls, and before the one that ends them
    short_ids: bool = False  # of nine letters and digits
    signs: tuple[str, ...] = ()

    @property
    def by_sections(self) -> bool:
        """Whether each of several calls stands between markers of its own."""
        match self.body:
            case JsonBody(listed=False) | BracedBody() | TagBody() | ChannelBody():
                return True
            case NamedBody(before=""):
                return True
        return False

    @property
    def listed(self) -> bool:
        """Whether several calls stand in square brackets."""
        return isinstance(self.body, (JsonBody, PythonBody)) and self.body.listed

    @property
    def markers(self) -> tuple[str, ...]:
        """Every text that must be visible in an answer for its calls to be found."""
        return tuple(text for text in (*self.begins, self.end, *self.inner) if text)
