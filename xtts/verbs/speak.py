"""`python -m xtts speak`: speaks texts into files."""

import argparse
import contextlib
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from machine.errors import SotaqueError
from machine.storage.files import decoded_text, make_folder, writing_to
from xtts import encoding
from xtts.arguments import SPEED, TAKES, TEMPERATURE, whole_number
from xtts.marks import Mark
from xtts.text.languages import tag_of
from xtts.verbs import voice_arguments

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from xtts.inference.alignment.guarded_piece import SpokenPiece
    from xtts.inference.loaded_voice import LoadedVoice
    from xtts.inference.synthesis_request import SynthesisRequest
    from xtts.text.tokenizer import Tokenizer
    from xtts.voices.voice_files import VoiceFiles

SUMMARY = "speak a text, or each line of a file, into files"
USAGE = "TEXT "
# A file without a name: WAV on stdout, text on stdin.
STREAM = "-"
_MAX_SHOWN_REFUSALS = 10
_HOW_TO_GIVE_TEXT = (
    'write it after the command, such as "Good morning.", or name a file of lines with --lines FILE'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    voice_arguments.add_arguments(parser)
    parser.add_argument("--language", default="en", type=tag_of, help="language of the text (default: en)")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "spoken", nargs="?", metavar="TEXT", help="the text to speak; - or nothing reads it from stdin"
    )
    source.add_argument("--text", help="the same")
    source.add_argument(
        "--lines", type=Path, help="a file with one sentence per line; --out is then a folder"
    )
    parser.add_argument(
        "--out",
        "--to",
        type=Path,
        metavar="FILE",
        help=f"the file to write ({', '.join(encoding.ENDINGS)}), - for WAV on "
        "stdout, or the folder for --lines; by default a new speech.wav in "
        "the working folder",
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="X",
        help=f"{SPEED.min:g} to {SPEED.max:g}; 2 is twice as fast, at the same pitch",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help=f"{TEMPERATURE.min:g} to {TEMPERATURE.max:g}: the variation between "
        "takes; 0 always takes the likeliest code (default: the "
        "model's)",
    )
    parser.add_argument(
        "--takes",
        type=int,
        default=1,
        metavar="N",
        help=f"{TAKES.min} to {TAKES.max}: speak N takes together and keep the "
        "best, by its voice, words and endings (default: 1)",
    )
    parser.add_argument(
        "--words",
        type=Path,
        metavar="FILE.json|.srt|.vtt",
        help="write the time of each word; with --lines, a folder that gets one .json per line",
    )
    parser.add_argument(
        "--guard",
        choices=("on", "off"),
        help="check the ending of each piece, and repeat faulty ones (default: GUARD)",
    )
    parser.add_argument(
        "--plain", action="store_true", help="read Markdown and HTML entities as plain characters"
    )
    parser.add_argument(
        "--show-text",
        action="store_true",
        help="print the text in words, as it is read; without --out, do not speak",
    )


def run(arguments: argparse.Namespace) -> int:
    """Speaks each text into its file. Raises SotaqueError."""
    if arguments.out is None or str(arguments.out) != STREAM:
        return _speak_lines(arguments)
    if arguments.lines is not None:
        raise SotaqueError("--lines writes a file for each line, so --out names a folder, not -.")
    if sys.stdout.isatty():
        raise SotaqueError(
            "--out - writes WAV to stdout, which is a terminal. Redirect it to a file or a pipe."
        )
    # Only sound goes to stdout.
    stream = sys.stdout.buffer
    with contextlib.redirect_stdout(sys.stderr):
        return _speak_lines(arguments, stream)


