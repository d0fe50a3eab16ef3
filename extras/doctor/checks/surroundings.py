"""Checks of settings, disk, memory, shared memory, FFmpeg and a trial sentence."""

from collections.abc import Mapping
from dataclasses import replace

from extras.common.readings.snapshot import Container, MachineSettings, Storage, TrialSpeech
from extras.doctor.finding import Finding, fail, gigabytes, ok, warn
from machine import commands
from machine.devices.selection import Environment

XTTS_V2_BYTES = 1_867_929_118
# The size of logs, samples and the feature cache of a small dataset.
_SMALL_BYTES = 100_000_000
# KEEP_CHECKPOINTS=3 and one being written; the two newest epochs also keep their optimizer state,
# which is twice as big as the weights.
_RUN_TIMES, _SAVE_TIMES = 10, 3
# Measured: a whole run at full size peaks at 9.95 GB, the embedded model's below 2 GB.
_FULL_SIZE_BYTES, _FULL_RUN_BYTES, _SMALL_RUN_BYTES = 1_000_000_000, 10_000_000_000, 2_000_000_000
_SHM_BYTES = 1_000_000_000
# Two devices round differently. Equal code sequences stay far below this; others are above 1.
_SAME_SPEECH = 0.05


def settings(settings: MachineSettings, refused: tuple[tuple[str, str], ...]) -> Finding:
    """Whether the programs accept their settings; the messages are the programs' own."""
    faults = [sentence for _, sentence in refused] or [settings.fault]
    if any(faults):
        who = " and ".join(dict(refused)) or "the programs"
        return fail(
            f"the settings are invalid: {who} would not start",
            "valid settings",
            "\n".join(dict.fromkeys(faults)),
            "Correct the setting in .env or in the environment; docs/settings.md lists them all.",
        )
    return ok(f"BASE_MODEL={settings.base_model} OUTPUT_DIR={settings.output_dir}")


def disk(settings: MachineSettings, storage: Storage) -> Finding:
    """Whether a run's checkpoints fit on the disk of OUTPUT_DIR."""
    weights = settings.model_bytes or (XTTS_V2_BYTES if settings.base_model == "xtts_v2" else 0)
    save, run = (times * weights + _SMALL_BYTES for times in (_SAVE_TIMES, _RUN_TIMES))
    seen = f"{gigabytes(storage.free_bytes)} free for OUTPUT_DIR={settings.output_dir}"
    expected = f"{gigabytes(run)} for a run with BASE_MODEL={settings.base_model}"
    evidence = f"{storage.place}: {gigabytes(storage.total_bytes)}"
    if storage.write_fault:
        return fail(
            f"OUTPUT_DIR={settings.output_dir} is not writable",
            expected,
            "Training does not start: no checkpoint could be saved.",
            "Make it writable for this user, or set OUTPUT_DIR to another folder.",
            f"{storage.place}: {storage.write_fault}",
        )
    if storage.free_bytes < save:
        return fail(
            seen,
            expected,
            "Not even one checkpoint fits: training would stop with exit code 74.",
            "Free space on that disk, or set OUTPUT_DIR to a folder on another one.",
            evidence,
        )
    if storage.free_bytes < run:
        return warn(
            seen,
            expected,
            "Training would start, but may stop later with exit code 74.",
            "Free space on that disk, set KEEP_CHECKPOINTS=1, or move OUTPUT_DIR to another disk.",
            evidence,
        )
    return ok(seen, expected, evidence=evidence)


def memory(settings: MachineSettings, environment: Environment) -> Finding:
    """Whether the peak memory of a run fits into this machine."""
    full = settings.base_model == "xtts_v2" or settings.model_bytes >= _FULL_SIZE_BYTES
    needed = _FULL_RUN_BYTES if full else _SMALL_RUN_BYTES
    seen = f"{gigabytes(environment.memory_bytes)}, {environment.cpu_count} cores"
    expected = f"{gigabytes(needed)} to train BASE_MODEL={settings.base_model} on the CPU"
    if environment.memory_bytes < needed and not any(gpu.trains for gpu in environment.gpus):
        return warn(
            seen,
            expected,
            "The kernel may kill the trainer when memory runs out (signal 9).",
            "Close other programs, add swap, or raise the container's memory limit.",
        )
    return ok(seen, expected)


def shared_memory(shared_memory: int, container: Container) -> Finding | None:
    """Whether /dev/shm is large enough; Docker's default is 64 MB."""
    seen = f"/dev/shm has {gigabytes(shared_memory)}"
    if container.inside and shared_memory < _SHM_BYTES:
        return warn(
            seen,
            "1 GB or more",
            "Sotaque loads data in threads and does not need it. Programs that load data in worker "
            "processes, or use several GPUs, fail here with 'Bus error'.",
            "Start the container with shm_size: 1gb (docker run --shm-size 1g), as the compose files do.",
        )
    return ok(seen)


def ffmpeg(programs: Mapping[str, str]) -> Finding:
    """Reports FFmpeg: Sotaque does not use it, but users expect that it is needed."""
    if path := programs.get("ffmpeg"):
        return ok("FFmpeg is installed; Sotaque does not need it", evidence=path)
    return ok(
        "FFmpeg is not installed, and Sotaque does not need it",
        "",
        "Sotaque reads WAV, FLAC, OGG and MP3 without it; convert other formats first.",
    )


def speech(spoken: tuple[TrialSpeech, ...]) -> tuple[Finding, ...]:
    """With `--deep`: the demo voice speaks on each device. Ids: speech_cpu, speech_cuda:0."""
    return tuple(replace(_trial_finding(trial), id=f"speech_{trial.device}") for trial in spoken)


def _trial_finding(trial: TrialSpeech) -> Finding:
    if trial.fault:
        return fail(
            f"the demo voice does not speak on {trial.device}",
            "one sentence",
            "Samples and the API's answers would fail in the same way.",
            commands.make("install") if trial.device == "cpu" else "Set SAMPLE_DEVICE=cpu and DEVICE=cpu.",
            trial.fault,
        )
    seen = f"{trial.audio_seconds:.1f} s of speech in {trial.seconds:.1f} s, loudness {trial.loudness:.3f}"
    if trial.audio_seconds < 0.3 or not 1e-4 < trial.loudness < 1:
        return fail(
            seen,
            "audible speech",
            "The output is silence or noise.",
            commands.make("install") if trial.device == "cpu" else "Set SAMPLE_DEVICE=cpu and DEVICE=cpu.",
        )
    if trial.device == "cpu":
        return ok(seen)
    if trial.distance is None or trial.distance > _SAME_SPEECH:
        difference = "another length" if trial.distance is None else f"off by {trial.distance:.2f}"
        return warn(
            f"{seen}; {difference} than on the CPU",
            f"the CPU's waveform within {_SAME_SPEECH:g}",
            "A code was chosen differently on this GPU. A near tie can cause that; more often an "
            "operation is wrong.",
            "Listen to the next sample; if it is bad, set SAMPLE_DEVICE=cpu.",
        )
    return ok(f"{seen}; equal to the CPU's within {trial.distance:.1e}")
