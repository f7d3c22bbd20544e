"""The chat on a terminal: reads a message or a command, writes the answer, until it is left."""

from __future__ import annotations

from collections.abc import Callable

from pyrite.cli import commands
from pyrite.cli.interrupts import Interrupts
from pyrite.cli.reader import History, read_message
from pyrite.cli.session import Session
from pyrite.cli.sinks import import_early, sink_for
from pyrite.cli.streams import system_said
from pyrite.cli.terminal import Terminal
from pyrite.config import cache_home
from pyrite.errors import PyriteError

LEFT_BY_INTERRUPT = 130


class Chat:
    """`name` is what the model was asked for by."""

    def __init__(self, session: Session, terminal: Terminal, *, name: str, plain: bool) -> None:
        self.session = session
        self.terminal = terminal
        self.name = name
        self.plain = plain
        self.left = False
        self._interrupted = False  # the last thing that happened was a Ctrl-C

    def run(self, ask: Callable[[str], str] = input) -> int:
        """Until /bye, the end of the input, or Ctrl-C twice. Gives the exit code."""
        history = History(cache_home() / "history")
        self.say(self.greeting())
        import_early(self.terminal, plain=self.draws_plain)
        try:
            while not self.left:
                if not self.turn(ask):
                    return LEFT_BY_INTERRUPT
        except EOFError:
            print()
        finally:
            history.save()
        return 0

    def turn(self, ask: Callable[[str], str]) -> bool:
        """One message, command or Ctrl-C. False: Ctrl-C came twice."""
        try:
            message = read_message(ask)
        except KeyboardInterrupt:
            print()
            if self._interrupted:
                return False
            self._interrupted = True
            self.say("Ctrl-C again, or /bye, to leave")
            return True
        self._interrupted = False
        self.handle(message)
        return True

    def handle(self, message: str) -> None:
        try:
            if message.startswith("/"):
                commands.execute(self, message)
            elif message.strip():
                self.answer(message)
        except PyriteError as error:
            self.say(f"error: {error}")
        except OSError as error:
            self.say(f"error: {system_said(error)}")

    def answer(self, message: str) -> None:
        sink = sink_for(self.terminal, plain=self.draws_plain)
        with Interrupts() as interrupts:
            try:
                answer = self.session.ask(message, sink.write, lambda: interrupts.requested)
            finally:
                sink.close()
        self._interrupted = interrupts.requested
        if answer.finish_reason == "cancelled":
            self.say("(stopped)")
        elif answer.finish_reason == "length":
            self.say("(cut: max_tokens or the context is used up)")

    @property
    def draws_plain(self) -> bool:
        return self.plain or self.session.continues_text

    def say(self, text: str) -> None:
        """A line of the program's own, not the model's."""
        print(self.terminal.dim(text))

    def greeting(self) -> str:
        if self.session.continues_text:
            return f"{self.name} continues your text: it has no chat template. /help tells more."
        return f"{self.name}. /help tells the commands, Ctrl-D leaves."
