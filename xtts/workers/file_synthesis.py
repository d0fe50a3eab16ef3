"""Speaks one request into a file: SpeakRequest, FileSpeaker.

`xtts.workers.file_worker_main` speaks so in a process of its own; `train.sampling.sampler` does in
the trainer's, on a GPU that passed the check. Importing this module imports no torch.
"""

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from machine.devices import cuda_errors
from machine.devices.current_gpu import make_current

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.evaluation.recogniser import Recogniser
    from xtts.inference.alignment.guarded_piece import Guard
    from xtts.inference.voice import Voice
    from xtts.model.loading import Model
    from xtts.text.tokenizer import Piece
    from xtts.workers.file_evaluation import (
        EvaluateRequest,
        HeardRecordings,
        ListenRequest,
        SpeakingSpeed,
        SpokenSet,
        TrialRequest,
    )
    from xtts.workers.speaker_learning import LearnSpeakerRequest, SpeakerLearned


@dataclass(frozen=True)
class SpeakRequest:
    """What to speak and where to. weights: a checkpoint file; None speaks with the base's own;
    speaker: a learned speaker embedding (`xtts.voices.learned_speaker`) for these weights."""

    text: str
    language: str
    reference: Path
    out: Path
    weights: Path | None = None
    seed: int = 0
    speaker: Path | None = None


@dataclass(frozen=True)
class SpokenFile:
    """seconds: how long it took, loading included; similarity: cosine to the reference; ending: how
    its first piece that is not good ended, `good` where all are, None without a guard;
    ending_reason: what was seen; attempts: the most that a piece took; words: (word, start, end) in
    seconds, None where they are not known."""

    seconds: float
    audio_seconds: float
    device: str
    similarity: float | None = None
    ending: str | None = None
    ending_reason: str = ""
    attempts: int = 1
    words: "list[tuple[str, float, float]] | None" = None


