"""What an operator watches, under vLLM's names, so that dashboards made for it work.

Fed by the service (requests) and by the engine's reports (pages, queues, steps). Knows no HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from pyrite.request import EngineStats, Timings, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyrite.server.wire import Report

FIRST_TOKEN = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 40, 80, 160)
GAP = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5)
WHOLE = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 40, 80, 160, 320, 640)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
STEP_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
LABELS = ("model_name", "engine")

# The engine's counters: (its name, vLLM's name, what it counts).
COUNTED = (
    ("preemptions", "num_preemptions", "requests whose pages were taken, to be computed anew"),
    ("prefix_queries", "prefix_cache_queries", "prompt tokens looked up in the prefix cache"),
    ("prefix_hits", "prefix_cache_hits", "prompt tokens found in the prefix cache"),
    ("restored_tokens", "external_prefix_cache_hits", "prompt tokens found on disk, part of those"),
    ("stored_pages", "external_prefix_cache_stored_pages", "pages of prompts written to disk"),
    ("drafts", "spec_decode_num_drafts", "runs of proposed tokens that were verified"),
    ("drafted_tokens", "spec_decode_num_draft_tokens", "tokens that speculation proposed"),
    ("accepted_tokens", "spec_decode_num_accepted_tokens", "proposed tokens that were right"),
)


class Metrics:
    """All of one server's. `model` is the name in their labels."""

    def __init__(self, model: str) -> None:
        self._registry = CollectorRegistry()
        self._model = model
        self._stats = EngineStats()
        self._running = self._gauge("num_requests_running", "requests in the engine's batch")
        self._waiting = self._gauge("num_requests_waiting", "requests that wait for pages or turn")
        self._pages = self._gauge("kv_cache_usage_perc", "share of the pages in use; 1 is all")
        self._states = self._gauge("state_slots_usage_perc", "share of the state slots in use")
        self._checkpoints = self._gauge("state_checkpoints", "states of prefixes that are kept")
        self._prompts = self._counter("prompt_tokens", "tokens of prompts")
        self._generated = self._counter("generation_tokens", "tokens of answers")
        self._first = self._histogram(
            "time_to_first_token_seconds", "until an answer's first token", FIRST_TOKEN
        )
        self._gap = self._histogram("inter_token_latency_seconds", "between two tokens", GAP)
        self._per_token = self._histogram(
            "time_per_output_token_seconds", "mean time between the tokens of one answer", GAP
        )
        self._whole = self._histogram(
            "e2e_request_latency_seconds", "from a request to the end of its answer", WHOLE
        )
        self._prompt_sizes = self._histogram(
            "request_prompt_tokens", "tokens of one prompt", TOKENS
        )
        self._answer_sizes = self._histogram(
            "request_generation_tokens", "tokens of one answer", TOKENS
        )
        self._step = self._histogram("iteration_tokens_total", "tokens of one step", STEP_TOKENS)
        self._success = self._reasoned("request_success", "requests that ended", "finished_reason")
        self._refused = self._reasoned("request_refused", "requests turned away", "status")
        self._cancelled = self._counter("request_cancelled", "requests whose client went away")
        self._slow = self._counter("slow_reader_cancelled", "streams given up: nobody read them")
        self._registry.register(_Counted(self))

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)

    def families(self) -> Iterable[Metric]:
        """All metrics, for documents."""
        return self._registry.collect()

    def heard(self, report: Report) -> None:
        """A step's report."""
        before, stats = self._stats, report.stats
        self._stats = stats
        self._running.set(stats.running)
        self._waiting.set(stats.waiting)
        self._pages.set(stats.pages_used / max(stats.pages_total, 1))
        self._states.set(stats.states_used / max(stats.states_total, 1))
        self._checkpoints.set(stats.states_cached)
        if stats.computed_tokens > before.computed_tokens:
            self._step.observe(stats.computed_tokens - before.computed_tokens)

    def first_token(self, seconds: float, usage: Usage) -> None:
        self._first.observe(seconds)
        self._prompts.inc(usage.prompt_tokens)
        self._prompt_sizes.observe(usage.prompt_tokens)

    def tokens(self, count: int, gap_seconds: float | None) -> None:
        """`gap_seconds` since the delta before; None for the first."""
        self._generated.inc(count)
        if gap_seconds is not None:
            self._gap.observe(gap_seconds)

    def ended(self, reason: str, usage: Usage, timings: Timings, seconds: float) -> None:
        self._success.labels(self._model, "0", reason).inc()
        self._whole.observe(seconds)
        self._answer_sizes.observe(usage.completion_tokens)
        if usage.completion_tokens > 1:
            self._per_token.observe(timings.decode_seconds / (usage.completion_tokens - 1))

    def refused(self, status: int) -> None:
        self._refused.labels(self._model, "0", str(status)).inc()

    def cancelled(self) -> None:
        self._cancelled.inc()

    def gave_up(self) -> None:
        self._slow.inc()

    def counted(self) -> Iterable[Metric]:
        for key, name, words in COUNTED:
            family = CounterMetricFamily(f"vllm:{name}", words, labels=LABELS)
            family.add_metric([self._model, "0"], getattr(self._stats, key, 0))
            yield family
        name, words = "spec_decode_num_accepted_tokens_per_pos", "accepted tokens by their place"
        placed = CounterMetricFamily(f"vllm:{name}", words, labels=(*LABELS, "position"))
        for place, count in enumerate(self._stats.accepted_at):
            placed.add_metric([self._model, "0", str(place)], count)
        yield placed

    def _gauge(self, name: str, words: str) -> Gauge:
        gauge = Gauge(f"vllm:{name}", words, LABELS, registry=self._registry)
        return gauge.labels(self._model, "0")

    def _counter(self, name: str, words: str) -> Counter:
        counter = Counter(f"vllm:{name}", words, LABELS, registry=self._registry)
        return counter.labels(self._model, "0")

    def _reasoned(self, name: str, words: str, label: str) -> Counter:
        return Counter(f"vllm:{name}", words, (*LABELS, label), registry=self._registry)

    def _histogram(self, name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
        histogram = Histogram(
            f"vllm:{name}", words or name, LABELS, buckets=buckets, registry=self._registry
        )
        return histogram.labels(self._model, "0")


class _Counted(Collector):
    """The engine's own counters, as its last report had them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.counted()
