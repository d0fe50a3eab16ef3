"""`make demo-voice`: runs every stage of training the embedded voice, from sentences to files.

A stage learns for its share of `--minutes` and resumes from its snapshot.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile
import torch

from demo_voice import carrying, codec, listener, packaging, pretraining, speaking, vocoder
from demo_voice.base import Base
from demo_voice.recipe import FULL, SHORT, BaseRecipe
from demo_voice.speech import Speech
from demo_voice.stages import Workplace
from demo_voice.teachers import hibari
from machine.errors import SotaqueError
from xtts.model import discriminators

FILES = (
    "model.pth",
    "dvae.pth",
    "mel_stats.pth",
    "vocab.json",
    "config.json",
    "reference.wav",
    discriminators.FILE,
)
STAGES = ("texts", "speech", "listener", "codec", "pretraining", "vocoder", "package", "clips")
LEARNING = STAGES[2:6]


@dataclass(frozen=True)
class Making:
    """A training: recipe, work folder, folder of the finished voice, device, minutes of learning,
    processes that speak, the voice to continue from, the folders of Kokoro's styles and of
    recordings of real people."""

    recipe: BaseRecipe
    work: Path
    to: Path
    device: torch.device
    minutes: float
    speakers: int
    base: Base | None = None
    styles: Path | None = None
    recordings: Path | None = None

    def run(self, stages: Sequence[str]) -> None:
        """Runs the stages in their order."""
        for stage in STAGES:
            if stage in stages:
                started = time.monotonic()
                getattr(self, stage)()
                minutes = (time.monotonic() - started) / 60
                print(f"{stage}: done after {minutes:.1f} minutes", flush=True)

    def texts(self) -> None:
        """Writes the sentences and their phones."""
        speaking.write_texts(self.recipe, self.work)

    def speech(self) -> None:
        """Speaks the sentences."""
        speaking.speak_all(self.recipe, self.work, self.speakers, self.styles, self.recordings)

    def listener(self) -> None:
        """The speaker encoder."""
        listener.learn(self._at("listener"), self._speech())

    def codec(self) -> None:
        """The DVAE and the scales of the mels."""
        codec.learn(self._at("codec"), self._speech())

    def pretraining(self) -> None:
        """The GPT."""
        pretraining.learn(self._at("pretraining"), self._speech())

    def vocoder(self) -> None:
        """The vocoder for the GPT's latents."""
        at, speech = self._at("vocoder"), self._speech()
        vocoder.learn(at, speech, pretraining.new_lessons(at, speech))

    def package(self) -> None:
        """Writes the files of the voice, its reference recording, and their hashes."""
        at = self._at("package")
        dvae, mel_stats = codec.load(at)
        packaging.write(
            self.to,
            self.recipe,
            gpt=pretraining.load(at).gpt,
            vocoder=vocoder.load(at).waveform_decoder,
            speaker_encoder=listener.load(at).net,
            dvae=dvae,
            mel_stats=mel_stats,
            weights="trained",
            continued=self.base is not None,
            discriminators=vocoder.load_discriminators(at),
        )
        wave = speaking.reference()
        soundfile.write(self.to / "reference.wav", wave, hibari.RATE, subtype="PCM_16")
        packaging.name_heads(self.to)
        for name in FILES:
            digest = hashlib.sha256((self.to / name).read_bytes()).hexdigest()
            print(f"{digest}  {name}")

    def clips(self) -> None:
        """Writes the recordings of the demo dataset into the work folder. Raises SotaqueError
        without --styles."""
        if self.styles is None:
            raise SotaqueError(
                "The demo's person is a style of Kokoro. Give the folder voices of the npm package "
                "kokoro-js with --styles."
            )
        speaking.demo_clips(self.work / "clips", self.styles)

    def _speech(self) -> Speech:
        longest = self.recipe.gpt.max_audio_tokens - 5
        return Speech(self.work / "speech", self.device, longest)

    def _at(self, stage: str) -> Workplace:
        share = getattr(getattr(self.recipe, stage, None), "share", 0.0)
        seconds = 60 * self.minutes * share
        return Workplace(self.recipe, self.work, self.device, seconds, self.base)


def main(argv: Sequence[str] | None = None) -> int:
    """Trains the voice; prints an error's message and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo_voice", description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("train/output/base"))
    parser.add_argument("--to", type=Path, default=Path("train/output/demo"))
    parser.add_argument("--base", type=Path, help="continues from this voice's folder")
    parser.add_argument("--styles", type=Path, help="the folder voices of kokoro-js")
    parser.add_argument("--recordings", type=Path, help="real people: clips and metadata.csv")
    parser.add_argument("--only", choices=STAGES, action="append", help="may be given again")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=600.0, help="of learning, all stages")
    parser.add_argument("--resume", action="store_true", help="reads what --carry wrote")
    parser.add_argument("--carry", type=Path, help="writes the weights here, in small files")
    parser.add_argument("--speakers", type=int, default=2, help="processes that speak")
    parser.add_argument("--threads", type=int, help="fewer than cores where others work too")
    parser.add_argument("--short", action="store_true", help="tiny sizes: does every stage run?")
    arguments = parser.parse_args(argv)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.set_float32_matmul_precision("high")
    device = torch.device(arguments.device)
    arguments.work.mkdir(parents=True, exist_ok=True)
    recipe = SHORT if arguments.short else FULL
    try:
        making = Making(
            recipe,
            arguments.work,
            arguments.to,
            device,
            arguments.minutes,
            arguments.speakers,
            Base(arguments.base, recipe) if arguments.base else None,
            arguments.styles,
            arguments.recordings,
        )
        if arguments.resume:
            carrying.unpack(arguments.work)
        making.run(arguments.only or STAGES[:-1])
        if arguments.carry:
            carrying.pack(arguments.work, arguments.carry)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
