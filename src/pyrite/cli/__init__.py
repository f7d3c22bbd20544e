"""The command line: verbs over the Python interface. Each verb imports only what it needs."""