class FileSpeaker:
    """A base model with the learning part of the last request; it never sees a model in training.

    keep_weights: False frees the learning part between requests (1.8 GB at full size), for
    whoever asks for other weights each time. mel_device: where the speaker's mel is taken, the only
    FFT of speaking: `device` where its FFT passed the check. precision: as
    `xtts.model.loading.load_model`.
    """

    def __init__(
        self,
        base: Path,
        device: str,
        threads: int | None = None,
        *,
        keep_weights: bool = True,
        mel_device: str = "cpu",
        precision: str = "auto",
        guard: bool = True,
    ) -> None:
        import torch

        from xtts.model import loading as model

        if threads:
            torch.set_num_threads(threads)
        make_current(device)
        self.device = device
        self.base = base
        self.keep_weights = keep_weights
        self.guarded = guard
        self._heads: tuple[tuple[int, int], ...] | None = None
        self._model: Model = model.load_model(base, device, mel_device, precision=precision)
        # Beside training, whose room it is between two samples, nothing is recorded.
        self._model.warm_up(records=keep_weights)
        self._loaded: tuple[str, int, float] | None = ("", 0, 1.0)
        self._heard: tuple[Tensor, Tensor] | None = None
        self._recogniser: tuple[tuple[str, str], Recogniser] | None = None
        self._let_go()

    def speak(self, request: SpeakRequest) -> SpokenFile:
        """Speaks one request into its file, 24 kHz PCM16; draws from no global random state.

        Raises the errors of audio, voice, text, decoding, runs and model; what is wrong with text
        or recording is reported before weights are read or anything is computed.
        """
        from xtts import audio
        from xtts.inference import speech, voice
        from xtts.inference.synthesis_request import SynthesisRequest
        from xtts.inference.torch_backend import TorchBackend

        started = time.perf_counter()
        model = self._reading(request.weights)
        pieces = model.tokenizer.split(request.text, request.language)
        reference = voice.read_reference(self._model.config, request.reference)
        self._take(request.weights)
        heard = self._voice_of(reference)
        whose = _with_learned(heard, request.speaker)
        model = replace(model, gpt=self._model.gpt)
        guard = self._guard(whose, request.seed)
        asked = SynthesisRequest(request.text, request.language, request.seed, pieces=pieces)
        waveform = speech.synthesize(TorchBackend(model), whose, asked, guard)
        audio.write_wav(request.out, waveform)
        likeness = voice.similarity(self._model, waveform, audio.VOCODER_RATE, heard)
        self._let_go()
        return SpokenFile(
            time.perf_counter() - started, len(waveform) / audio.VOCODER_RATE, self.device,
            likeness, *_ending(guard), words=_words(pieces, guard),
        )  # fmt: skip

    def _guard(self, whose: "Voice", seed: int) -> "Guard | None":
        from xtts.inference.alignment import head_measurement
        from xtts.inference.alignment.guarded_piece import Guard

        if not self.guarded:
            return None
        if self._heads is None:
            config = self._model.config
            self._heads = config.alignment_heads
            if self._heads is None and config.weights == "random":
                self._heads = ()
            elif self._heads is None:
                # No fine-tuning moves them: once for all that is spoken here.
                self._heads = head_measurement.measured_heads(self._model, whose)
        return Guard(self._heads, self._model.tokenizer.spoken, seed)

    def _reading(self, weights: Path | None) -> "Model":
        """The model with the tokenizer that these weights have learned from, and their run's list
        of pronunciations."""
        if weights is None:
            return self._model
        from xtts.text.pronunciations import NAME
        from xtts.text.tokenizer import Tokenizer
        from xtts.voices import run_folder

        normalizer = run_folder.normalizer_of(run_folder.read_checkpoint(weights).provenance)
        own = weights.parent.parent / NAME
        config = replace(self._model.config, normalizer=normalizer)
        tokenizer = Tokenizer(config, self.base, (own,) if own.is_file() else ())
        return replace(self._model, config=config, tokenizer=tokenizer)

    def listen(self, request: "ListenRequest") -> "HeardRecordings":
        """Measures recordings. Raises AudioError."""
        from xtts.workers import file_evaluation

        return file_evaluation.listen(self._model, self.base, request)

    def evaluate(self, request: "EvaluateRequest") -> "SpokenSet":
        """Speaks the sentences of an evaluation with some weights, and measures them; the words by
        the base's own, and a recogniser where one is asked for. Raises as `speak`, and
        RecogniserError."""
        import torch

        from xtts.inference import voice
        from xtts.workers import file_evaluation
        from xtts.workers.background_hearing import BackgroundHearing
        from xtts.workers.file_evaluation import SpokenSet

        started = time.perf_counter()
        reading = self._reading(request.weights)
        reference = voice.read_reference(self._model.config, request.reference)
        language = request.sentences[0].language if request.sentences else ""
        ear = self._recogniser_of(request.recogniser, language)
        hearing = BackgroundHearing(ear, reading.tokenizer)
        with torch.inference_mode(), hearing:
            self._take(None if request.of_base else request.weights, request.share)
            whose = self._voice_of(reference)
            if request.speaker is not None:
                learned = torch.tensor(request.speaker)[None, :, None]
                whose = replace(whose, speaker=learned.to(whose.speaker))
            model = replace(reading, gpt=self._model.gpt)
            facts, utterances = file_evaluation.speak_all(model, whose, request, started, hearing)
            if not request.of_base:
                self._take(None)
                latents = self._voice_of(reference).latents
                model = replace(reading, gpt=self._model.gpt)
                words = [file_evaluation.evidence(model, latents, one) for one in utterances]
                facts = [replace(one, words=said) for one, said in zip(facts, words, strict=True)]
            facts = hearing.told(facts)
            self._let_go()
        return SpokenSet(facts, time.perf_counter() - started, self.device)

    def learn_speaker(self, request: "LearnSpeakerRequest") -> "SpeakerLearned":
        """Learns a speaker embedding for some weights. Raises SpeakerLearningError, and as
        `speak`."""
        import torch

        from xtts.inference import voice
        from xtts.model.vocoder import load_dvae
        from xtts.workers import speaker_learning

        started = time.perf_counter()
        reading = self._reading(request.weights)
        reference = voice.read_reference(self._model.config, request.reference)
        self._take(request.weights, request.share)
        whose = self._voice_of(reference)
        model = replace(reading, gpt=self._model.gpt)
        with torch.random.fork_rng(devices=[]):  # a module draws numbers before it has its own
            dvae = load_dvae(self.base, model.config)
        found = speaker_learning.learn(model, whose, dvae, request, started)
        self._let_go()
        return found

    def trial(self, request: "TrialRequest") -> "SpeakingSpeed":
        """Measures how fast the base speaks and is judged here. Raises as `evaluate`."""
        import torch

        from xtts.inference import voice
        from xtts.workers import file_evaluation

        recogniser = self._recogniser_of(request.recogniser, request.language)
        started = time.perf_counter()
        reference = voice.read_reference(self._model.config, request.reference)
        with torch.inference_mode():
            self._model.unload_gpt()
            self._loaded = None
            self._take(None)
            whose = self._voice_of(reference)
            loading = time.perf_counter() - started
            for _ in range(2):  # what is computed for the first time takes longer
                found = file_evaluation.trial(self._model, whose, request, loading, recogniser)
            self._let_go()
        return found

    def _recogniser_of(self, name: str, language: str) -> "Recogniser | None":
        """Opened once; for the language of the sentences."""
        import torch

        from xtts.evaluation import recogniser

        if not name or not language:
            return None
        wanted = (name, language)
        if self._recogniser is None or self._recogniser[0] != wanted:
            self._recogniser = (wanted, recogniser.opened(*wanted, torch.get_num_threads()))
        return self._recogniser[1]

    def _voice_of(self, reference: "Tensor") -> "Voice":
        """A run's epochs have one reference recording; its speaker embedding is computed once."""
        from xtts.inference import voice

        known = None
        if self._heard is not None and self._heard[0].equal(reference):
            known = self._heard[1]
        found = voice.voice_from_reference(self._model, reference, known)
        self._heard = (reference, found.speaker)
        return found

    def _take(self, weights: Path | None, share: float = 1.0) -> None:
        """Loads the learning part of a checkpoint, or a share of it and the rest of the base's;
        None is the base's own."""
        from xtts.model import loading as model
        from xtts.voices import run_folder

        key = (str(weights), os.stat(weights).st_mtime_ns, share) if weights else ("", 0, 1.0)
        if key == self._loaded:
            return
        # What is half loaded by a fault must not be taken for anything by the next request; and two
        # at once would want 3.6 GB.
        self._loaded = None
        self._model.unload_gpt()
        if weights and share < 1:
            tuned = run_folder.read_checkpoint(weights).model
            self._model.load_gpt(
                model.blend(model.read_tensors(self.base / "model.pth"), tuned, share)
            )
        elif weights:
            self._model.load_gpt(run_folder.read_checkpoint(weights).model)
        else:
            self._model.load_gpt(model.read_tensors(self.base / "model.pth"))
        self._loaded = key

    def _let_go(self) -> None:
        if not self.keep_weights:
            self._model.unload_gpt()
            self._loaded = None
            # On a GPU recorded steps and their keys and values go with the weights, back to whoever
            # trains there.
            cuda_errors.free_after_fault(self.device)


def _with_learned(heard: "Voice", path: Path | None) -> "Voice":
    from xtts.voices import learned_speaker

    learned = learned_speaker.read(path) if path else None
    if learned is None:
        return heard
    return replace(heard, speaker=learned.tensor().to(heard.speaker))


def _ending(guard: "Guard | None") -> tuple[str | None, str, int]:
    """As in `SpokenFile`: ending, its reason, attempts."""
    if guard is None or not guard.pieces:
        return None, "", 1
    attempts = max(piece.attempts for piece in guard.pieces)
    worst = next((piece for piece in guard.pieces if piece.faulty), guard.pieces[0])
    return worst.ending.value, worst.reason, attempts


def _words(pieces: "list[Piece]", guard: "Guard | None") -> list[tuple[str, float, float]] | None:
    from xtts.inference.alignment.spoken_words import words_of_speech

    found = words_of_speech(pieces, guard.pieces) if guard is not None and guard.pieces else None
    if found is None:
        return None
    return [(one.word, one.start_time, one.end_time) for one in found]
