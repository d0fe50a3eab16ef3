"""Prometheus metrics for /metrics: a closed list, with labels from closed lists.

See https://prometheus.io/docs/practices/naming.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class ServiceMetrics:
    """A registry of its own: two services in one process count apart."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "tts_requests", "Requests to speak, by status.", ["code"], registry=registry
        )
        self.refusals = Counter(
            "tts_refusals", "Requests of any kind that were refused, by status and code.",
            ["status", "code"], registry=registry,
        )  # fmt: skip
        self.streams_cut = Counter(
            "tts_streams_cut", "Streams that ended in the middle, by code.", ["code"],
            registry=registry,
        )  # fmt: skip
        self.cut_pieces = Counter(
            "tts_cut_pieces", "Pieces of text that ran to the model's code limit without an end.",
            registry=registry,
        )  # fmt: skip
        self.faulty_pieces = Counter(
            "tts_faulty_pieces", "Pieces of text that did not end as they should, by how.",
            ["ending"], registry=registry,
        )  # fmt: skip
        self.respoken_pieces = Counter(
            "tts_respoken_pieces", "Pieces of text that were spoken more than once.",
            registry=registry,
        )  # fmt: skip
        self.connections = Gauge("tts_connections", "Open connections.", registry=registry)
        self.connections_closed = Counter(
            "tts_connections_closed", "Connections that the service closed, by reason.",
            ["reason"], registry=registry,
        )  # fmt: skip
        self.duration = Histogram(
            "tts_request_duration_seconds", "From a request to its last byte.", registry=registry,
            buckets=_SECONDS,
        )  # fmt: skip
        self.queue_depth = Gauge("tts_queue_depth", "Requests that wait.", registry=registry)
        self.queue_wait = Histogram(
            "tts_queue_wait_seconds", "From a request to its turn.", registry=registry,
            buckets=_SECONDS,
        )  # fmt: skip
        self.audio_seconds = Counter("tts_audio_seconds", "Sound spoken.", registry=registry)
        self.rtf = Gauge(
            "tts_rtf", "Seconds of computing for a second of sound; the last one.",
            registry=registry,
        )  # fmt: skip
        self.fallbacks = Counter(
            "tts_fallback", "Changes of the device that were not asked for.",
            ["from", "to", "reason_code"], registry=registry,
        )  # fmt: skip
        self.device = Gauge(
            "tts_device_info", "1 for what computes now.", ["device", "provider"],
            registry=registry,
        )  # fmt: skip
        self.restarts = Gauge(
            "tts_gpu_worker_restarts_total", "How often the speaking process was started again.",
            registry=registry,
        )  # fmt: skip
        self.ready = Gauge("tts_ready", "1 when it has spoken within a minute.", registry=registry)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)