def _speak_lines(arguments: argparse.Namespace, stream: "IO[bytes] | None" = None) -> int:
    """Runs the command. stream: gets one WAV in place of the files."""
    arguments.text = _find_text(arguments)
    if arguments.out is None and not arguments.show_text:
        arguments.out = _new_file(arguments)
    whole_number("--takes", arguments.takes, TAKES)
    voice_arguments.take_settings(arguments)
    _check_words(arguments)
    lines = _find_lines(arguments)
    if arguments.out is not None and stream is None:
        for line in lines:
            encoding.form_of(line.out)
    requests = [_new_request(arguments, line.text) for line in lines]
    files = voice_arguments.voice_files_of(arguments)
    read_requests = None
    if arguments.show_text:
        tokenizer = files.tokenizer.open()
        read_requests = _add_pieces(requests, lines, tokenizer, files)
        _show_texts(tokenizer, read_requests)
        if arguments.out is None:
            return 0
    voice = voice_arguments.load_voice(arguments, files)
    # Errors in a text or recording are reported before anything is computed.
    read_requests = read_requests or _add_pieces(requests, lines, voice.model.tokenizer, files)
    if voice.own_voice is None:
        raise SotaqueError(
            f"--voice {arguments.voice} does not include a speaker. Add --reference FILE.wav, 3 to "
            "30 s of clear speech, or --latents FILE.safetensors for an ONNX voice."
        )
    if voice.message:
        print(voice.message)
    for request, line in zip(read_requests, lines, strict=True):
        waveform, pieces, take_note = _speak(voice, request, arguments.takes)
        place = _write_sound(line.out, waveform, files.mark, stream)
        print(f"{place}: {len(waveform) / voice.sample_rate:.2f} s{take_note}{_endings_note(pieces)}")
        if arguments.words is not None:
            text = voice.model.tokenizer.without_markup(request.text, request.language, plain=request.plain)
            _write_words(request, pieces, _words_file(arguments, line.out), text)
    return 0


def _speak(
    voice: "LoadedVoice", request: "SynthesisRequest", num_takes: int
) -> "tuple[NDArray[np.float32], Sequence[SpokenPiece], str]":
    """The sound of a text, its pieces, and a note on which of several takes it is, or ""."""
    if num_takes == 1:
        guard = voice.guard(request)
        waveform = voice.synthesize_guarded(request, guard)
        return waveform, guard.pieces if guard else [], ""
    from xtts.evaluation.recogniser_settings import evaluate_recogniser
    from xtts.inference.takes import speak_best

    take, choice = speak_best(voice, request, num_takes, evaluate_recogniser())
    return take.waveform, take.pieces, f"; {choice}"


def _find_text(arguments: argparse.Namespace) -> str | None:
    """The text from the options or stdin; None for --lines."""
    text: str | None = arguments.spoken if arguments.text is None else arguments.text
    if arguments.lines is not None or text not in (None, STREAM):
        return text
    if text is None:
        _check_stdin(arguments.reference)
    try:
        content = decoded_text(sys.stdin.buffer.read())
    except UnicodeDecodeError as error:
        raise SotaqueError(f"The text on stdin is not {error.encoding.upper()}: {error}.") from error
    if not content.strip():
        raise SotaqueError(f"The text on stdin is empty. Pipe a text into speak, or {_HOW_TO_GIVE_TEXT}.")
    return content


def _check_stdin(references: Sequence[Path] | None) -> None:
    """Raises SotaqueError if stdin is a terminal or missing."""
    if references and not references[-1].exists():
        raise SotaqueError(
            f"speak needs a text. If {str(references[-1])!r} is the text, write it before "
            "--reference, which reads every word after it as a recording."
        )
    if sys.stdin is None or sys.stdin.isatty():
        raise SotaqueError(f"speak needs a text: {_HOW_TO_GIVE_TEXT}.")


def _new_file(arguments: argparse.Namespace) -> Path:
    """speech.wav, or the first of speech-2.wav, speech-3.wav, … that does not exist."""
    if arguments.lines is not None:
        raise SotaqueError("--lines needs --out DIR, or --show-text to print how the lines are read.")
    numbered = (f"speech-{number}.wav" for number in itertools.count(2))
    names = itertools.chain(["speech.wav"], numbered)
    return next(path for name in names if not (path := Path(name)).exists())


def _words_file(arguments: argparse.Namespace, out: Path) -> Path:
    if arguments.lines is None:
        return Path(arguments.words)
    arguments.words.mkdir(parents=True, exist_ok=True)
    return Path(arguments.words / f"{out.stem}.json")


def _write_sound(path: Path, waveform: "NDArray[np.float32]", mark: Mark, stream: "IO[bytes] | None") -> str:
    """Writes a file, or a WAV into `stream`, and returns the name of its place."""
    if stream is None:
        encoding.write(path, waveform, mark)
        return str(path)
    stream.write(encoding.encode("wav", encoding.pcm16(waveform), mark))
    stream.flush()
    return "stdout"


def _write_words(request: "SynthesisRequest", pieces: "Sequence[SpokenPiece]", path: Path, text: str) -> None:
    from xtts.inference.alignment.guarded_piece import words_of_speech
    from xtts.subtitles import render

    words = words_of_speech(request.pieces or (), pieces, request.speed)
    if words is None:
        raise SotaqueError(
            "This voice does not support word times: none of its attention heads follows the text. "
            f"The sound was written; {path} was not."
        )
    with writing_to(path):
        path.write_text(render(words, path.suffix[1:], text), encoding="utf-8")


