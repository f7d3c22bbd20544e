"""OpenAI's Responses API, without a memory: every request brings its whole conversation."""
