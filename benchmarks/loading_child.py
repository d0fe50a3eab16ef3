"""One start of one side, for `benchmarks.loading`: prints each mark when it is reached. Ours speaks
under the guard."""

import sys
from pathlib import Path


def ours(folder: Path, codes: int, precision: str) -> None:
    """Loads and speaks the first chunk, as a stream does."""
    from benchmarks.fixed_length import TEXT, judged_once
    from benchmarks.speaking import whose
    from xtts.inference import speech, voice
    from xtts.inference.synthesis_request import SynthesisRequest
    from xtts.inference.torch_backend import TorchBackend
    from xtts.model import loading as model

    print("imported", flush=True)
    loaded = model.load_model(folder, precision=precision)
    print("loaded", flush=True)
    speaker = voice.Voice(*whose(loaded.config.gpt.width))
    guard = judged_once(loaded)
    request = SynthesisRequest(TEXT, "en", max_codes=codes)
    next(speech.stream(TorchBackend(loaded), speaker, request, guard))
    print("first audio", flush=True)


def coquis(folder: Path, codes: int) -> None:
    """Loads and speaks; its first sound is the whole."""
    from TTS.tts.models.xtts import Xtts  # noqa: F401 - the import is what is measured

    from benchmarks import coqui
    from benchmarks.fixed_length import TEXT
    from benchmarks.speaking import whose

    print("imported", flush=True)
    xtts = coqui.load(folder)
    print("loaded", flush=True)
    coqui.never_stop(xtts, codes)
    xtts.inference(TEXT, "en", *whose(xtts.config.model_args.gpt_n_model_channels))
    print("first audio", flush=True)


def main(side: str, folder: Path, codes: int) -> None:
    """The side that is named."""
    if side == "coqui":
        coquis(folder, codes)
    elif side == "torch alone":
        import torch  # noqa: F401 - the import is what is measured

        print("imported", flush=True)
    else:
        ours(folder, codes, side.removeprefix("ours "))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
