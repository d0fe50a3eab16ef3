"""`python -m xtts speak | doctor | monitor | explain`: the command line."""

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from machine.errors import SotaqueError
from machine.memory import limit_onednn_cache
from machine.threads import set_omp_passive
from xtts.arguments import PRECISIONS

if TYPE_CHECKING:
    from xtts.inference.alignment.guarded_piece import SpokenPiece
    from xtts.text.tokenizer import Piece, Tokenizer


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb; prints the sentence of a fault and returns its exit code."""
    set_omp_passive()
    limit_onednn_cache()
    arguments = _parser().parse_args(argv)
    verbs = {"speak": _speak, "doctor": _doctor, "monitor": _monitor, "explain": _explain}
    verb = verbs[arguments.verb]
    try:
        return verb(arguments)
    except BrokenPipeError:
        # `… | head` has seen enough; what is still in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SotaqueError as error:
        print(error, file=sys.stderr)
        if getattr(arguments, "json", False):
            content = {"schema": 1, "exit_code": error.exit_code, "error": str(error)}
            print(json.dumps(content, indent=2, ensure_ascii=False))
        return error.exit_code


# Programs that nothing here may import: what a person calls each, and the module that says what it
# would refuse.
_PREFLIGHTS = {"a run": "train.preflight", "the service": "api.preflight"}
_SETTINGS = "It reads the environment and .env as the programs do: see docs/settings.md."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m xtts", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    speak = verbs.add_parser("speak", help="speak a text, or a file of lines, into wavs")
    speak.add_argument(
        "--voice",
        default="demo",
        help="demo, a bundle's folder, a checkpoint, or the folder of a run: its best",
    )
    speak.add_argument("--base", help="the base model of a checkpoint, where it has moved")
    speak.add_argument("--reference", type=Path, help="a recording of the voice, 3 to 30 s")
    speak.add_argument("--language", default="en", help="of the text; en by default")
    speak.add_argument("--seed", type=int, default=0, help="another number, another take")
    speak.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N or auto")
    speak.add_argument("--precision", default="auto", help="what speaking computes in",
                       choices=PRECISIONS)  # fmt: skip
    speak.add_argument("--latents", type=Path, help="a stored voice, for an ONNX folder")
    speak.add_argument("--low-memory", action="store_true", help="less memory, more time")
    what = speak.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", help="what to speak")
    what.add_argument("--lines", type=Path, help="a sentence a line; --out is then a folder")
    speak.add_argument("--out", type=Path, help="the .wav, or the folder of --lines")
    speak.add_argument("--words", type=Path, metavar="FILE.json|.srt|.vtt",
                       help="write when each word is said; a folder with --lines gets one a line, "
                            "as .json")  # fmt: skip
    speak.add_argument("--guard", choices=("on", "off"), default="on",
                       help="speak again what did not end as it should, and tell")  # fmt: skip
    speak.add_argument("--show-text", action="store_true",
                       help="print how it is read; without --out, nothing is spoken")  # fmt: skip
    speak.add_argument("--pronunciations", type=Path, help="a list of how words are said")
    doctor = verbs.add_parser(
        "doctor", help="what is wrong with this machine, and what mends it", epilog=_SETTINGS
    )
    doctor.add_argument("--json", action="store_true", help="for a program; the names stay")
    doctor.add_argument("--deep", action="store_true", help="speak a sentence on each device too")
    doctor.add_argument("--no-cache", action="store_true", help="look at everything again")
    doctor.add_argument("--fix-hints", action="store_true", help="only the lines that mend")
    monitor = verbs.add_parser(
        "monitor", help="GPU, CPU and RAM, a line each interval", epilog=_SETTINGS
    )
    monitor.add_argument("--log", type=Path, help="a CSV file, gone on with where it exists")
    monitor.add_argument("--duration", type=_seconds, help="seconds; without it, until Ctrl-C")
    monitor.add_argument("--interval", type=_seconds, default=2.0, help="seconds, 2 by default")
    explain = verbs.add_parser("explain", help="which node of an ONNX model runs where, and why")
    explain.add_argument("model", type=Path, metavar="MODEL.onnx")
    explain.add_argument("--run", action="store_true", help="run it too, on numbers made for it")
    explain.add_argument("--provider", default="auto", help="auto, cuda, rocm, openvino, cpu, …")
    explain.add_argument("--shape", action="append", default=[], metavar="NAME=1,80,200")
    explain.add_argument("--json", action="store_true", help="for a program; the names stay")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text}: 0.1 seconds or more are needed")
    return seconds


def _monitor(arguments: argparse.Namespace) -> int:
    from machine.devices import monitor
    from machine.settings.loading import SharedSettings, load

    settings, _ = load(SharedSettings)
    return monitor.run(arguments.log, arguments.duration, arguments.interval, settings.output_dir)


def _doctor(arguments: argparse.Namespace) -> int:
    from machine.doctor import command
    from machine.readings.collection import ReadingPlace

    place = ReadingPlace(
        remembers=not arguments.no_cache,
        deep=arguments.deep,
        preflights=preflights(),
        trial=(sys.executable, "-m", "xtts.workers.trial_sentence"),
        models={"demo": Path(__file__).parent / "assets" / "demo" / "model.pth"},
    )
    return command.run(place, as_json=arguments.json, only_fixes=arguments.fix_hints)


def preflights() -> dict[str, tuple[str, ...]]:
    """What a person calls each program that is installed -> the command that judges its settings;
    the file is put behind it, and a JSON list of sentences comes back."""
    return {
        program: (sys.executable, "-m", module)
        for program, module in _PREFLIGHTS.items()
        if importlib.util.find_spec(module.partition(".")[0])
    }


def _explain(arguments: argparse.Namespace) -> int:
    from machine.explain import command

    return command.run(
        arguments.model, arguments.provider, runs=arguments.run, shapes=arguments.shape,
        as_json=arguments.json,
    )  # fmt: skip


def _speak(arguments: argparse.Namespace) -> int:
    if arguments.out is None and not arguments.show_text:
        raise SotaqueError("speak needs --out FILE.wav, or --show-text to see how it is read.")
    _check_words(arguments)
    lines = _lines(arguments)
    # Imported here: `--help` and a mistyped option need not wait seconds for torch.
    from xtts import wav
    from xtts.inference.synthesis_request import SynthesisRequest
    from xtts.voices.loading import compute_config, load_voice
    from xtts.voices.voice_files import VoiceSpec, find_voice

    language, seed = arguments.language, arguments.seed
    asks = [(SynthesisRequest(text, language, seed), out) for text, out in lines]
    # The licence was agreed to when the files were fetched, or the checkpoint was trained.
    files = find_voice(VoiceSpec.from_arguments(
        arguments.voice, reference=arguments.reference, base=arguments.base,
        latents=arguments.latents, pronunciations=arguments.pronunciations, tos_agreed=True,
    ))  # fmt: skip
    if arguments.show_text:
        _show_texts(files.tokenizer.open(), [text for text, _ in lines], language)
        if arguments.out is None:
            return 0
    where, reason = compute_config(
        files, arguments.device, arguments.precision, low_memory=arguments.low_memory,
        guard=arguments.guard == "on",
    )  # fmt: skip
    if reason:
        print(f"Device: {where.device} ({reason})")
    voice = load_voice(files, where)
    # What is wrong with a text or a recording is reported before anything is computed.
    asks = [(replace(ask, pieces=ask.read(voice.model.tokenizer)), out) for ask, out in asks]
    if voice.own is None:
        raise SotaqueError(
            f"--voice {arguments.voice} holds no voice of its own; say whose it is to be with "
            "--reference FILE.wav (3 to 30 s of clear speech), or an ONNX voice's with --latents "
            "FILE.safetensors."
        )
    if voice.message:
        print(voice.message)
    for ask, out in asks:
        guard = voice.guard(ask)
        waveform = voice.synthesize_guarded(ask, guard)
        wav.write(out, waveform, voice.sample_rate)
        spoken = guard.pieces if guard else []
        print(f"{out}: {len(waveform) / voice.sample_rate:.2f} s{_endings(spoken)}")
        if arguments.words is not None:
            _write_words(ask.pieces or (), spoken, _words_file(arguments, out))
    return 0


def _words_file(arguments: argparse.Namespace, out: Path) -> Path:
    if arguments.lines is None:
        return Path(arguments.words)
    arguments.words.mkdir(parents=True, exist_ok=True)
    return Path(arguments.words / f"{out.stem}.json")


def _write_words(read: "Sequence[Piece]", spoken: "Sequence[SpokenPiece]", path: Path) -> None:
    from xtts.inference.alignment.words import words_of_speech, written

    words = words_of_speech(read, spoken)
    if words is None:
        raise SotaqueError(
            "This voice cannot tell when a word is said: no attention head of it follows the text. "
            f"The sound was written; {path} was not."
        )
    path.write_text(written(words, path.suffix[1:]), encoding="utf-8")


def _endings(pieces: "Sequence[SpokenPiece]") -> str:
    """What is to be told of a speech that did not end as it should, or took several attempts."""
    faults = [
        f"{piece.ending.value} ({piece.reason}; {piece.attempts} attempts)"
        for piece in pieces
        if piece.faulty
    ]
    if faults:
        return f"; {len(faults)} of {len(pieces)} pieces ended badly: {', '.join(faults)}"
    if again := sum(piece.attempts > 1 for piece in pieces):
        return f"; {again} of {len(pieces)} pieces were spoken again"
    return ""


def _check_words(arguments: argparse.Namespace) -> None:
    path = arguments.words
    if path is None:
        return
    if arguments.guard == "off":
        raise SotaqueError("--words needs --guard on: both follow attention through the text.")
    if arguments.lines is None and path.suffix not in (".json", ".srt", ".vtt"):
        raise SotaqueError(f"--words {path} must end in .json, .srt or .vtt.")


def _show_texts(tokenizer: "Tokenizer", texts: Sequence[str], language: str) -> None:
    """Prints how each text is read, a piece a line."""
    shown = [line for text in texts for line in tokenizer.show(text, language)]
    print(f"Read by {tokenizer.spec.normalizer}:")
    for line in shown:
        print(f"  {line}")


def _lines(arguments: argparse.Namespace) -> list[tuple[str, Path]]:
    """What to speak, and into which file: 01.wav, 02.wav, … for a file of lines."""
    out = arguments.out or Path()
    if arguments.text is not None:
        return [(arguments.text, out)]
    try:
        content = arguments.lines.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SotaqueError(f"--lines {arguments.lines} cannot be read: {error}.") from error
    texts = [line.strip() for line in content if line.strip()]
    if not texts:
        raise SotaqueError(f"--lines {arguments.lines} holds no sentence; write one a line.")
    if arguments.out is not None:
        out.mkdir(parents=True, exist_ok=True)
    digits = max(2, len(str(len(texts))))
    return [(text, out / f"{i:0{digits}}.wav") for i, text in enumerate(texts, start=1)]


if __name__ == "__main__":
    sys.exit(main())
