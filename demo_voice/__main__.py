"""`make demo-voice`: runs every stage of training the embedded voice, from sentences to files.

Each stage resumes where it was stopped, and finished ones are skipped; `--only` runs one. All of it
takes minutes on a GPU and hours on 2 cores.
"""

import argparse
import hashlib
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile
import torch
from torch import Tensor

from demo_voice import codec, unpacking, vocoder
from demo_voice import packaging as package
from demo_voice import speaker_encoder as listener
from demo_voice.gpt import batches, pretraining, targets
from demo_voice.gpt.targets import Targets
from demo_voice.recipe import FULL, SHORT, BaseRecipe
from demo_voice.stages import Workplace
from demo_voice.teachers import accents, flite, neighbours, people
from demo_voice.teachers.flite import TeacherSpeech
from demo_voice.text import lexicon
from demo_voice.text.sentences import Grammar, LongGrammar, judged_texts, sentences
from machine.errors import SotaqueError

FILES = ("model.pth", "dvae.pth", "mel_stats.pth", "vocab.json", "config.json", "reference.wav")
# The embedded model's default voice: the one that it speaks best.
REFERENCE_TEXT = (
    "He could not find his keys, so he waited outside. I usually walk to work, but today I took "
    "the bus."
)
STAGES = ("clips", "codec", "listener", "targets", "vocoder", "pretraining", "tuning", "package")


@dataclass(frozen=True)
class Making:
    """A training from start to end: recipe, work folder, folder of the finished voice, device."""

    recipe: BaseRecipe
    work: Path
    to: Path
    device: torch.device
    speaker: flite.Speaker = people.speak
    aligner: people.Aligner = people.phone_times
    begin: Path | None = None

    def run(self, stages: Sequence[str] = STAGES) -> None:
        """Runs the stages in their order."""
        self.work.mkdir(parents=True, exist_ok=True)
        if self.begin:
            unpacking.write(self.begin, self.recipe, self.work)
            stages = [stage for stage in stages if stage not in unpacking.DONE]
        for stage in STAGES:
            if stage in stages:
                started = time.monotonic()
                getattr(self, stage)()
                minutes = (time.monotonic() - started) / 60
                print(f"{stage}: done after {minutes:.1f} minutes", flush=True)

    def clips(self) -> None:
        """Speaks the sentences with the teachers. The sentences of 13 to 40 words are spoken in
        parts that contain every pseudo-speaker, so that a training can start before all are
        spoken."""
        recipe, words = self.recipe, lexicon.read()
        short = sentences(Grammar(words, f"text/{recipe.seed}"), judged_texts())
        long = sentences(LongGrammar(words, f"long/{recipe.seed}"), judged_texts())
        planned = [
            flite.plan(_some(short, recipe.sentences), recipe.seed, flite.MANNERS),
            accents.plan(_some(short, recipe.accented)),
            flite.plan(_some(short, recipe.neighbouring), recipe.seed, neighbours.NEIGHBOURS),
        ]
        taught = [one for one in neighbours.NEIGHBOURS if one.name in recipe.pretrained]
        lengthy = (
            (recipe.lengthy, flite.MANNERS),
            (recipe.lengthy_neighbouring, taught or neighbours.NEIGHBOURS),  # none in `SHORT`
        )
        for part in range(recipe.lengthy_parts):
            for size, manners in lengthy:
                texts = _some(long, size // recipe.lengthy_parts)
                planned.append(flite.plan(texts, recipe.seed + part, manners))
        first = 0
        for clips in planned:
            flite.speak_all(clips, self.work / "clips", self.speaker, first)
            first += flite.shards(len(clips))

    def codec(self) -> None:
        """The DVAE and the scales of the mels."""
        codec.learn(self._at, self._speech, self.aligner)

    def listener(self) -> None:
        """The speaker encoder."""
        listener.learn(self._at, self._speech)

    def targets(self) -> None:
        """Computes the codes and mels of all clips."""
        dvae, mel_stats = codec.load(self.work, self.recipe)
        targets.compute(self._speech, dvae.to(self.device), mel_stats, self.work / "targets")

    def vocoder(self) -> None:
        """The vocoder from mels; needs no GPT."""
        mel_stats = codec.load(self.work, self.recipe)[1]
        vocoder.learn_from_mels(self._at, self._speech, self._targets, mel_stats)

    def pretraining(self) -> None:
        """The GPT."""
        mel_stats = codec.load(self.work, self.recipe)[1]
        if self.begin:
            unpacking.write_gpt(self.begin, self.recipe, self._lessons(mel_stats), self.work)
        pretraining.learn(self._at, self._speech, self._targets, mel_stats)

    def tuning(self) -> None:
        """The vocoder for the GPT's latents."""
        dvae, mel_stats = codec.load(self.work, self.recipe)
        pupil = pretraining.load(self.work, self.recipe).to(self.device)
        lessons = self._lessons(mel_stats)
        vocoder.tune(self._at, self._speech, lessons, pupil, dvae.to(self.device))

    def package(self) -> None:
        """Writes the files of the voice, its reference recording, and their hashes."""
        dvae, mel_stats = codec.load(self.work, self.recipe)
        package.write(
            self.to,
            self.recipe,
            gpt=pretraining.load(self.work, self.recipe).gpt,
            vocoder=vocoder.load(self.work, self.recipe).waveform_decoder,
            speaker_encoder=listener.load(self.work, self.recipe).net,
            dvae=dvae,
            mel_stats=mel_stats,
            weights="trained",
        )
        reference = self.speaker(REFERENCE_TEXT, next(m for m in flite.MANNERS if m.name == "rms"))
        soundfile.write(self.to / "reference.wav", reference, flite.RATE, subtype="PCM_16")
        package.name_heads(self.to)
        for name in FILES:
            digest = hashlib.sha256((self.to / name).read_bytes()).hexdigest()
            print(f"{digest}  {name}")

    def _lessons(self, mel_stats: Tensor) -> batches.Lessons:
        heard = batches.references(self._speech, people.PEOPLE)
        return batches.Lessons(self._targets, heard, mel_stats, self.recipe)

    @property
    def _at(self) -> Workplace:
        return Workplace(self.recipe, self.work, self.device)

    @property
    def _speech(self) -> TeacherSpeech:
        return TeacherSpeech(self.work / "clips")

    @property
    def _targets(self) -> Targets:
        return Targets.read(self._speech, self.work / "targets")


def _some(endless: Iterator[str], count: int) -> list[str]:
    return list(itertools.islice(endless, count))


def main(argv: Sequence[str] | None = None) -> int:
    """Trains the voice; prints an error's message and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo_voice", description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("train/output/base"))
    parser.add_argument("--to", type=Path, default=Path("train/output/demo"))
    parser.add_argument("--from", dest="begin", type=Path, help="go on from this packed voice")
    parser.add_argument("--only", choices=STAGES, action="append", help="may be given again")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, help="fewer than cores where others work too")
    parser.add_argument("--short", action="store_true", help="tiny sizes: does every stage run?")
    arguments = parser.parse_args(argv)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    recipe = SHORT if arguments.short else FULL
    device = torch.device(arguments.device)
    if arguments.begin:
        recipe = recipe.continued()
    making = Making(recipe, arguments.work, arguments.to, device, begin=arguments.begin)
    try:
        making.run(arguments.only or STAGES)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
