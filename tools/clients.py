"""Runs the tests of real clients, each in an environment of its own, against this server.

    tools/clients.py [NAME...]

Environments are made as tests/clients/environments.toml says, in build/clients or in the folder
that PYRITE_CLIENTS names, and kept until what they ask for changes. Fails when any test did.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "clients"
HOME = Path(os.environ.get("PYRITE_CLIENTS", ROOT / "build" / "clients"))
PYTEST = ("pytest>=8.3", "pytest-timeout>=2.3")
OPTIONS = (
    "--quiet",
    "--no-header",
    "--confcutdir=tests/clients",  # the other tests' fixtures need Pyrite
    "--override-ini=cache_dir=build/clients/cache",
    "--override-ini=filterwarnings=ignore",  # clients warn of their own affairs
)


@dataclass(frozen=True, slots=True)
class Client:
    """One row of environments.toml."""

    name: str
    tests: tuple[str, ...]
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return HOME / self.name

    @property
    def interpreter(self) -> Path:
        return self.folder / "bin" / "python"


@dataclass(frozen=True, slots=True)
class Outcome:
    client: Client
    versions: tuple[str, ...]
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    fault: str = ""  # why nothing could be run

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        return f"{self.client.name:14} {self.fault or counts}  ({', '.join(self.versions)})"


def clients() -> list[Client]:
    tables = tomllib.loads((TESTS / "environments.toml").read_text())
    return [
        Client(name, **{field: tuple(value) for field, value in table.items()})
        for name, table in tables.items()
    ]


def install(client: Client) -> None:
    """Makes the environment, unless one that asks for the same is there.

    Raises subprocess.CalledProcessError.
    """
    wanted = json.dumps([PYTEST, client.python, client.node])
    stamp = client.folder / "installed.json"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(client.folder, ignore_errors=True)
    venv.create(client.folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(client.interpreter)]
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *quiet, *PYTEST, *client.python], check=True)
    if client.node:
        (client.folder / "package.json").write_text('{"private": true}')
        npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        subprocess.run([*npm, *client.node], cwd=client.folder, check=True)
    stamp.write_text(wanted)


def versions(client: Client) -> tuple[str, ...]:
    """Of what the row names; of Python's packages without their extras."""
    sites = [str(site) for site in client.folder.glob("lib/python*/site-packages")]
    found = {one.name.lower(): one.version for one in metadata.distributions(path=sites)}
    names = [one.partition(">=")[0].partition("[")[0] for one in client.python]
    told = [f"{name} {found[name]}" for name in names]
    for one in client.node:
        name = one.rpartition("@")[0]
        package = json.loads((client.folder / "node_modules" / name / "package.json").read_text())
        told.append(f"{name} {package['version']}")
    return tuple(told)


def run(client: Client) -> Outcome:
    if client.node and shutil.which("npm") is None:
        return Outcome(client, (), fault="left out: there is no npm here")
    try:
        install(client)
    except subprocess.CalledProcessError as error:
        return Outcome(client, (), failed=1, fault=f"could not be installed: {error}")
    report = client.folder / "report.xml"
    report.unlink(missing_ok=True)
    files = [str(TESTS.relative_to(ROOT) / name) for name in client.tests]
    command = [str(client.interpreter), "-m", "pytest", *OPTIONS, f"--junitxml={report}", *files]
    own = {"PYRITE_PYTHON": sys.executable, "PYRITE_CLIENT_FOLDER": str(client.folder)}
    subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, check=False)
    return outcome(client, report)


def outcome(client: Client, report: Path) -> Outcome:
    if not report.exists():
        return Outcome(client, versions(client), failed=1, fault="its tests did not run")
    suite: Any = ElementTree.parse(report).getroot().find("testsuite")
    total, *others = (int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped"))
    failures, errors, skipped = others
    passed = total - failures - errors - skipped
    return Outcome(client, versions(client), passed, failures + errors, skipped)


def main() -> int:
    wanted = sys.argv[1:]
    known = clients()
    strangers = set(wanted) - {client.name for client in known}
    if strangers:
        print(f"no client is called {', '.join(sorted(strangers))}", file=sys.stderr)
        return 2
    chosen = [client for client in known if not wanted or client.name in wanted]
    outcomes = []
    for client in chosen:
        print(f"== {client.name}", flush=True)
        outcomes.append(run(client))
    print("\n".join(map(str, outcomes)))
    return 1 if any(one.failed or (not one.passed and not one.fault) for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
