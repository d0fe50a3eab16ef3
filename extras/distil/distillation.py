"""`python -m train distil`: trains a voice with fewer layers from the best weights of a run.

A student with half of the layers speaks in two thirds of its teacher's time (`benchmarks speaking`).
It is trained on the person's clips and on speech of the teacher, which is the run's best weights. It
is exported only if `extras.distil.comparison.rejection_reason` finds nothing against it. The state of
a killed or rejected distillation stays in OUTPUT_DIR/distillation, and the next command resumes it.
"""

import hashlib
import json
import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from extras.distil import learning, lessons
from extras.distil.comparison import ComparedModel, Comparison, compare, rejection_reason
from extras.distil.lessons import Lesson, LessonSource, Narrator, Teacher
from extras.distil.options import DistilOptions
from extras.distil.student import kept_layers, new_student
from machine import commands
from machine.errors import SotaqueError
from machine.memory import trim_heap
from machine.storage.checksums import sha256_of
from machine.storage.files import remove_stale, write_json
from train.dataset import features as feature_cache
from train.evaluation.judges import NATURALNESS, VOICE, WORD_ERRORS, WORDS
from train.evaluation.plan import EvaluationPlan, plan_of
from train.export import new_export, refuse_earlier_export, refuse_other_files, speak_command, voice_to_export
from train.resilience.at_work import at_work
from train.run_context import RunContext
from train.sampling.reference import MAX_COMPARED, with_sample_text
from train.settings import TrainSettings
from train.setup import context_of_run
from xtts.inference.compute_config import ComputeConfig
from xtts.model.config import ModelConfig
from xtts.model.gpt import GPT, from_coqui, to_coqui
from xtts.model.loading import read_tensors
from xtts.text.errors import TextError, excerpt
from xtts.text.languages import short_code
from xtts.voices.run_folder import RunError, RunFolder
from xtts.voices.run_lock import lock
from xtts.voices.voice_files import VoiceFiles, VoiceSpec, find_voice
from xtts.workers.requests import SLOTS, TunedVoice
from xtts.workers.tuned_model import TunedModel

log = logging.getLogger("train")

# The number of sentences by which the other speakers of a run are judged.
OTHERS_SENTENCES = 2 * SLOTS


@dataclass(frozen=True)
class LessonSet:
    """The lessons of a student.

    Attributes:
        voices: The latents of the narrators, `[narrators, 32, width]`.
        key: Identifies the teacher's speech (`LessonSource.key`).
    """

    lessons: list[Lesson]
    voices: torch.Tensor
    key: str


def run(settings: TrainSettings, options: DistilOptions) -> int:
    """Runs the command. Returns 1 if the student is rejected; nothing is exported then.

    Raises RunError for a run without an epoch or a recording, SotaqueError for an option, and the
    errors of the dataset, of speaking and of writing.
    """
    _refuse_existing_files(options)
    options.check_numbers()
    user_texts = options.read_texts()
    run_folder = RunFolder(settings.output_dir)
    _newest_checkpoint(run_folder)
    with lock(run_folder):
        context = context_of_run(settings, run_folder)
        voice = voice_to_export(settings, None, None)
        layers = kept_layers(context.config.gpt.layers, options.layers)
        work_folder = run_folder.folder / "distillation"
        remove_stale(work_folder)
        with at_work(settings.cache_dir, context.device.value, run_folder.folder):
            distillation = Distillation(settings, context, voice, work_folder)
            student = distillation.train_student(layers, options, user_texts)
            return distillation.export(student, options, len(layers))


def _refuse_existing_files(options: DistilOptions) -> None:
    refuse_earlier_export(options.to, "bundle.json", options.force)
    refuse_other_files(options.to)


def _newest_checkpoint(run_folder: RunFolder) -> Path:
    newest = run_folder.newest_weights()
    if newest is None:
        raise RunError(f"{run_folder.folder} has no epoch yet. Train one with `{commands.make('train')}`.")
    return newest.checkpoint


