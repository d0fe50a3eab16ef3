"""`python -m xtts speak | read | doctor | monitor | explain`: the command line."""

import argparse
import functools
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from extras.books import command as book_command
from machine import commands
from machine.errors import SotaqueError
from machine.memory import limit_onednn_cache
from machine.threads import limit_omp_spinning
from xtts import encoding
from xtts.arguments import PRECISIONS
from xtts.text.language_names import tag_of

if TYPE_CHECKING:
    from xtts.inference.alignment.guarded_piece import SpokenPiece
    from xtts.inference.loaded_voice import LoadedVoice
    from xtts.inference.synthesis_request import SynthesisRequest
    from xtts.text.tokenizer import Piece, Tokenizer
    from xtts.voices.voice_files import VoiceFiles


_MOST_REFUSALS = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; prints the message of an error and returns its exit code."""
    limit_omp_spinning()
    limit_onednn_cache()
    parser = _parser()
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help()
        return 2
    arguments = parser.parse_args(argv)
    verbs = {
        "speak": _speak,
        "read": _read_book,
        "doctor": _doctor,
        "monitor": _monitor,
        "explain": _explain,
    }
    verb = verbs[arguments.verb]
    try:
        return verb(arguments)
    except BrokenPipeError:
        # For example `… | head` has closed the pipe; discard what is still in the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SotaqueError as error:
        print(error, file=sys.stderr)
        if getattr(arguments, "json", False):
            content = {"schema": 1, "exit_code": error.exit_code, "error": str(error)}
            print(json.dumps(content, indent=2, ensure_ascii=False))
        return error.exit_code


# Programs that this package may not import: the name of each in messages, and the module that lists
# the settings it refuses.
_PREFLIGHTS = {"a run": "train.preflight", "the service": "api.preflight"}
_SETTINGS = "It reads the environment and .env like the programs; see docs/settings.md."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=commands.program("xtts"), description=__doc__)
    parser.add_argument("--version", action="version", version=commands.version())
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    speak = verbs.add_parser("speak", help="speak a text, or each line of a file, into files")
    _add_voice_arguments(speak)
    speak.add_argument("--language", default="en", type=tag_of,
                       help="language of the text; en by default")  # fmt: skip
    what = speak.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", help="the text to speak")
    what.add_argument("said", nargs="?", metavar="TEXT", help="the same")
    what.add_argument("--lines", type=Path,
                      help="a file with one sentence per line; --out is then a folder")  # fmt: skip
    speak.add_argument("--out", type=Path,
                       help=f"the file to write ({', '.join(encoding.ENDINGS)}), or the folder "
                            "for --lines")  # fmt: skip
    speak.add_argument("--words", type=Path, metavar="FILE.json|.srt|.vtt",
                       help="write the time of each word; with --lines, a folder that gets one "
                            ".json per line")  # fmt: skip
    speak.add_argument("--guard", choices=("on", "off"),
                       help="check how each piece ends, and speak a bad one again; GUARD by "
                            "default")  # fmt: skip
    speak.add_argument("--plain", action="store_true",
                       help="read marks of Markdown and HTML entities as characters")  # fmt: skip
    speak.add_argument("--show-text", action="store_true",
                       help="print the text as it is read; without --out, nothing is "
                            "spoken")  # fmt: skip
    read = verbs.add_parser("read", help="read a book aloud, into files with chapters")
    _add_voice_arguments(read)
    read.add_argument("--language", default="", type=tag_of,
                      help="language of the text; what the book says by default")  # fmt: skip
    book_command.add_arguments(read)
    doctor = verbs.add_parser(
        "doctor", help="check this machine and show how to fix it", epilog=_SETTINGS
    )
    doctor.add_argument("--json", action="store_true", help="print JSON with stable names")
    doctor.add_argument("--deep", action="store_true", help="also speak a sentence on each device")
    doctor.add_argument("--no-cache", action="store_true", help="repeat every check")
    doctor.add_argument("--fix-hints", action="store_true", help="print only the fixes")
    monitor = verbs.add_parser(
        "monitor", help="show GPU, CPU and RAM usage, one line per interval", epilog=_SETTINGS
    )
    monitor.add_argument("--log", type=Path, help="a CSV file to write or append to")
    monitor.add_argument("--duration", type=_seconds,
                         help="how long, in seconds; until Ctrl-C by default")  # fmt: skip
    monitor.add_argument("--interval", type=_seconds, default=2.0,
                         help="seconds between lines; 2 by default")  # fmt: skip
    explain = verbs.add_parser(
        "explain", help="show where each node of an ONNX model runs, and why"
    )
    explain.add_argument("model", type=Path, metavar="MODEL.onnx")
    explain.add_argument("--run", action="store_true",
                         help="also run the model, on generated inputs")  # fmt: skip
    explain.add_argument("--provider", default="auto", help="auto, cuda, rocm, openvino, cpu, …")
    explain.add_argument("--shape", action="append", default=[], metavar="NAME=1,80,200",
                         help="the shape of an input, for --run")  # fmt: skip
    explain.add_argument("--json", action="store_true", help="print JSON with stable names")
    return parser


def _add_voice_arguments(parser: argparse.ArgumentParser) -> None:
    """What says who speaks, and where it is computed."""
    parser.add_argument(
        "--voice",
        default="demo",
        help="demo, the folder of an exported voice or adapter, a checkpoint, or the folder of a "
        "run (what is best in it)",
    )
    parser.add_argument("--base", help="the base model of a checkpoint or adapter, if it has moved")
    parser.add_argument("--reference", type=Path, nargs="+", action="extend", metavar="PATH",
                        help="a recording of the speaker, 3 to 30 s; several, or a folder of "
                             "recordings, are combined")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="another seed gives another take")
    parser.add_argument("--device", default="cpu", help="cpu, gpu, cuda:N or auto; cpu by default")
    parser.add_argument("--precision", choices=PRECISIONS,
                        help="how exact to compute; SPEAK_PRECISION by default")  # fmt: skip
    parser.add_argument("--latents", type=Path, help="stored latents, for an ONNX voice")
    parser.add_argument("--low-memory", action="store_true", help="use less memory and more time")
    parser.add_argument("--speaker", default="",
                        help="a named speaker of the voice: anna, or anna:whisper")  # fmt: skip
    parser.add_argument("--pronunciations", type=Path, help="a list of pronunciations")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; use 0.1 seconds or more")
    return seconds


def _monitor(arguments: argparse.Namespace) -> int:
    from extras.doctor import monitor
    from machine.settings.loading import SharedSettings, load

    settings, _ = load(SharedSettings)
    return monitor.run(arguments.log, arguments.duration, arguments.interval, settings.output_dir)


def _doctor(arguments: argparse.Namespace) -> int:
    from extras.doctor import command
    from extras.doctor.collection import ReadingPlace

    place = ReadingPlace(
        remembers=not arguments.no_cache,
        deep=arguments.deep,
        preflights=preflights(),
        trial=(sys.executable, "-m", "xtts.workers.trial_sentence"),
        models={"demo": Path(__file__).parent / "assets" / "demo" / "model.pth"},
    )
    return command.run(place, as_json=arguments.json, only_fixes=arguments.fix_hints)


def preflights() -> dict[str, tuple[str, ...]]:
    """Name of each installed program -> the command that checks its settings.

    The path of `.env` is appended to the command, which prints a JSON list of sentences.
    """
    return {
        program: (sys.executable, "-m", module)
        for program, module in _PREFLIGHTS.items()
        if importlib.util.find_spec(module.partition(".")[0])
    }


def _explain(arguments: argparse.Namespace) -> int:
    from extras.doctor.explain import command

    return command.run(
        arguments.model, arguments.provider, runs=arguments.run, shapes=arguments.shape,
        as_json=arguments.json,
    )  # fmt: skip


def _speak(arguments: argparse.Namespace) -> int:
    arguments.text = arguments.said if arguments.text is None else arguments.text
    if arguments.out is None and not arguments.show_text:
        raise SotaqueError(
            "speak needs --out FILE.wav, or --show-text to print how the text is read."
        )
    _take_settings(arguments)
    _check_words(arguments)
    lines = _lines(arguments)
    if arguments.out is not None:
        for line in lines:
            encoding.form_of(line.out)
    # Imported here, so that `--help` and a mistyped option do not wait seconds for torch.
    from xtts.inference.synthesis_request import SynthesisRequest

    language, seed = arguments.language, arguments.seed
    asked = [
        (line, SynthesisRequest(line.text, language, seed, plain=arguments.plain)) for line in lines
    ]
    files = _found_voice(arguments)
    read = None
    if arguments.show_text:
        tokenizer = files.tokenizer.open()
        read = _read(asked, tokenizer, files)
        _show_texts(tokenizer, read)
        if arguments.out is None:
            return 0
    voice = _loaded_voice(arguments, files)
    # Errors in a text or recording are reported before anything is computed.
    read = read or _read(asked, voice.model.tokenizer, files)
    asks = [(ask, line.out) for ask, line in zip(read, lines, strict=True)]
    if voice.own is None:
        raise SotaqueError(
            f"--voice {arguments.voice} has no speaker of its own. Add --reference FILE.wav, 3 to "
            "30 s of clear speech, or --latents FILE.safetensors for an ONNX voice."
        )
    if voice.message:
        print(voice.message)
    for ask, out in asks:
        guard = voice.guard(ask)
        waveform = voice.synthesize_guarded(ask, guard)
        encoding.write(out, waveform)
        spoken = guard.pieces if guard else []
        print(f"{out}: {len(waveform) / voice.sample_rate:.2f} s{_endings(spoken)}")
        if arguments.words is not None:
            _write_words(ask.pieces or (), spoken, _words_file(arguments, out))
    return 0


def _take_settings(arguments: argparse.Namespace) -> None:
    """Adds what the environment and .env set for every program to the options of a voice. They
    travel with these, so that a worker of Ray on another machine has the same."""
    from machine.settings.loading import SharedSettings, load

    settings, _ = load(SharedSettings)
    guard = getattr(arguments, "guard", None) or ("on" if settings.guard else "off")
    arguments.guard, arguments.threads = guard, settings.num_threads
    arguments.precision = arguments.precision or settings.speak_precision
    arguments.xtts_v2, arguments.tos_agreed = settings.xtts_v2_dir, settings.coqui_tos_agreed


def _found_voice(arguments: argparse.Namespace) -> "VoiceFiles":
    from xtts.voices.voice_files import VoiceSpec, find_voice

    return find_voice(VoiceSpec.from_arguments(
        arguments.voice, reference=arguments.reference, base=arguments.base,
        latents=arguments.latents, pronunciations=arguments.pronunciations,
        tos_agreed=arguments.tos_agreed, speaker=arguments.speaker, xtts_v2=arguments.xtts_v2,
    ))  # fmt: skip


def _loaded_voice(arguments: argparse.Namespace, files: "VoiceFiles") -> "LoadedVoice":
    from xtts.voices.loading import compute_config, load_voice

    where, reason = compute_config(
        files, arguments.device, arguments.precision, low_memory=arguments.low_memory,
        guard=arguments.guard == "on", threads=arguments.threads,
    )  # fmt: skip
    if reason:
        print(f"Device: {where.device} ({reason})")
    return load_voice(files, where)


def _read_book(arguments: argparse.Namespace) -> int:
    _take_settings(arguments)
    # What a worker of Ray opens the voice with, too.
    return book_command.run(arguments, functools.partial(_voice_for_a_book, arguments))


def _voice_for_a_book(arguments: argparse.Namespace) -> "LoadedVoice":
    return _loaded_voice(arguments, _found_voice(arguments))


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
            "This voice has no word times, because none of its attention heads follows the text. "
            f"The sound was written; {path} was not."
        )
    path.write_text(written(words, path.suffix[1:]), encoding="utf-8")


def _endings(pieces: "Sequence[SpokenPiece]") -> str:
    """A note on pieces that ended badly or took several attempts; "" if there are none."""
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
        raise SotaqueError("--words needs --guard on: both use attention to follow the text.")
    if arguments.lines is None and path.suffix not in (".json", ".srt", ".vtt"):
        raise SotaqueError(f"--words {path} must end in .json, .srt or .vtt.")


def _show_texts(tokenizer: "Tokenizer", asks: "Sequence[SynthesisRequest]") -> None:
    """Prints how each text is read, one piece per line."""
    print(f"Read by {tokenizer.spec.normalizer}:")
    for ask in asks:
        for line in tokenizer.show(ask.text, ask.language, plain=ask.plain):
            print(f"  {line}")


def _read(
    asked: "Sequence[tuple[_Line, SynthesisRequest]]", tokenizer: "Tokenizer", files: "VoiceFiles"
) -> "list[SynthesisRequest]":
    """The requests with their pieces. Raises one TextError that names every refused line, also
    those that ask for a voice that this one does not have."""
    from xtts.inference.speech import unknown_voice
    from xtts.text.errors import TextError
    from xtts.voices import speakers

    found, refusals = list["SynthesisRequest"](), list[str]()
    for line, ask in asked:
        try:
            pieces = ask.read(tokenizer)
            for name in {piece.voice for piece in pieces} - {""}:
                if speakers.find(name, files.own_name, files.speakers) is None:
                    raise unknown_voice(name, files.speakers)
            found.append(replace(ask, pieces=pieces))
        except TextError as error:
            refusals.append(f"{line.where}{error}")
    if refusals:
        more = len(refusals) - _MOST_REFUSALS
        rest = [f"{more} more lines are refused."] if more > 0 else []
        raise TextError("\n".join([*refusals[:_MOST_REFUSALS], *rest]))
    return found


@dataclass(frozen=True)
class _Line:
    """A text, its sound file, and its place for messages: `--lines FILE, line 3: `, else ""."""

    text: str
    out: Path
    where: str = ""


def _lines(arguments: argparse.Namespace) -> list[_Line]:
    """The sentences: 01.wav, 02.wav, … for a file of lines."""
    out = arguments.out or Path()
    if arguments.text is not None:
        return [_Line(arguments.text, out)]
    try:
        content = arguments.lines.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SotaqueError(f"--lines {arguments.lines} cannot be read: {error}.") from error
    texts = [(number, line.strip()) for number, line in enumerate(content, 1) if line.strip()]
    if not texts:
        raise SotaqueError(f"--lines {arguments.lines} is empty; write one sentence per line.")
    if arguments.out is not None:
        out.mkdir(parents=True, exist_ok=True)
    digits = max(2, len(str(len(texts))))
    return [
        _Line(text, out / f"{i:0{digits}}.wav", f"--lines {arguments.lines}, line {number}: ")
        for i, (number, text) in enumerate(texts, start=1)
    ]


if __name__ == "__main__":
    sys.exit(main())
