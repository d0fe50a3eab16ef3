"""Each epoch gets a sample or a sidecar with the reason; training is never affected."""

import hashlib
import json
import random
import threading
from argparse import Namespace
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import soundfile
import torch

from machine.devices.recovery import GpuLost
from machine.devices.selection import Choice, Environment
from machine.storage.checksums import sha256_of
from tests.datasets import make_dataset
from tests.xtts.voices.test_speakers import named
from train import setup
from train.dataset.dataset import Clip, Dataset
from train.resilience.stopping import StopRequest
from train.sampling import sampler as sampling
from train.sampling import samples as sample_speech
from train.sampling.reference import SampleReference, sample_text_clip
from train.sampling.sampler import Sampler, SamplingPlan, new_speaker, sampler_of
from train.sampling.samples import Samples, SampleSidecar, is_sample_missing, sample_on_demand
from train.settings import TrainSettings, load
from train.verbs import sample
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model import loading as model
from xtts.model.config import DecoderSteps, ModelConfig
from xtts.voices.run_folder import RunError, RunFolder, reference_beside
from xtts.workers.failures import WorkerFailed
from xtts.workers.file_worker import Worker
from xtts.workers.requests import SpeakRequest, SpokenFile, TunedVoice

QUICK = "tests.xtts.workers.quick_worker"
CORES = Environment(8, False, 8 << 30, False)
ON_CPU = ComputeConfig()
CPU = SamplingPlan("cpu_subprocess", ON_CPU, "no GPU on this machine")
IN_PROCESS = SamplingPlan(
    "in_process", ComputeConfig("cuda:0", "cuda:0"), "RTX 3090 passed the check", trains_on_gpu=True
)


@pytest.fixture
def reference(tmp_path: Path) -> SampleReference:
    """Half a second of noise at a rate that no part of the sampler uses."""
    noise = np.random.default_rng(0).normal(0, 0.1, 22_050)
    soundfile.write(tmp_path / "clip.flac", noise, 44_100)
    return SampleReference(tmp_path / "clip.flac", "hello", "en", "ana")


class Heard:
    """Samples on a worker without a model, and the sidecars that they reported."""

    def __init__(
        self,
        folder: Path,
        reference: SampleReference,
        chosen: SamplingPlan = CPU,
        in_process: Any = None,
        **options: Any,
    ) -> None:
        self.in_process = in_process
        self.run = RunFolder(folder / "output")
        self.told: list[SampleSidecar] = []
        self.workers: list[SamplingPlan] = []
        self.surprises: list[tuple[str, str]] = []
        self.sampler = Sampler(
            chosen,
            self._worker,
            report=lambda *told: self.surprises.append(told),
            interrupted=options.pop("interrupted", lambda: False),
        )
        self.samples = Samples(
            self.sampler,
            self.run,
            reference,
            on_sample=lambda _epoch, told: self.told.append(told),
            **options,
        )

    def _worker(self, chosen: SamplingPlan) -> Any:
        self.workers.append(chosen)
        if chosen.mode == "in_process":
            self.in_process.plan = chosen
            return self.in_process
        return Worker(Path("base"), chosen.compute, module=QUICK)

    def speak(self, *epochs: int) -> None:
        for epoch in epochs:
            self.samples.speak(epoch, Path(f"checkpoint_epoch_{epoch}.pt"), "abc")

    def sidecar(self, epoch: int) -> dict[str, Any]:
        return json.loads((self.run.samples / f"epoch_{epoch}_output.json").read_text())


