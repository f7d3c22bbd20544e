"""Anthropic's Messages API: messages, and counts of their tokens."""

from pyrite.server.anthropic.routes import routes

__all__ = ["routes"]
