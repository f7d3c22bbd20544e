"""The HTTP server: dialects over one internal request, and one engine process behind them."""