def test_a_sample_is_two_wavs_and_a_sidecar_as_promised(tmp_path, reference):
    heard = Heard(tmp_path, reference)
    with heard.sampler:
        heard.speak(10)
    told = heard.sidecar(10)
    assert list(told) == [
        "epoch",
        "checkpoint_sha256",
        "text",
        "device",
        "mode",
        "reason",
        "seconds",
        "audio_seconds",
        "sample_rate",
        "similarity",
        "ending",
        "ending_reason",
        "attempts",
        "words",
    ]
    assert (told["epoch"], told["checkpoint_sha256"], told["text"]) == (10, "abc", "hello")
    assert (told["mode"], told["device"]) == ("cpu_subprocess", "cpu")
    assert (told["sample_rate"], told["audio_seconds"], told["similarity"]) == (24_000, 0.1, 0.5)
    for what, seconds in (("output", 0.1), ("reference", 0.5)):
        header = soundfile.info(heard.run.samples / f"epoch_10_{what}.wav")
        assert (header.samplerate, header.subtype, header.channels) == (24_000, "PCM_16", 1)
        assert header.duration == pytest.approx(seconds, abs=1e-3)
    others = [(10, "abc"), (10, "other weights"), (11, "abc")]
    assert [is_sample_missing(heard.run, *other) for other in others] == [False, True, True]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("SIGKILL", "killed"),
        pytest.param("SIGSEGV", "crashed", marks=pytest.mark.slow),
        pytest.param("memory", "out_of_memory", marks=pytest.mark.slow),
        ("cuFFT error: CUFFT_INVALID_SIZE", "gpu_fault"),
    ],
)
def test_a_fault_is_told_and_the_run_goes_on(monkeypatch, tmp_path, reference, fault, code):
    heard = Heard(tmp_path, reference)
    stale = heard.run.samples / "epoch_1_output.wav"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"spoken by other weights")
    with heard.sampler as sampler:
        monkeypatch.setenv("SOTAQUE_WORKER_FAULT", fault)
        sampler.worker.close()  # it was started without the fault
        heard.speak(1)
        told = heard.sidecar(1)
        assert (told["mode"], told["audio_seconds"]) == ("skipped", None)
        assert told["reason"].startswith(f"{code}: The worker") and not stale.exists()
        monkeypatch.delenv("SOTAQUE_WORKER_FAULT")
        heard.speak(2)
    assert heard.sidecar(2)["mode"] == "cpu_subprocess"


def test_three_failures_in_a_row_end_the_attempts_with_one_message(tmp_path, reference, caplog):
    refused = SampleReference(reference.path, "refuse", "en", "ana")
    heard = Heard(tmp_path, refused)
    with heard.sampler as sampler:
        heard.speak(1, 2)
        heard.samples.reference = reference
        heard.speak(3)  # a success resets the count
        assert heard.samples.failures_in_a_row == 0
        heard.samples.reference = refused
        heard.speak(*range(4, 9))
        assert sampler.worker.pid is None
    (end,) = [record for record in caplog.messages if record.startswith("This run speaks no more samples")]
    assert "The reference is silent." in end
    assert "3 samples in a row failed" in heard.sidecar(8)["reason"]
    assert [told.mode for told in heard.told].count("skipped") == 7


def test_sampling_off_starts_nothing_and_says_so(tmp_path, reference):
    heard = Heard(tmp_path, reference, SamplingPlan("skipped", ON_CPU, "SAMPLE_DEVICE=off"))
    with heard.sampler as sampler:
        heard.speak(1)
        assert sampler.worker.pid is None
    assert heard.sidecar(1)["reason"] == "SAMPLE_DEVICE=off"
    # Speech with the epoch and its export need the person's recording.
    own = heard.run.samples / "epoch_1_reference.wav"
    assert reference_beside(heard.run.checkpoint_path(1)) == own


@pytest.mark.parametrize("mode", ["cpu_subprocess", "skipped"])
def test_a_reference_that_is_gone_costs_the_sample_only(tmp_path, reference, caplog, mode):
    reference.path.unlink()
    heard = Heard(tmp_path, reference, SamplingPlan(mode, ON_CPU, "a reason"))
    with heard.sampler:
        heard.speak(1)
    assert ("does not exist" in heard.sidecar(1)["reason"]) is (mode != "skipped")
    assert ("cannot be copied: " in caplog.text) is (mode == "skipped")


def test_beside_a_training_gpu_a_sample_overlaps_the_next_epoch(tmp_path, reference):
    go = tmp_path / "go"
    chosen = SamplingPlan("cpu_subprocess", ON_CPU, "SAMPLE_DEVICE=cpu", overlaps_training=True)
    heard = Heard(tmp_path, SampleReference(reference.path, f"when {go}", "en", "ana"), chosen)
    with heard.sampler as sampler:
        heard.speak(1)  # returns before anything is spoken
        assert heard.told == []
        go.touch()
        sampler.finish()
    assert [told.mode for told in heard.told] == ["cpu_subprocess"]


@pytest.mark.parametrize("overlap", [False, True])
def test_a_stop_gives_the_sample_up_and_leaves_it_for_the_next_start(tmp_path, reference, overlap):
    stop = threading.Event()
    never = SampleReference(reference.path, f"when {tmp_path / 'never'}", "en", "ana")
    chosen = SamplingPlan("cpu_subprocess", ON_CPU, "", overlaps_training=overlap)
    heard = Heard(tmp_path, never, chosen, interrupted=stop.is_set)
    with heard.sampler as sampler:
        threading.Timer(0.5, stop.set).start()
        heard.speak(1)
    assert sampler.worker.pid is None
    assert heard.told == [] and is_sample_missing(heard.run, 1, "abc")


