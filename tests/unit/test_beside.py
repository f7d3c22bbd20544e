"""A call beside: its result, its error, and a machine that has no thread for it."""

from __future__ import annotations

from threading import Event, Thread, get_ident

import pytest

from pyrite.beside import Beside


def test_it_runs_while_the_caller_goes_on() -> None:
    go_on = Event()
    beside = Beside(lambda: go_on.wait(10))
    go_on.set()
    assert beside.result() is True
    assert beside.result() is True, "as often as it is asked for"


def test_its_error_is_raised_where_the_result_is_wanted() -> None:
    beside = Beside(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        beside.result()


def test_where_no_thread_can_be_had_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    assert Beside(get_ident).result() == get_ident()