class Distillation:
    """The steps of a distillation: the teacher speaks, the student is trained, both are judged.

    Args:
        folder: The folder of the speech, the student and the judged sounds.
    """

    def __init__(self, settings: TrainSettings, context: RunContext, voice: VoiceFiles, folder: Path) -> None:
        if voice.reference is None:
            raise RunError("The run has no recording of the person. Run `sample` once.")
        self.settings, self.context, self.voice, self.folder = settings, context, voice, folder
        self.compute = ComputeConfig().at(context.device)
        self.teacher_is_base = voice.state is None
        # If the base is the teacher, the run's newest checkpoint still decides how texts are read.
        self.checkpoint = (
            _newest_checkpoint(RunFolder(settings.output_dir)) if self.teacher_is_base else voice.weights
        )
        self.plan = _plan(settings, context, voice, voice.reference)
        self.narrators = _narrators(context, voice, voice.reference)

    def train_student(self, layers: tuple[int, ...], options: DistilOptions, user_texts: list[str]) -> GPT:
        """Returns the trained student; logs its distance to the teacher.

        Args:
            layers: The teacher's layers that the student keeps.
            user_texts: The sentences of the user; [] for the transcripts.
        """
        for number, text in enumerate(user_texts, start=1):
            try:
                self.context.tokenizer.split(text, self.plan.reference.language)
            except TextError as error:
                raise SotaqueError(f"--texts, sentence {number} ({excerpt(text)}): {error}") from error
        lesson_set = self._make_lessons(options.minutes, user_texts)
        teacher = self._load_teacher()
        student = new_student(teacher, layers)
        device = self.context.device.value
        log.info(
            "The student keeps %d of %d layers: %.0f of %.0f million weights.",
            len(layers),
            teacher.shape.layers,
            _million_weights(student),
            _million_weights(teacher),
        )
        taught = learning.with_targets(teacher.to(device), lesson_set.lessons, lesson_set.voices)
        del teacher
        trim_heap()
        inputs = [lesson_set.key, layers, options.minutes]
        learning.learn(
            student.to(device),
            taught,
            epochs=options.epochs,
            seed=self.settings.seed,
            path=self.folder / "student.pt",
            key=hashlib.sha256(json.dumps(inputs).encode()).hexdigest(),
            autocast=self._autocast(),
        )
        if (agreement := learning.agreement(student, taught)) is not None:
            log.info(
                "On held-out lessons: divergence %.2f nats per code, the same likeliest "
                "code in %.0f %%, error of the latents %.2f of their variance.",
                agreement.divergence,
                100 * agreement.same_code,
                agreement.latent_error,
            )
        return student.cpu()

    def export(self, student: GPT, options: DistilOptions, num_layers: int) -> int:
        """Writes the student's voice unless it is rejected, and logs why. Returns the exit code."""
        to = options.to
        clips = [self.context.data.clips[i] for narrator in self.narrators for i in narrator.clip_indices]
        spoken_codes = {short_code(clip.language) for clip in clips}
        base_languages = self.context.config.languages
        languages = tuple(language for language in base_languages if short_code(language) in spoken_codes)
        state = {name: tensor.float() for name, tensor in to_coqui(student.state_dict()).items()}
        try:
            voice, config = replace(self.voice, state=state), ModelConfig.read(self.voice.folder)
            # The heads that follow the text are unknown until they are measured.
            config = replace(
                config, gpt=replace(config.gpt, layers=num_layers), languages=languages, alignment_heads=None
            )
            with new_export(voice, to, config) as part:
                self._judge(part)
                # Checked again, because the folder may have changed in the hours since.
                _refuse_existing_files(options)
        except _RejectedError as rejection:
            log.warning(
                "The student is not exported. %s Train it longer with more --epochs or --minutes, "
                "use further texts (--texts), or keep more --layers. The speech of both is in %s.",
                rejection,
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

    def _make_lessons(self, minutes: float, user_texts: list[str]) -> LessonSet:
        data, seed = self.context.data, self.settings.seed
        teacher = Teacher(
            TunedModel(self.voice.folder, self.compute),
            self.checkpoint,
            self.teacher_is_base,
            sha256_of(self.voice.weights),
        )
        judging_texts = {sentence.request.text for sentence in self.plan.sentences}
        source = LessonSource(teacher, self.narrators, data.clips, user_texts, judging_texts, seed)
        speech = lessons.speak_lessons(source, minutes, self.folder)
        voices = [teacher.voice_of(narrator.recording_path)[1].latents.float() for narrator in self.narrators]
        clips = lessons.draw_lessons(self._clip_lessons(), minutes, seed)
        log.info("Lessons: %d pieces of the teacher's speech, %d clips.", len(speech), len(clips))
        return LessonSet([*speech, *clips], torch.cat(voices).cpu(), source.key())

    def _clip_lessons(self) -> list[Lesson]:
        data = self.context.data
        held_out = set(data.validation)
        features = feature_cache.build(
            data,
            self.context.base,
            self.context.config,
            self.settings.cache_dir,
            self.context.device.features,
        )
        return [
            Lesson(
                torch.tensor(data.clips[index].tokens),
                torch.from_numpy(features.codes(index).astype("int64")),
                number,
                by_teacher=False,
                is_held_out=index in held_out,
            )
            for number, narrator in enumerate(self.narrators)
            for index in features.present(narrator.clip_indices)
        ]

    def _load_teacher(self) -> GPT:
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
        """Judges the student's voice in a folder as every narrator. Raises _RejectedError."""
        student_files = find_voice(VoiceSpec(str(part), tos_agreed=True))  # the run has the user's consent
        teacher_model = TunedModel(self.voice.folder, self.compute)
        student_model = TunedModel(part, self.compute)
        comparisons = {
            narrator.name: self._compare_as(narrator, teacher_model, student_model, student_files)
            for narrator in self.narrators
        }
        figures = {name: asdict(comparison) for name, comparison in comparisons.items()}
        write_json(self.folder / "judged.json", figures)
        for name, comparison in comparisons.items():
            log.info("%s", _comparison_line(name, comparison))
            if (reason := rejection_reason(comparison)) is not None:
                raise _RejectedError(f"As {name}: {reason}" if len(comparisons) > 1 else reason)

    def _compare_as(
        self,
        narrator: Narrator,
        teacher_model: TunedModel,
        student_model: TunedModel,
        student_files: VoiceFiles,
    ) -> Comparison:
        teacher_share = 0.0 if self.teacher_is_base else 1.0
        recording = narrator.recording_path
        if recording == self.voice.reference:
            teacher_voice = TunedVoice(recording, self.checkpoint, teacher_share, self.voice.decoder)
            return compare(
                ComparedModel(teacher_model, teacher_voice, self.folder / "teacher"),
                ComparedModel(student_model, TunedVoice(recording), self.folder / "student"),
                self.plan,
            )
        teacher_decoder = self.voice.speaker_decoders.get(recording)
        student_recording = student_files.speakers.get(narrator.name)
        student_decoder = student_recording and student_files.speaker_decoders.get(student_recording)
        return compare(
            ComparedModel(
                teacher_model, TunedVoice(recording, self.checkpoint, teacher_share, teacher_decoder)
            ),
            ComparedModel(student_model, TunedVoice(recording, decoder=student_decoder)),
            _narrator_plan(self.plan, narrator, self.context),
        )


class _RejectedError(Exception):
    """The student is rejected; the message is the reason."""


def _comparison_line(name: str, comparison: Comparison) -> str:
    """The judges' figures of both, for the log."""
    teacher, student = comparison.teacher, comparison.student
    figures = [
        f"{judge} {teacher.mean(judge):.3f} and {student.mean(judge):.3f}"
        for judge in (WORD_ERRORS, WORDS, VOICE, NATURALNESS)
        if judge in teacher.judges and judge in student.judges
    ]
    failures = f"failed sentences {teacher.num_failed} and {student.num_failed}"
    narrator = f" as {name}" if name else ""
    count = len(teacher.sentences)
    return f"Teacher and student on {count} sentences{narrator}: {', '.join([*figures, failures])}."


def _plan(settings: TrainSettings, context: RunContext, voice: VoiceFiles, recording: Path) -> EvaluationPlan:
    """The plan of the run's evaluation, with the voice's recording."""
    reference = with_sample_text(settings, context.data, recording)
    return plan_of(settings, context.data, reference, dict(voice.provenance["base"]), context.config)


def _narrator_plan(plan: EvaluationPlan, narrator: Narrator, context: RunContext) -> EvaluationPlan:
    """The first sentences of the plan, for one of the other speakers."""
    clips = [context.data.clips[index] for index in narrator.clip_indices]
    compared_clips = sorted(clips, key=lambda clip: clip.sha256)[:MAX_COMPARED]
    return replace(
        plan,
        reference=replace(plan.reference, path=narrator.recording_path),
        clips=clips,
        compared_clips=compared_clips,
        sentences=plan.sentences[:OTHERS_SENTENCES],
    )


def _narrators(context: RunContext, voice: VoiceFiles, recording: Path) -> list[Narrator]:
    """The voice's named speakers with their clips, or one narrator with all clips. The first uses
    the voice's recording."""
    data = context.data
    all_indices = (*data.train, *data.validation)

    def new_narrator(name: str, recording_path: Path, clip_indices: tuple[int, ...]) -> Narrator:
        training_indices = tuple(sorted(set(clip_indices) & set(data.train)))
        return Narrator(name, recording_path, clip_indices, training_indices)

    narrators = []
    for name, path in voice.speakers.items():
        clip_indices = tuple(index for index in all_indices if data.clips[index].speaker == name)
        if clip_indices:
            own_or_other = recording if name == voice.own_name else path
            narrators.append(new_narrator(name, own_or_other, clip_indices))
    return narrators or [new_narrator("", recording, all_indices)]


def _million_weights(gpt: GPT) -> float:
    return sum(parameter.numel() for parameter in gpt.parameters()) / 1e6
