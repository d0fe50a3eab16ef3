"""Prometheus metrics for /metrics: a fixed list, with labels from fixed lists.

See https://prometheus.io/docs/practices/naming.
"""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class ServiceMetrics:
    """A registry of its own: two services in one process count apart."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry, buckets=_SECONDS)
        self.requests = counter("tts_requests", "Requests to speak, by status.", ["code"])
        self.refusals = counter(
            "tts_refusals", "Requests of any kind that were refused, by status and code.",
            ["status", "code"],
        )  # fmt: skip
        self.streams_cut = counter(
            "tts_streams_cut", "Streams that ended in the middle, by code.", ["code"]
        )
        self.cut_pieces = counter(
            "tts_cut_pieces", "Pieces of text that ran to the model's code limit without an end."
        )
        self.faulty_pieces = counter(
            "tts_faulty_pieces", "Pieces of text that did not end as they should, by how.",
            ["ending"],
        )  # fmt: skip
        self.respoken_pieces = counter(
            "tts_respoken_pieces", "Pieces of text that were spoken more than once."
        )
        self.connections = gauge("tts_connections", "Open connections.")
        self.connections_closed = counter(
            "tts_connections_closed", "Connections that the service closed, by reason.", ["reason"]
        )
        self.duration = histogram(
            "tts_request_duration_seconds", "From a request to its last byte."
        )
        self.queue_depth = gauge("tts_queue_depth", "Requests that wait.")
        self.queue_wait = histogram("tts_queue_wait_seconds", "From a request to its turn.")
        self.audio_seconds = counter("tts_audio_seconds", "Sound spoken.")
        self.rtf = gauge("tts_rtf", "Seconds of computing for a second of sound; the last one.")
        self.fallbacks = counter(
            "tts_fallback", "Changes of the device that were not asked for.",
            ["from", "to", "reason_code"],
        )  # fmt: skip
        self.device = gauge("tts_device_info", "1 for what computes now.", ["device", "provider"])
        self.restarts = gauge(
            "tts_gpu_worker_restarts_total", "How often the speaking process was started again."
        )
        self.ready = gauge("tts_ready", "1 when it has spoken within a minute.")

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)
