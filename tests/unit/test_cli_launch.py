"""`pyrite launch`: what each client is told, how a server is found, and commands that run in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.loopback import Site, serve

from pyrite.cli.clients import CLIENTS, Server
from pyrite.cli.launch import exports
from pyrite.cli.main import main
from pyrite.config import cache_home
from pyrite.server.running import noted

URL = "http://127.0.0.1:8000"
SERVER = Server(URL, "smollm2", "sk-'word")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path))
    monkeypatch.delenv("PYRITE_API_KEY", raising=False)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_shell_reads_what_is_printed(name: str) -> None:
    """A key with a quote in it, too; and each client learns of the address and of the key."""
    text = exports(CLIENTS[name], SERVER)
    shown = f"{text}\n{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    done = subprocess.run(["sh", "-c", shown], capture_output=True, text=True, check=True)
    environment = json.loads(done.stdout)
    variables = CLIENTS[name].variables(SERVER)
    assert {key: environment[key] for key in variables} == variables
    assert SERVER.key in variables.values()
    assert URL in text
    assert done.stderr == ""


@pytest.mark.parametrize("name", set(CLIENTS) - {"openai", "anthropic", "ollama", "open-webui"})
def test_a_client_with_a_model_of_its_own_is_told_ours(name: str) -> None:
    assert SERVER.model in exports(CLIENTS[name], SERVER)


def test_claude_gets_no_key_of_anthropics() -> None:
    variables = CLIENTS["claude"].variables(SERVER)
    assert variables["ANTHROPIC_API_KEY"] == ""
    assert variables["ANTHROPIC_AUTH_TOKEN"] == SERVER.key
    assert variables["ANTHROPIC_BASE_URL"] == URL  # it appends /v1 itself


def test_without_a_name_the_clients_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CLIENTS)


def test_an_unknown_client(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "nothing"]) == 2
    assert "known are openai, anthropic" in capsys.readouterr().err


def test_no_server_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "openai"]) == 2
    assert "no server runs here" in capsys.readouterr().err


def test_the_server_that_runs_here_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with noted(cache_home(), URL, "smollm2"):
        assert main(["launch", "aider"]) == 0
    out = capsys.readouterr().out
    assert f"export OPENAI_API_BASE={URL}/v1" in out
    assert "export AIDER_MODEL=openai/smollm2" in out


def test_a_server_elsewhere_tells_its_model(capsys: pytest.CaptureFixture[str]) -> None:
    site = Site()
    site.add_json("/v1/models", {"data": [{"id": "another"}]})
    with serve(site):
        words = ["launch", "aider", "--url", f"{site.url}/v1/", "--api-key", "sk-1"]
        assert main(words) == 0
    out = capsys.readouterr().out
    assert f"export OPENAI_API_BASE={site.url}/v1\n" in out
    assert "openai/another" in out
    assert site.requests[0][1]["authorization"] == "Bearer sk-1"


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, {}, "give --api-key"),
        (500, {}, "give --model"),
        (None, {"data": []}, "give --model"),
        (None, [], "give --model"),
    ],
)
def test_a_server_that_tells_no_model(
    capsys: pytest.CaptureFixture[str], status: int | None, body: object, told: str
) -> None:
    site = Site(statuses=[status] if status else [])
    site.add_json("/v1/models", body)
    with serve(site):
        assert main(["launch", "openai", "--url", site.url]) == 2
    assert told in capsys.readouterr().err


def test_a_command_runs_in_the_environment() -> None:
    code = "import os, sys; print(os.environ['OPENAI_BASE_URL'], *sys.argv[1:]); sys.exit(3)"
    words = ["launch", "openai", "--url", URL, "--model", "m", "--", sys.executable, "-c", code]
    done = subprocess.run(
        [sys.executable, "-m", "pyrite", *words, "--url", "x"],
        capture_output=True,
        text=True,
        env={**os.environ},
    )
    assert done.stdout == f"{URL}/v1 --url x\n"
    assert done.returncode == 3


def test_a_command_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["launch", "openai", "--url", URL, "--model", "m", "--", "no-such-command"]
    assert main(words) == 1
    assert "no-such-command" in capsys.readouterr().err
