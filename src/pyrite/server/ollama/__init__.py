"""Ollama's API: chat, generate, embeddings, and the models that are here."""

from pyrite.server.ollama.routes import routes

__all__ = ["routes"]
