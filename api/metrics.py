"""Prometheus metrics for /metrics: a fixed list, with labels from fixed lists.

See https://prometheus.io/docs/practices/naming.
"""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class ServiceMetrics:
    """The metrics, in a separate registry: two services in one process do not share counts."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry, buckets=_SECONDS)
        self.requests = counter("tts_requests", "Speech requests, by status.", ["code"])
        self.refusals = counter(
            "tts_refusals", "Refused requests of any kind, by status and code.", ["status", "code"]
        )
        self.streams_cut = counter("tts_streams_cut", "Streams that ended early, by code.", ["code"])
        self.cut_pieces = counter("tts_cut_pieces", "Pieces of text that reached the model's code limit.")
        self.faulty_pieces = counter(
            "tts_faulty_pieces", "Pieces of text that did not end correctly, by outcome.", ["ending"]
        )
        self.respoken_pieces = counter(
            "tts_respoken_pieces", "Pieces of text that were spoken more than once."
        )
        self.connections = gauge("tts_connections", "Open connections.")
        self.connections_closed = counter(
            "tts_connections_closed", "Connections that the service closed, by reason.", ["reason"]
        )
        self.duration = histogram("tts_request_duration_seconds", "Time from a request to its last byte.")
        self.queue_depth = gauge("tts_queue_depth", "Requests that wait for their turn.")
        self.queue_wait = histogram("tts_queue_wait_seconds", "Time from a request to its turn.")
        self.audio_seconds = counter("tts_audio_seconds", "Seconds of audio spoken.")
        self.rtf = gauge("tts_rtf", "Seconds of computation for a second of audio, in the last request.")
        self.fallbacks = counter(
            "tts_fallback",
            "Fallbacks to another device than the configured one.",
            ["from", "to", "reason_code"],
        )
        self.device = gauge(
            "tts_device_info", "1 for the device and provider in use.", ["device", "provider"]
        )
        self.restarts = gauge("tts_gpu_worker_restarts_total", "Restarts of the speaking process.")
        self.ready = gauge("tts_ready", "1 if the service has spoken within the last minute.")

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)
