"""Checks of settings, disk, memory, shared memory, FFmpeg, and a trial sentence."""

from collections.abc import Mapping
from dataclasses import replace

from machine.devices.selection import Environment
from machine.doctor.finding import Finding, fail, ok, warn
from machine.readings.snapshot import (
    Container,
    MachineSettings,
    Storage,
    TrialSpeech,
)
from machine.text import gigabytes

XTTS_V2_BYTES = 1_867_929_118
# What logs, samples and the feature cache of a small dataset take.
_SMALL_BYTES = 100_000_000
# KEEP_CHECKPOINTS=3 and one being written; the optimizer of the two newest epochs is twice as big.
_RUN_TIMES, _SAVE_TIMES = 10, 3
# Measured: a whole run at full size peaks at 9.95 GB, the embedded model's below 2 GB.
_FULL_SIZE_BYTES, _FULL_RUN_BYTES, _SMALL_RUN_BYTES = 1_000_000_000, 10_000_000_000, 2_000_000_000
_SHM_BYTES = 1_000_000_000
# Two devices round differently; equal code sequences stay far below, another sentence is above 1.
_SAME_SPEECH = 0.05


def settings(settings: MachineSettings, refused: tuple[tuple[str, str], ...]) -> Finding:
    """Whether the programs would start with their settings, in the programs' own sentences."""
    faults = [sentence for _, sentence in refused] or [settings.fault]
    if any(faults):
        who = " and ".join(dict(refused)) or "the programs"
        return fail(
            f"the settings cannot be used: {who} would not start", "settings that are accepted",
            "\n".join(dict.fromkeys(faults)),
            "Correct it in .env or in the environment; docs/settings.md lists every setting.",
        )  # fmt: skip
    return ok(f"BASE_MODEL={settings.base_model} OUTPUT_DIR={settings.output_dir}")


def disk(settings: MachineSettings, storage: Storage) -> Finding:
    """Whether a run's checkpoints find room where they are written."""
    weights = settings.model_bytes or (XTTS_V2_BYTES if settings.base_model == "xtts_v2" else 0)
    save, run = (times * weights + _SMALL_BYTES for times in (_SAVE_TIMES, _RUN_TIMES))
    seen = f"{gigabytes(storage.free_bytes)} free for OUTPUT_DIR={settings.output_dir}"
    expected = f"{gigabytes(run)} for a run with BASE_MODEL={settings.base_model}"
    evidence = f"{storage.place}: {gigabytes(storage.total_bytes)}"
    if storage.write_fault:
        return fail(
            f"OUTPUT_DIR={settings.output_dir} cannot be written", expected,
            "No checkpoint could be saved; training does not start.",
            "Make it writable for this user, or set OUTPUT_DIR to another folder.",
            f"{storage.place}: {storage.write_fault}",
        )  # fmt: skip
    if storage.free_bytes < save:
        return fail(
            seen, expected, "Not even one checkpoint fits: training would stop with exit code 74.",
            "Free space there, or set OUTPUT_DIR to a folder on another disk.", evidence,
        )  # fmt: skip
    if storage.free_bytes < run:
        return warn(
            seen, expected, "Training would start, and may stop with exit code 74 later.",
            "Free space there, set KEEP_CHECKPOINTS=1, or OUTPUT_DIR to another disk.", evidence,
        )  # fmt: skip
    return ok(seen, expected, evidence=evidence)


def memory(settings: MachineSettings, environment: Environment) -> Finding:
    """Whether a run's peak fits into what this process may use."""
    full = settings.base_model == "xtts_v2" or settings.model_bytes >= _FULL_SIZE_BYTES
    needed = _FULL_RUN_BYTES if full else _SMALL_RUN_BYTES
    seen = f"{gigabytes(environment.memory_bytes)}, {environment.cpu_count} cores"
    expected = f"{gigabytes(needed)} to train BASE_MODEL={settings.base_model} on the CPU"
    if environment.memory_bytes < needed and not any(gpu.trains() for gpu in environment.gpus):
        return warn(
            seen, expected, "The kernel may end the trainer for memory (exit by signal 9).",
            "Close other programs, add swap, or raise the container's memory limit.",
        )  # fmt: skip
    return ok(seen, expected)


def shared_memory(shared_memory: int, container: Container) -> Finding | None:
    """Docker's 64 MB of /dev/shm."""
    seen = f"/dev/shm has {gigabytes(shared_memory)}"
    if container.inside and shared_memory < _SHM_BYTES:
        return warn(
            seen, "1 GB or more",
            "Sotaque's own loader uses threads and needs none of it; what loads data with worker "
            "processes, or uses several GPUs, dies here with 'Bus error'.",
            "Start the container with shm_size: 1gb (docker run --shm-size 1g), as our compose "
            "files do.",
        )  # fmt: skip
    return ok(seen)


def ffmpeg(programs: Mapping[str, str]) -> Finding:
    """Nothing of ours calls it; people look for it first."""
    if path := programs.get("ffmpeg"):
        return ok("FFmpeg is here; Sotaque does not need it", evidence=path)
    return ok(
        "no FFmpeg, and none is needed", "",
        "WAV, FLAC, OGG and MP3 are read without it; convert other formats elsewhere.",
    )  # fmt: skip


def speech(spoken: tuple[TrialSpeech, ...]) -> tuple[Finding, ...]:
    """`--deep`: the demo voice on each device. Ids: speech_cpu, speech_cuda:0."""
    return tuple(replace(_trial_finding(one), id=f"speech_{one.device}") for one in spoken)


def _trial_finding(one: TrialSpeech) -> Finding:
    if one.fault:
        return fail(
            f"the demo voice does not speak on {one.device}", "one sentence",
            "Every sample and every answer of the API would fail in the same way.",
            "make install" if one.device == "cpu" else "Set SAMPLE_DEVICE=cpu and DEVICE=cpu.",
            one.fault,
        )  # fmt: skip
    seen = (
        f"{one.audio_seconds:.1f} s of speech in {one.seconds:.1f} s, loudness {one.loudness:.3f}"
    )
    if one.audio_seconds < 0.3 or not 1e-4 < one.loudness < 1:
        return fail(
            seen, "audible speech", "What it speaks is silence or noise.",
            "make install" if one.device == "cpu" else "Set SAMPLE_DEVICE=cpu and DEVICE=cpu.",
        )  # fmt: skip
    if one.device == "cpu":
        return ok(seen)
    if one.distance is None or one.distance > _SAME_SPEECH:
        difference = "another length" if one.distance is None else f"off by {one.distance:.2f}"
        return warn(
            f"{seen}; {difference} than on the CPU", f"the CPU's waveform within {_SAME_SPEECH:g}",
            "One code decided otherwise on this GPU, as a near tie may; often it is a wrong "
            "operation.", "Listen to the next sample; if it is bad, set SAMPLE_DEVICE=cpu.",
        )  # fmt: skip
    return ok(f"{seen}; equal to the CPU's within {one.distance:.1e}")
