"""`python -m train distil`: trains a voice with fewer layers from the best weights of a run.

Half of the layers speak in two thirds of the time (`benchmarks speaking`). The student is trained
on the person's clips and on speech of the teacher, which is the run's best weights. It is exported
only if it may replace the teacher (`extras.distil.comparison.may_replace`). The state of a killed
or rejected distillation stays in OUTPUT_DIR/distillation, and the next command resumes it.
"""

import hashlib
import json
import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from extras.distil import learning, lessons
from extras.distil.comparison import Speaking, judge, may_replace
from extras.distil.lessons import Lesson, Narrator, Teacher
from extras.distil.student import kept_layers, new_student
from machine import commands
from machine.errors import SotaqueError
from machine.memory import trim_heap
from machine.storage.checksums import sha256_of
from machine.storage.files import remove_stale, write_json
from train.dataset import features as feature_cache
from train.evaluation.judges import NATURALNESS, VOICE, WORD_ERRORS, WORDS
from train.evaluation.plan import EvaluationPlan, plan_of
from train.export import new_export, refuse_earlier, refuse_others, speak_command, voice_to_export
from train.resilience.at_work import at_work
from train.run_context import RunContext
from train.sampling.reference import MOST_COMPARED, speaking_from
from train.settings import TrainSettings
from train.setup import context_of_run
from xtts.inference.compute_config import ComputeConfig
from xtts.model.config import ModelConfig
from xtts.model.gpt import GPT, from_coqui, to_coqui
from xtts.model.loading import read_tensors
from xtts.text.errors import TextError, excerpt
from xtts.text.languages import short_code
from xtts.voices.evaluation_file import Candidate
from xtts.voices.run_folder import RunError, RunFolder
from xtts.voices.run_lock import lock
from xtts.voices.voice_files import VoiceFiles, VoiceSpec, find_voice
from xtts.workers.requests import SLOTS, TunedVoice
from xtts.workers.tuned_model import TunedModel

log = logging.getLogger("train")

EPOCHS = 15
# The minutes of the teacher's speech, and the limit for clips.
MINUTES = 30.0
# The number of sentences by which the other speakers of a run are judged.
OTHERS_SENTENCES = 2 * SLOTS


@dataclass(frozen=True)
class Asked:
    """The options of the command. layers, epochs, minutes, texts: None for half of the layers,
    EPOCHS, MINUTES and the transcripts of the clips."""

    to: Path
    layers: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    texts: Path | None = None
    force: bool = False


def run(settings: TrainSettings, asked: Asked) -> int:
    """Runs the command. Returns 1 if the student is rejected; nothing is exported then.

    Raises RunError for a run without an epoch or a recording, SotaqueError for an option, and the
    errors of the dataset, of speaking and of writing.
    """
    _refuse_what_is_there(asked)
    epochs, minutes = _numbers(asked)
    own_texts = _texts(asked.texts)
    folder = RunFolder(settings.output_dir)
    if folder.newest_whole() is None:
        raise RunError(f"{folder.folder} has no epoch yet. Train one with `{commands.make('train')}`.")
    with lock(folder):
        context = context_of_run(settings, folder)
        voice = voice_to_export(settings, None, None)
        layers = kept_layers(context.config.gpt.layers, asked.layers)
        kept_here = folder.folder / "distillation"
        remove_stale(kept_here)
        with at_work(settings.cache_dir, context.device.value, folder.folder):
            work = Distillation(settings, context, voice, kept_here)
            student = work.student(layers, epochs, minutes, own_texts)
            return work.export(student, asked, len(layers))


def _refuse_what_is_there(asked: Asked) -> None:
    refuse_earlier(asked.to, "bundle.json", asked.force)
    refuse_others(asked.to)


def _numbers(asked: Asked) -> tuple[int, float]:
    epochs = EPOCHS if asked.epochs is None else asked.epochs
    minutes = MINUTES if asked.minutes is None else asked.minutes
    if epochs < 1:
        raise SotaqueError(f"--epochs {epochs}: give a number of at least 1.")
    if not 0 < minutes < float("inf"):
        raise SotaqueError(f"--minutes {minutes:g}: give a number above 0.")
    return epochs, minutes