def _endings_note(pieces: "Sequence[SpokenPiece]") -> str:
    """A note on pieces that ended badly or took several attempts, or ""."""
    faults = [
        f"{piece.ending.value} ({piece.reason}; {piece.attempts} attempts)"
        for piece in pieces
        if piece.faulty
    ]
    if faults:
        return f"; {len(faults)} of {len(pieces)} pieces ended badly: {', '.join(faults)}"
    if num_repeated := sum(piece.attempts > 1 for piece in pieces):
        return f"; {num_repeated} of {len(pieces)} pieces were spoken again"
    return ""


def _check_words(arguments: argparse.Namespace) -> None:
    """Raises SotaqueError if --words cannot be written."""
    path = arguments.words
    if path is None:
        return
    if arguments.guard == "off":
        raise SotaqueError("--words needs --guard on: both use attention to follow the text.")
    if arguments.lines is None and path.suffix not in (".json", ".srt", ".vtt"):
        raise SotaqueError(f"--words {path} must end in .json, .srt or .vtt.")
    make_folder(path.parent)


def _show_texts(tokenizer: "Tokenizer", requests: "Sequence[SynthesisRequest]") -> None:
    """Prints how each text is read, one piece per line."""
    print(f"Read by {tokenizer.spec.normalizer}:")
    for request in requests:
        for line in tokenizer.show(request.text, request.language, plain=request.plain):
            print(f"  {line}")


def _new_request(arguments: argparse.Namespace, text: str) -> "SynthesisRequest":
    # Imported here, so that `--help` and a mistyped option do not wait seconds for torch.
    from xtts.inference.synthesis_request import SynthesisRequest

    return SynthesisRequest(
        text,
        arguments.language,
        arguments.seed,
        arguments.temperature,
        arguments.speed,
        plain=arguments.plain,
    )


def _add_pieces(
    requests: "Sequence[SynthesisRequest]",
    lines: "Sequence[_Line]",
    tokenizer: "Tokenizer",
    files: "VoiceFiles",
) -> "list[SynthesisRequest]":
    """The requests with their pieces. Raises one TextError that names all refused lines, including
    those with unknown voices."""
    from xtts.inference.speech import unknown_voice
    from xtts.text.errors import TextError
    from xtts.voices import speakers

    read_requests, refusals = list["SynthesisRequest"](), list[str]()
    for request, line in zip(requests, lines, strict=True):
        try:
            pieces = request.read(tokenizer)
            for name in {piece.voice for piece in pieces} - {""}:
                if speakers.find_speaker(name, files.own_name, files.speakers) is None:
                    raise unknown_voice(name, files.speakers)
            read_requests.append(replace(request, pieces=pieces))
        except TextError as error:
            refusals.append(f"{line.where}{error}")
    if refusals:
        num_hidden = len(refusals) - _MAX_SHOWN_REFUSALS
        last = [f"{num_hidden} more lines are refused."] if num_hidden > 0 else []
        raise TextError("\n".join([*refusals[:_MAX_SHOWN_REFUSALS], *last]))
    return read_requests


@dataclass(frozen=True)
class _Line:
    """A text, its sound file, and its place for messages: `--lines FILE, line 3: `, else ""."""

    text: str
    out: Path
    where: str = ""


def _find_lines(arguments: argparse.Namespace) -> list[_Line]:
    """The texts with their output files: 01.wav, 02.wav, … for --lines."""
    out = arguments.out or Path()
    if arguments.text is not None:
        return [_Line(arguments.text, out)]
    try:
        all_lines = decoded_text(arguments.lines.read_bytes()).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SotaqueError(f"--lines {arguments.lines} cannot be read: {error}.") from error
    texts = [(number, line.strip()) for number, line in enumerate(all_lines, 1) if line.strip()]
    if not texts:
        raise SotaqueError(f"--lines {arguments.lines} is empty; write one sentence per line.")
    if arguments.out is not None:
        make_folder(out)
    digits = max(2, len(str(len(texts))))
    return [
        _Line(text, out / f"{position:0{digits}}.wav", f"--lines {arguments.lines}, line {number}: ")
        for position, (number, text) in enumerate(texts, start=1)
    ]