class Fails:
    """An in-process speaker with a list of outcomes: an error is raised, None is a success."""

    def __init__(self, *ends: Exception | None) -> None:
        self.ends = list(ends)
        self.plan = IN_PROCESS
        self.plans: list[SamplingPlan] = []

    def ask(self, *_: object) -> SpokenFile:
        self.plans.append(self.plan)
        end = self.ends.pop(0)
        if end:
            raise end
        return SpokenFile(0.1, 0.2, self.plan.device, None)

    def close(self) -> None: ...


def test_a_bad_fft_moves_the_mel_and_nothing_else(tmp_path, reference, gpu_says, caplog):
    fails = Fails(RuntimeError("cuFFT error: CUFFT_INVALID_SIZE"), None, None)
    heard = Heard(tmp_path, reference, IN_PROCESS, in_process=fails)
    with heard.sampler:
        heard.speak(1, 2)
    assert [plan.compute.mel_device for plan in fails.plans] == ["cuda:0", "cpu", "cpu"]
    for told in (heard.sidecar(1), heard.sidecar(2)):
        assert (told["mode"], told["device"]) == ("in_process", "cuda:0")
        assert "CUFFT_INVALID_SIZE; the speaker's mel is on the CPU" in told["reason"]
    assert heard.surprises == [("cuda:0", "cuFFT error: CUFFT_INVALID_SIZE")]
    assert "CUFFT_INVALID_SIZE" in caplog.text


def test_a_gpu_that_fails_while_speaking_is_left_a_step_at_a_time(tmp_path, reference, gpu_says, monkeypatch):
    heard = Heard(tmp_path, reference, IN_PROCESS, in_process=Fails(ValueError("wrong shape")))
    with heard.sampler as sampler:
        heard.speak(1)
        told = heard.sidecar(1)
        assert (told["mode"], told["device"]) == ("gpu_subprocess", "cuda:0")
        assert "cuda:0 (in_process) failed: wrong shape" in told["reason"]
        monkeypatch.setenv("SOTAQUE_WORKER_FAULT", "SIGSEGV")
        sampler.worker.close()  # it was started without the fault
        heard.speak(2)
    told = heard.sidecar(2)  # it dies on the CPU as well: the sidecar has both
    assert told["mode"] == "skipped" and told["reason"].startswith("crashed: The worker ended by")
    assert "Before that, speaking on cuda:0 (gpu_subprocess) failed" in told["reason"]
    assert [plan.mode for plan in heard.workers[-2:]] == ["gpu_subprocess", "cpu_subprocess"]
    assert heard.workers[-1].overlaps_training  # because training is still on the GPU
    assert len(heard.surprises) == 2


def test_short_memory_is_tried_once_more_in_the_same_place(tmp_path, reference, gpu_says):
    full = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    fails = Fails(full, None, full, full)
    heard = Heard(tmp_path, reference, IN_PROCESS, in_process=fails)
    with heard.sampler:
        heard.speak(1, 2)
    one, other = heard.sidecar(1), heard.sidecar(2)
    assert (one["mode"], one["reason"]) == ("in_process", IN_PROCESS.reason)
    assert len(fails.plans) == 4
    assert other["mode"] == "cpu_subprocess" and "CUDA out of memory" in other["reason"]
    assert heard.surprises == []  # a full GPU is not a sign of wrong results


@pytest.mark.parametrize("code", [700, 710, None])
def test_a_dead_context_ends_the_run_and_is_never_asked_again(tmp_path, reference, gpu_says, code):
    """Whatever error killed the context."""
    words = "CUDA error: the words of tomorrow\nmore lines"
    error: Any = torch.AcceleratorError(words) if code else ValueError(words)
    error.error_code = code
    gpu_says[0] = "" if code else "CUDA error: unspecified launch failure"
    fails = Fails(error)
    heard = Heard(tmp_path, reference, IN_PROCESS, in_process=fails)
    with heard.sampler, pytest.raises(GpuLost, match="tomorrow") as lost:
        heard.speak(1)
    assert lost.value.exit_code == 70 and "Give the same command again" in str(lost.value)
    assert len(fails.plans) == 1
    told = heard.sidecar(1)
    assert told["mode"] == "skipped" and "words of tomorrow" in told["reason"]
    assert heard.surprises == [("cuda:0", "CUDA error: the words of tomorrow")]


