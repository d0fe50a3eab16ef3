"""Memory while one hour of text is spoken by the embedded voice, under the guard:
`benchmarks.speaking --hour`."""

import os
import time
from pathlib import Path
from typing import Any

from benchmarks import texts
from machine.errors import SotaqueError
from xtts.inference import speech
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


def spoken(seconds: float) -> dict[str, Any]:
    """Speaks that many seconds in one go; resident memory is read after each piece."""
    opened = load_voice(VoiceSpec("demo"))
    opened.prepare()  # as in the worker and the service: it is no growth
    if opened.own is None:
        raise SotaqueError("The embedded voice has no reference.wav; take the package whole.")
    sentences = " ".join(texts.sentences("twenty"))
    resident, said, started = list[float](), 0.0, time.perf_counter()
    while said < seconds:
        # As long as one call may be: an hour of text is 60,000 characters.
        text = sentences * max(1, 60_000 // len(sentences))
        request = SynthesisRequest(text, "en")
        backend, guard = TorchBackend(opened.model), opened.guard(request)
        for piece in speech.synthesize_pieces(backend, opened.own, request, guard):
            said += len(piece) / 24_000
            resident.append(_resident_mb())
            if said >= seconds:
                break
    quarters = [resident[len(resident) * part // 4 :][0] for part in range(4)] + [resident[-1]]
    return {
        "audio_seconds": round(said, 1),
        "seconds": round(time.perf_counter() - started, 1),
        "pieces": len(resident),
        "resident_mb": [round(megabytes, 1) for megabytes in quarters],
        "most_mb": round(max(resident), 1),
        "grown_mb": round(resident[-1] - quarters[1], 1),
    }


def told(found: dict[str, Any]) -> str:
    """A few lines."""
    at = ", ".join(f"{megabytes:.0f}" for megabytes in found["resident_mb"])
    return (
        f"{found['audio_seconds']} s of sound in {found['pieces']} pieces, {found['seconds']} s\n"
        f"resident MB at the start, 1/4, 1/2, 3/4 and the end: {at}; most {found['most_mb']:.0f}\n"
        f"grown since the first quarter: {found['grown_mb']:.1f} MB"
    )


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
