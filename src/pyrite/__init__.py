"""Pyrite: an LLM inference engine in Python with a small native core."""

__version__ = "0.1.0"