def clip(name: str, seconds: float) -> Clip:
    return Clip(name, Path(name), f"text of {name}", "ana", "pt", seconds, name * 8, (1,))


def test_the_sentence_of_a_sample_is_held_out_and_chosen_by_content():
    clips = (*(clip(name, 4.0) for name in "abcdef"), clip("g", 11.0))
    for order in range(3):
        held_out = [4, 5, 6]
        random.Random(order).shuffle(held_out)
        found = sample_text_clip(Dataset(clips, (), (0, 1, 2, 3), tuple(held_out)))
        assert found.name == min("ef", key=lambda name: clip(name, 4.0).sha256)
    assert sample_text_clip(Dataset(clips, (), (0,), (6,))).name == "g"
    assert sample_text_clip(Dataset(clips, (), (2,), ())).name == "c"


@pytest.mark.parametrize(
    ("train", "held_out", "chosen"),
    [("abf", "cd", "f"), ("ab", "cd", "b"), ("abf", "cg", "g")],
    ids=["a training clip", "the longest", "a long one that is held out"],
)
def test_a_short_clip_is_no_sample(train, held_out, chosen):
    lengths = dict(zip("abcdfg", (1.0, 2.5, 1.8, 1.9, 4.0, 11.0), strict=True))
    clips = tuple(clip(name, seconds) for name, seconds in lengths.items())
    places = [tuple("abcdfg".index(name) for name in names) for names in (train, held_out)]
    assert sample_text_clip(Dataset(clips, (), *places)).name == chosen


def test_the_sentence_is_long_and_in_the_persons_usual_way_of_speaking():
    short, whisper, usual = (clip(name, seconds) for name, seconds in (("a", 1), ("b", 4), ("c", 5)))
    clips = (short, replace(whisper, speaker="ana:whisper"), usual)
    assert sample_text_clip(Dataset(clips, (), (2,), (0, 1))).name == "c"


def state_of(module: torch.nn.Module) -> str:
    """A hash of everything that training depends on."""
    digest = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    digest.update(repr((random.getstate(), np.random.get_state())).encode())
    for name, tensor in module.state_dict().items():
        gradient = dict(module.named_parameters()).get(name, torch.zeros(0)).grad
        digest.update(tensor.numpy().tobytes())
        digest.update(b"" if gradient is None else gradient.numpy().tobytes())
    digest.update(repr([part.training for part in module.modules()]).encode())
    return digest.hexdigest()


def test_speaking_in_process_changes_no_bit_of_training_and_speaks_the_checkpoint(
    base_folder, tmp_path, reference
):
    tensors = model.read_tensors(base_folder / "model.pth").items()
    paths = [tmp_path / f"checkpoint_epoch_{number}.pt" for number in (1, 2)]
    for path, change in zip(paths, (0.0, 0.02)):
        moved = {name: one + change for name, one in tensors if name.startswith("gpt.")}
        torch.save({"model": moved, "provenance": {}}, path)
    chosen = SamplingPlan("in_process", ON_CPU, "a test")
    learning = model.load_model(base_folder).gpt.requires_grad_(True).train()
    sum(parameter.sum() for parameter in learning.parameters()).backward()
    before = state_of(learning)
    here: Any = new_speaker(chosen, base_folder, CORES)
    heard = Heard(tmp_path, reference, chosen, here, seed=3)
    with heard.sampler:
        for epoch, path in enumerate(paths, start=1):
            heard.samples.speak(epoch, path, sha256_of(path))
    assert state_of(learning) == before
    assert [told.mode for told in heard.told] == ["in_process", "in_process"]
    assert [told.checkpoint_sha256 for told in heard.told] == [sha256_of(path) for path in paths]
    outputs = [sha256_of(heard.run.samples / f"epoch_{epoch}_output.wav") for epoch in (1, 2)]
    assert outputs[0] != outputs[1]


