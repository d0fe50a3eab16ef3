"""The doctor's trial: the demo voice speaks one sentence on one device.

Run it as `python -m extras.doctor.trial_sentence DEVICE FILE`. It writes the waveform to FILE as
raw float32 and one JSON line to stdout.
"""

import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

TEXT = "The birch canoe slid on the smooth planks."
_REFERENCE_SECONDS = 3


def main() -> int:
    """Prints {"seconds", "audio_seconds", "loudness"} of the speech; `seconds` excludes loading."""
    import torch

    from xtts import audio
    from xtts.inference import speech, voice
    from xtts.inference.compute_config import ComputeConfig
    from xtts.inference.defaults import SamplingParams
    from xtts.inference.synthesis_request import SynthesisRequest
    from xtts.inference.torch_backend import TorchBackend
    from xtts.voices.loading import load_voice
    from xtts.voices.voice_files import VoiceSpec

    device, output_path = sys.argv[1], Path(sys.argv[2])
    # TensorFloat-32 would exceed the tolerance of this check.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    model = load_voice(VoiceSpec("demo"), ComputeConfig(device, precision="fp32")).model
    started = time.perf_counter()
    speaker = voice.voice_from_reference(model, synthetic_vowel(audio.CODE_RATE))
    request = SynthesisRequest(TEXT, "en", sampling=SamplingParams(greedy=True))
    waveform = speech.synthesize(TorchBackend(model), speaker, request)
    seconds = time.perf_counter() - started
    output_path.write_bytes(waveform.float().contiguous().numpy().tobytes())
    measurements = {
        "seconds": seconds,
        "audio_seconds": len(waveform) / audio.VOCODER_RATE,
        "loudness": float(waveform.square().mean().sqrt()),
    }
    sys.stdout.write(json.dumps(measurements) + "\n")
    return 0


def synthetic_vowel(rate: int) -> "Tensor":
    """A reference without a recording, `[samples]`: harmonics of 120 Hz with varying loudness."""
    import torch

    seconds = torch.arange(_REFERENCE_SECONDS * rate) / rate
    parts = [torch.sin(2 * math.pi * 120 * n * seconds) / n for n in range(1, 20)]
    rhythm = 0.6 + 0.4 * torch.sin(2 * math.pi * 3 * seconds)
    return 0.1 * torch.stack(parts).sum(0) * rhythm


if __name__ == "__main__":
    sys.exit(main())
