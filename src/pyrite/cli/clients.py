"""Well-known clients, and what each wants to be told so that it talks to a server of ours.

One row a client: the variables that it reads, and what it reads from a file instead. The names are
those of the clients' own documents. Knows no process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

NO_KEY = "none"  # for clients that refuse to start without one


@dataclass(frozen=True, slots=True)
class Server:
    url: str  # without a slash at its end
    model: str
    key: str = NO_KEY


@dataclass(frozen=True, slots=True)
class Client:
    """`note` is what no variable can tell: where it has to be written, and the text."""

    about: str
    variables: Callable[[Server], Mapping[str, str]]
    note: Callable[[Server], str] = lambda server: ""


def openai(server: Server) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": server.key}


def anthropic(server: Server) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.key}


def claude(server: Server) -> dict[str, str]:
    """A key of Anthropic's own would be preferred to the token, so it is made empty."""
    names = ("ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL")
    kinds = ("OPUS", "SONNET", "HAIKU")
    models = (*names, *(f"ANTHROPIC_DEFAULT_{kind}_MODEL" for kind in kinds))
    return {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_AUTH_TOKEN": server.key,
        "ANTHROPIC_API_KEY": "",
        **dict.fromkeys(models, server.model),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def ollama(server: Server) -> dict[str, str]:
    key = {} if server.key == NO_KEY else {"OLLAMA_API_KEY": server.key}
    return {"OLLAMA_HOST": server.url, **key}


def aider(server: Server) -> dict[str, str]:
    return {
        "OPENAI_API_BASE": f"{server.url}/v1",
        "OPENAI_API_KEY": server.key,
        "AIDER_MODEL": f"openai/{server.model}",
    }


def open_webui(server: Server) -> dict[str, str]:
    return {
        "OPENAI_API_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": server.key,
        "ENABLE_OLLAMA_API": "False",
    }


def key_alone(server: Server) -> dict[str, str]:
    return {"PYRITE_CLIENT_KEY": server.key}


def llm_file(server: Server) -> str:
    return f"""extra-openai-models.yaml, in the folder of `llm logs path`:
- model_id: {server.model}
  model_name: {server.model}
  api_base: {server.url}/v1
then: llm -m {server.model} --key "$PYRITE_CLIENT_KEY" 'a prompt'"""


def continue_file(server: Server) -> str:
    return f"""~/.continue/config.yaml:
models:
  - name: {server.model}
    provider: openai
    model: {server.model}
    apiBase: {server.url}/v1
    apiKey: (the value of PYRITE_CLIENT_KEY)"""


def codex_file(server: Server) -> str:
    return f"""~/.codex/config.toml:
model = "{server.model}"
model_provider = "pyrite"
[model_providers.pyrite]
name = "Pyrite"
base_url = "{server.url}/v1"
env_key = "PYRITE_CLIENT_KEY"
wire_api = "responses\""""


CLIENTS: Mapping[str, Client] = {
    "openai": Client("OpenAI's SDKs, and what is built on them", openai),
    "anthropic": Client("Anthropic's SDKs, and what is built on them", anthropic),
    "claude": Client("Claude Code", claude),
    "ollama": Client("Ollama's command and libraries", ollama),
    "aider": Client("aider", aider),
    "open-webui": Client("Open WebUI", open_webui),
    "llm": Client("the llm command", key_alone, llm_file),
    "continue": Client("Continue, in editors", key_alone, continue_file),
    "codex": Client("Codex CLI", key_alone, codex_file),
}