@pytest.mark.parametrize(
    ("mode", "overlap", "threads", "niceness"),
    [("cpu_subprocess", False, 8, 0), ("cpu_subprocess", True, 7, 5), ("in_process", False, None, 0)],
)
def test_a_speaker_computes_as_its_plan_says(monkeypatch, mode, overlap, threads, niceness):
    """Including GUARD and SPEAK_PRECISION; a worker leaves one core to concurrent training."""
    made: list[tuple[Path, ComputeConfig]] = []

    class Loaded(Exception):
        """Raised instead of loading a model."""

    def load(base: Path, compute: ComputeConfig, **more: Any) -> None:
        made.append((base, compute))
        assert not more["keep_weights"] and more.get("niceness", 0) == niceness
        raise Loaded

    monkeypatch.setattr(sampling, "FileSpeaker", load)
    monkeypatch.setattr(sampling, "Worker", load)
    asked = ComputeConfig("cuda:1", "cpu", "bf16", guard=False, cudnn=False)
    request = SpeakRequest(SynthesisRequest("one", "en"), TunedVoice(Path()), Path())
    if mode == "in_process":
        asked = replace(asked, device="cpu")
    plan = SamplingPlan(mode, asked, "a test", overlaps_training=overlap)
    with pytest.raises(Loaded):
        new_speaker(plan, Path("base"), CORES).ask(request, 1.0, lambda: False)
    assert made == [(Path("base"), replace(asked, threads=threads))]


def test_every_command_that_speaks_asks_for_what_the_settings_say(tmp_path, base_folder):
    """The run, `train sample` and `train evaluate`, which once ignored GUARD."""
    path = make_dataset(tmp_path / "data", 1, 3.0) / "wavs" / "clip-0.wav"
    context: Any = SimpleNamespace(
        machine=CORES,
        device=Choice("cpu", ""),
        base=base_folder,
        config=ModelConfig.read(base_folder),
        data=Dataset((replace(clip("a", 4.0), path=path),), (), (0,), ()),
    )
    settings = TrainSettings(speak_precision="fp32", guard=False, seed=5, sample_device="cpu")
    found = sampler_of(settings, context)
    assert found.plan.compute == ComputeConfig(precision="fp32", guard=False)


def test_decoders_of_epochs_take_the_steps_that_the_base_recommends(tmp_path, base_folder, monkeypatch):
    path = make_dataset(tmp_path / "data", 1, 3.0) / "wavs" / "clip-0.wav"
    config = ModelConfig.read(base_folder)
    context: Any = SimpleNamespace(
        machine=CORES,
        device=Choice("cpu", ""),
        base=base_folder,
        config=replace(config, training=replace(config.training, decoder_steps=DecoderSteps(45.0))),
        data=Dataset((replace(clip("a", 4.0), path=path),), (), (0,), ()),
    )
    asked = list[DecoderSteps]()
    monkeypatch.setattr(sample_speech, "learn_for_epoch", lambda *given: asked.append(given[-1]) or 0.0)
    settings, stop = TrainSettings(sample_device="cpu", seed=5), SimpleNamespace(requested=False)
    plan, worker = CPU, Worker(Path("base"), CPU.compute, module=QUICK)
    monkeypatch.setattr(setup, "sampler_of", lambda *_: Sampler(plan, lambda _: worker))
    logs: Any = SimpleNamespace(log_sample=lambda *_: None)
    with ExitStack() as closing:
        samples = setup.open_samples(
            settings, context, RunFolder(tmp_path), logs, cast(StopRequest, stop), closing
        )
        assert (samples.seed, samples.reference.path) == (5, tmp_path / "samples" / "reference.wav")
        samples.speak(1, Path("checkpoint_epoch_1.pt"), "abc")
    assert asked == [DecoderSteps(45.0)]


def test_each_request_for_a_sample_has_files_of_its_own_apart_from_the_epochs(tmp_path):
    run = RunFolder(tmp_path)
    first, again, other = (sample_on_demand(run, 2, [text]) for text in ("one", "one", "two"))
    assert first == again != other
    named = {path.parent for one in (first, other) for path in (one.output, one.reference)}
    assert named == {run.samples / "on_demand"}