def _texts(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise SotaqueError(f"--texts {path} cannot be read ({error}).") from error
    if not any(lines):
        raise SotaqueError(f"--texts {path} contains no sentence. Write one per line.")
    return [line for line in lines if line]


class Distillation:
    """The steps of a distillation: the teacher speaks, the student is trained, both are judged.

    folder: the folder of the speech, the student and the judged sounds.
    """

    def __init__(self, settings: TrainSettings, context: RunContext, voice: VoiceFiles, folder: Path) -> None:
        if voice.reference is None:
            raise RunError("The run has no recording of the person. Run `sample` once.")
        self.settings, self.context, self.voice, self.folder = settings, context, voice, folder
        self.compute = ComputeConfig().at(context.device)
        # The base reads texts with the run's normaliser.
        newest = RunFolder(settings.output_dir).newest_whole()
        assert newest is not None
        self.of_base = voice.state is None
        self.reading = newest.checkpoint if self.of_base else voice.weights
        self.plan = _plan(settings, context, voice, voice.reference)
        self.narrators = _narrators(context, voice, voice.reference)

    def student(self, layers: tuple[int, ...], epochs: int, minutes: float, own_texts: list[str]) -> GPT:
        """The trained student; logs its distance to the teacher."""
        for number, text in enumerate(own_texts, start=1):
            try:
                self.context.tokenizer.split(text, self.plan.reference.language)
            except TextError as error:
                raise SotaqueError(f"--texts, sentence {number} ({excerpt(text)}): {error}") from error
        taught_by, voices, lessons_key = self._lessons(minutes, own_texts)
        teacher = self._teacher()
        student = new_student(teacher, layers)
        device = self.context.device.value
        log.info(
            "The student keeps %d of %d layers: %.0f of %.0f million weights.",
            len(layers),
            teacher.shape.layers,
            _millions(student),
            _millions(teacher),
        )
        taught = learning.taught_by(teacher.to(device), taught_by, voices)
        del teacher
        trim_heap()
        key = hashlib.sha256(json.dumps([lessons_key, layers, minutes]).encode()).hexdigest()
        learning.learn(
            student.to(device),
            taught,
            epochs=epochs,
            seed=self.settings.seed,
            path=self.folder / "student.pt",
            key=key,
            autocast=self._autocast(),
        )
        if (near := learning.agreement(student, taught)) is not None:
            log.info(
                "On held-out lessons: divergence %.2f nats per code, the same likeliest "
                "code in %.0f %%, error of the latents %.2f of their variance.",
                near.divergence,
                100 * near.same_code,
                near.latent_error,
            )
        return student.cpu()

    def export(self, student: GPT, asked: Asked, layers: int) -> int:
        """Writes the student's voice if it may be served, and logs why."""
        to = asked.to
        clips = [self.context.data.clips[i] for narrator in self.narrators for i in narrator.clips]
        spoken = {short_code(clip.language) for clip in clips}
        languages_of_base = self.context.config.languages
        languages = tuple(language for language in languages_of_base if short_code(language) in spoken)
        state = {name: tensor.float() for name, tensor in to_coqui(student.state_dict()).items()}
        try:
            voice, config = replace(self.voice, state=state), ModelConfig.read(self.voice.folder)
            # The heads that follow the text are unknown until they are measured.
            config = replace(
                config, gpt=replace(config.gpt, layers=layers), languages=languages, alignment_heads=None
            )
            with new_export(voice, to, config) as part:
                self._judge(part)
                # Checked again, because the folder may have changed in the hours since.
                _refuse_what_is_there(asked)
        except _NotServedError as refusal:
            log.warning(
                "The student is not exported. %s Train it longer with more --epochs or --minutes, "
                "use further texts (--texts), or keep more --layers. The speech of both is in %s.",
                refusal,
                self.folder,
            )
            return 1
        log.info(
            "%s is the student's voice. Its speech and the teacher's are in %s. Speak with:\n  %s",
            to,
            self.folder,
            speak_command(to),
        )
        return 0

    def _lessons(self, minutes: float, own_texts: list[str]) -> tuple[list[Lesson], torch.Tensor, str]:
        """The lessons, the latents `[narrators, 32, width]` of their narrators, and their key."""
        data, seed = self.context.data, self.settings.seed
        tuned = TunedModel(self.voice.folder, self.compute)
        weights = sha256_of(self.voice.weights)
        teacher = Teacher(tuned, self.reading, None if self.of_base else self.reading, weights)
        judging_texts = {sentence.request.text for sentence in self.plan.sentences}
        who_says_what = (teacher, self.narrators, data.clips, own_texts, judging_texts)
        speech = lessons.speak_lessons(*who_says_what, minutes, self.folder, seed)
        latents = [teacher.voice_of(narrator.recording)[1].latents.float() for narrator in self.narrators]
        features = feature_cache.build(
            data,
            self.context.base,
            self.context.config,
            self.settings.cache_dir,
            self.context.device.features,
        )
        clips = [
            (data.clips[index], torch.from_numpy(features.codes(index).astype("int64")), number)
            for number, narrator in enumerate(self.narrators)
            for index in features.present(narrator.clips)
        ]
        held_out = [data.clips[index] for index in data.validation]
        clip_lessons = lessons.of_clips(clips, held_out, minutes, seed)
        log.info("Lessons: %d pieces of the teacher's speech, %d clips.", len(speech), len(clip_lessons))
        return [*speech, *clip_lessons], torch.cat(latents).cpu(), lessons.key_of(*who_says_what, seed)

    def _teacher(self) -> GPT:
        state = self.voice.state or read_tensors(self.voice.folder / "model.pth")
        gpt = GPT(self.context.config.gpt)
        gpt.load_state_dict({name: tensor.float() for name, tensor in from_coqui(state).items()})
        return gpt.requires_grad_(False)

    def _autocast(self) -> torch.autocast:
        """PRECISION; float32 instead of fp16, which would need gradient scaling."""
        device = self.context.device.value.partition(":")[0]
        bf16 = self.context.precision.value == "bf16"
        return torch.autocast(device, dtype=torch.bfloat16, enabled=bf16)

    def _judge(self, part: Path) -> None:
        """Judges the student's voice in a folder as every narrator. Raises _NotServedError."""
        student, teacher = (
            find_voice(VoiceSpec(str(part), tos_agreed=True)),  # the run has the user's consent
            TunedModel(self.voice.folder, self.compute),
        )
        small = TunedModel(part, self.compute)
        results = {}
        for narrator in self.narrators:
            opens = narrator.recording == self.voice.reference
            decoder = self.voice.speaker_decoders.get(narrator.recording)
            students = student.speaker_decoders.get(student.speakers.get(narrator.name, part))
            plan = self.plan if opens else _plan_of(self.plan, narrator, self.context)
            tuned_voice = TunedVoice(
                plan.reference.path,
                self.reading,
                0.0 if self.of_base else 1.0,
                self.voice.decoder if opens else decoder,
            )
            learned = TunedVoice(plan.reference.path, decoder=None if opens else students)
            results[narrator.name] = judge(
                Speaking(teacher, tuned_voice, self.folder / "teacher" if opens else None),
                Speaking(small, learned, self.folder / "student" if opens else None),
                plan,
            )
        write_json(
            self.folder / "judged.json",
            {
                name: {"teacher": asdict(large), "student": asdict(small)}
                for name, (large, small) in results.items()
            },
        )
        for name, (large, other) in results.items():
            log.info("%s", _figures(name, large, other))
            if (reason := may_replace(other, large)) is not None:
                raise _NotServedError(f"As {name}: {reason}" if len(results) > 1 else reason)


class _NotServedError(Exception):
    """The student is rejected; the message is the reason."""


def _figures(name: str, teacher: Candidate, student: Candidate) -> str:
    """The judges' figures of both, for the log."""
    figures = [
        f"{judge} {teacher.mean(judge):.3f} and {student.mean(judge):.3f}"
        for judge in (WORD_ERRORS, WORDS, VOICE, NATURALNESS)
        if judge in teacher.judges and judge in student.judges
    ]
    failed = f"failed sentences {teacher.num_failed} and {student.num_failed}"
    whose = f" as {name}" if name else ""
    count = len(teacher.sentences)
    return f"Teacher and student on {count} sentences{whose}: {', '.join([*figures, failed])}."


def _plan(settings: TrainSettings, context: RunContext, voice: VoiceFiles, recording: Path) -> EvaluationPlan:
    """The plan of the run's evaluation, with the voice's recording."""
    reference = speaking_from(settings, context.data, recording)
    return plan_of(settings, context.data, reference, dict(voice.provenance["base"]), context.config)


def _plan_of(plan: EvaluationPlan, narrator: Narrator, context: RunContext) -> EvaluationPlan:
    """The first sentences of the plan, for one of the other speakers."""
    clips = [context.data.clips[index] for index in narrator.clips]
    compared_clips = sorted(clips, key=lambda clip: clip.sha256)[:MOST_COMPARED]
    return replace(
        plan,
        reference=replace(plan.reference, path=narrator.recording),
        clips=clips,
        recordings=compared_clips,
        sentences=plan.sentences[:OTHERS_SENTENCES],
    )


def _narrators(context: RunContext, voice: VoiceFiles, recording: Path) -> list[Narrator]:
    """The voice's named speakers with their clips, or one narrator with all clips. The first uses
    the voice's recording."""
    data = context.data
    everyone = (*data.train, *data.validation)

    def narrator(name: str, path: Path, clips: tuple[int, ...]) -> Narrator:
        return Narrator(name, path, clips, tuple(sorted(set(clips) & set(data.train))))

    narrators = []
    for name, path in voice.speakers.items():
        clips = tuple(index for index in everyone if data.clips[index].speaker == name)
        if clips:
            narrators.append(narrator(name, recording if name == voice.own_name else path, clips))
    return narrators or [narrator("", recording, everyone)]


def _millions(gpt: GPT) -> float:
    return sum(parameter.numel() for parameter in gpt.parameters()) / 1e6
