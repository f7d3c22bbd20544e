"""What a file looks like that is not what it was taken for. Only its first bytes are looked at."""

from __future__ import annotations

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"GGUF", "a GGUF file"),
    (b"PK\x03\x04", "a ZIP archive (checkpoints saved by PyTorch are such archives)"),
    (b"\x80\x02", "a Python pickle (an old PyTorch checkpoint)"),
    (b"version https://git-lfs", "a Git LFS pointer: the text that stands for a file not fetched"),
    (b"lmgg", "a GGML file from before GGUF"),
    (b"fmgg", "a GGMF file from before GGUF"),
    (b"tjgg", "a GGJT file from before GGUF"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"(\xb5/\xfd", "a zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"\x7fELF", "a program"),
    (b"%PDF", "a PDF document"),
)

NO_PICKLES = "PyTorch's files are never read, for they can run code: take safetensors or GGUF"
_HINTS: tuple[tuple[str, str], ...] = (
    ("a Git LFS pointer", "run `git lfs pull` in its folder"),
    ("an HTML page", "the download gave a page instead of the file; fetch it again"),
    ("the first", "the download did not finish; fetch it again"),
    ("nothing but zeros", "the download did not finish; fetch it again"),
    ("a safetensors file", "give the folder that holds it and its config.json"),
    ("a JSON file", "give a GGUF file, or the folder that holds this one and the weights"),
    ("a GGML file", "convert the model to GGUF again"),
    ("a GGMF file", "convert the model to GGUF again"),
    ("a GGJT file", "convert the model to GGUF again"),
    ("a ZIP archive", NO_PICKLES),
    ("a Python pickle", NO_PICKLES),
)


def appearance(start: bytes, size: int) -> str:
    """What a file of `size` bytes looks like whose first bytes (512 are enough) are `start`."""
    if size < 4 and b"GGUF".startswith(start):
        return f"the first {size} bytes of a GGUF file"
    for signature, name in _SIGNATURES:
        if start.startswith(signature):
            return name
    text = start.lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html", b"<?xml")):
        return "an HTML page"
    if text.startswith(b"{"):
        return "a JSON file"
    if start[257:262] == b"ustar":
        return "a tar archive"
    if start[8:9] == b"{" and 2 <= int.from_bytes(start[:8], "little") <= size - 8:
        return "a safetensors file"
    if not any(start):
        return "nothing but zeros at its start"
    return "text" if text.isascii() and b"\x00" not in text else "nothing known here"


def advice(looks_like: str) -> str:
    """What to do with a file of such an appearance, or a general word."""
    for name, hint in _HINTS:
        if looks_like.startswith(name):
            return hint
    return "give a GGUF file, or a folder with config.json and safetensors files"