@pytest.mark.slow
def test_a_saved_epoch_is_spoken_on_demand_into_files_of_its_own(workshop, caplog):
    run = workshop.run("spoken", 2)
    words = workshop.arguments("spoken", SAMPLE_TEXT="again", SAMPLE_DEVICE="auto")
    settings, _ = load(words, {}, None)
    # The lookup below must find new recordings.
    for recording in run.samples.glob("epoch_*_reference.wav"):
        recording.unlink()
    own = [run.samples / f"epoch_2_{name}" for name in ("output.wav", "output.json")]
    for path in own:
        path.write_text("the run's")
    spoken = []
    for asked in (settings, settings, replace(settings, sample_text="another text")):
        assert sample.run(asked, Namespace(epoch=None)) == 0
        spoken.append(Path(caplog.messages[-1].removeprefix("Epoch 2 speaks in ")))
        told = json.loads(spoken[-1].with_suffix(".json").read_text())
        assert told["text"] == asked.sample_text
        assert told["checkpoint_sha256"] == sha256_of(run.checkpoint_path(2))
    assert all(path.read_text() == "the run's" for path in own)
    first, again, other = spoken
    assert first == again != other  # the same request gives the same file
    assert {path.parent for path in spoken} == {run.samples / "on_demand"}
    assert len(list(first.parent.glob("epoch_2_*.wav"))) == 4  # two samples, two references
    assert reference_beside(run.checkpoint_path(2)).parent == first.parent
    with pytest.raises(RunError, match=r"lacks epoch 3.*Saved epochs: 1, 2"):
        sample.run(settings, Namespace(epoch=3))
    run.checkpoint_path(3).write_bytes(b"half of an epoch")
    with pytest.raises(RunError, match=r"Epoch 3 cannot speak"):
        sample.run(settings, Namespace(epoch=3))
    with pytest.raises(RunError, match="SAMPLE_DEVICE=auto"):
        sample.run(replace(settings, sample_device="off"), Namespace(epoch=2))
    with pytest.raises(RunError, match="could not speak") as refused:
        sample.run(replace(settings, sample_text="9" * 307), Namespace(epoch=2))
    assert refused.value.exit_code == 2 and "a number of 307 digits" in caplog.text


def test_an_epochs_sample_is_spoken_with_the_decoder_that_is_learned_for_it(monkeypatch, tmp_path, reference):
    """The decoder is learned first, for the same weights; a sample on demand learns none."""
    learned: list[tuple[int, Path]] = []

    def learn(*given: Any) -> float:
        learned.append((given[4], given[5]))
        return 0.25 if given[4] == 3 else 0.0  # too few steps to measure one

    monkeypatch.setattr(sample_speech, "learn_for_epoch", learn)
    heard = Heard(tmp_path, reference, decoder_steps=DecoderSteps(45.0))
    with heard.sampler:
        heard.speak(3)
        files = sample_on_demand(heard.run, 3, ("Hello.",))
        heard.samples.speak_on_demand(3, Path("checkpoint_epoch_3.pt"), "abc", files)
        heard.speak(4)
    assert learned == [(epoch, Path(f"checkpoint_epoch_{epoch}.pt")) for epoch in (3, 4)]
    assert heard.samples.decoder_step_seconds == 0.25
    assert len(heard.told) == 2


def test_an_epoch_is_heard_as_each_further_speaker_while_there_is_time(
    monkeypatch, tmp_path, reference, caplog
):
    caplog.set_level("INFO")
    heard = Heard(tmp_path, reference)
    named(heard.run.folder, "anna", "ben", "anna:whisper")
    with heard.sampler:
        heard.speak(1)
        monkeypatch.setattr(sample_speech, "SPEAKERS_SECONDS", -1.0)
        heard.speak(2)
    samples = heard.run.samples
    assert sorted(path.name for path in samples.glob("epoch_1_*.wav")) == [
        "epoch_1_output.wav",
        "epoch_1_reference.wav",
        "epoch_1_speaker_2.wav",
        "epoch_1_speaker_3.wav",
    ]
    assert "Samples as ben, anna:whisper: epoch_1_speaker_2.wav, epoch_1_speaker_3.wav" in (caplog.text)
    assert not list(samples.glob("epoch_2_speaker_*"))
    assert "epoch 2 has no sample as ben, anna:whisper" in caplog.text
    assert heard.told[-1].mode == "cpu_subprocess"


def test_a_sample_as_a_speaker_that_fails_costs_no_other(monkeypatch, tmp_path, reference, caplog):
    heard = Heard(tmp_path, reference)
    named(heard.run.folder, "anna", "ben", "cleo")
    ask = Worker.ask

    def refuse_ben(worker: Worker, request: Any, *more: Any) -> Any:
        if request.voice.reference.name == "2.wav":
            raise WorkerFailed("refused", "The recording is silent.")
        return ask(worker, request, *more)

    monkeypatch.setattr(Worker, "ask", refuse_ben)
    with heard.sampler:
        heard.speak(1)
    assert "No sample of epoch 1 as ben: The recording is silent." in caplog.text
    assert (heard.run.samples / "epoch_1_speaker_3.wav").is_file()
    assert heard.samples.failures_in_a_row == 0
