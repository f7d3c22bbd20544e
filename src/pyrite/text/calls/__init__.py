"""How models write tool calls: the formats, and the parsing of each while it is being written."""
