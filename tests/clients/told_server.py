"""A server whose answers are told by the last message of each conversation, for real clients.

Run as a program by the project's Python, it prints its URL, and ends when its input does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence

import uvicorn
from tests.clients.harness import KEY
from tests.server.told import EVERYTHING, Happening, ToldService, answer_of, ended, part, started

from pyrite.errors import BackendError, ContextLengthError
from pyrite.request import PositionLogprobs, TokenLogprob
from pyrite.server.app import build_app
from pyrite.server.ask import Ask, ChatAsk, Event
from pyrite.server.errors import HttpError
from pyrite.server.keys import plain_keys
from pyrite.server.run import listen, url_of
from pyrite.server.settings import ServerSettings
from pyrite.text.answer import CallArguments, CallStart, Content, Reasoning

LOGPROBS = (PositionLogprobs(TokenLogprob(72, -0.5), (TokenLogprob(72, -0.5),)),)
JSON = '{"name": "Ada", "age": 36}'

# What is answered to a message that begins with the word.
ANSWERS: dict[str, Sequence[Happening]] = {
    "text": [
        started(10, 4),
        part(Content("Hel"), logprobs=LOGPROBS),
        part(Content("lo 東京 🌧")),
        ended(cached=4),
    ],
    "everything": answer_of(*EVERYTHING, reason="tool_calls"),
    "call": answer_of(
        CallStart(0, "call_a", "weather"),
        CallArguments(0, '{"city":'),
        CallArguments(0, ' "Tokyo"}'),
        reason="tool_calls",
    ),
    "thinking": answer_of(Reasoning("Hm, "), Reasoning("yes."), Content("Yes.")),
    "json": answer_of(*(Content(JSON[at : at + 5]) for at in range(0, len(JSON), 5))),
    "stop": answer_of(Content("one"), stopped_by="END"),
    "length": answer_of(Content("one two"), reason="length", completion=8),
    "empty": [started(), ended()],
    "broken": [started(), part(Content("Hel")), BackendError("the step failed")],
    "full": [HttpError(429, "queue_full", "too many wait", retry_after=0)],
    "long": [ContextLengthError(5000, 4096)],
    "down": [HttpError(503, "draining", "the server is shutting down", retry_after=0)],
}


class Told(ToldService):
    async def answer(self, asks: Sequence[Ask], tenant: str = "") -> AsyncGenerator[Event, None]:
        ask = asks[0]
        text = ask.messages[-1]["content"] if isinstance(ask, ChatAsk) else ask.prompt
        word = str(text).split(" ")[0]
        self.happenings = ANSWERS.get(word, ANSWERS["text"])
        async for event in super().answer(asks, tenant):
            yield event


async def serve() -> None:
    service = Told()
    settings = ServerSettings(keys=tuple(plain_keys([KEY])))
    app = build_app(service, settings)  # type: ignore[arg-type]
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    listener = listen("127.0.0.1", 0)

    async def tell_url() -> None:
        while not server.started:
            await asyncio.sleep(0.01)
        print(url_of(listener), flush=True)

    async def end_with_input() -> None:
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True

    await asyncio.gather(server.serve(sockets=[listener]), tell_url(), end_with_input())


if __name__ == "__main__":
    asyncio.run(serve())
