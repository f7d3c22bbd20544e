"""A load client for any server that speaks OpenAI's HTTP: many requests, and when each token came.

http (a connection) -> events (server-sent events) -> answer (what one request saw) -> drive (who
asks when) -> summary (statistics) -> table. One process, one event loop, light enough to share a
small machine with the server that it measures.
"""
