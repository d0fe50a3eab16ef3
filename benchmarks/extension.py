"""`python -m benchmarks extension` adds four languages to bases, each to one of its own.

Ukrainian, Vietnamese, Greek and Swahili are added by 150 sentences, written for this, of
`benchmarks/languages/`, and 150 numbers that ICU's rules read in words. `--full` is XTTS-v2's size,
with random weights; `--vocabulary` names the published vocab.json, which is not part of this
repository. For each language: what `train extend` adds, its time and memory; whether old texts keep
their ids and old weights their bits; whether Coqui's `Xtts` loads an export of a checkpoint, reads
a text by the same ids and speaks; and whether checkpoints of the base and of the extended base are
refused in each other's place. A killed benchmark goes on with what is in --work.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import measuring, synthetic
from extras.languages.rows import TABLES
from extras.languages.vocabulary import lacking
from machine.errors import SotaqueError
from train.checkpointing.checkpoints import Checkpoints
from train.checkpointing.fingerprint import Fingerprint
from train.evaluation.plan import built_in
from train.export import export
from xtts.model.config import ModelConfig
from xtts.model.gpt import PREFIX
from xtts.model.loading import read_tensors
from xtts.text.errors import TextError
from xtts.text.tokenizer import Tokenizer
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceSpec, find_voice

TEXTS = Path(__file__).parent / "languages"
LANGUAGES = ("uk", "vi", "el", "sw")
NUMBERS = 150
# Read in Latin letters by packages that may be missing.
ROMANISED = ("zh-cn", "ja")
CODES = 16
LOOK_SECONDS = 0.05
# As docs/languages.md tells it: Coqui's tokenizer has a fixed list of languages.
COQUI_LINE = (
    'model.tokenizer.preprocess_text = lambda text, language: " ".join(text.lower().split())'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser)
    parser.add_argument("--vocabulary", type=Path, help="vocab.json of the base; default: made up")
    parser.add_argument(
        "--work", type=Path, default=Path("build/extension"), help="folder of the base and results"
    )
    parser.add_argument(
        "--languages", type=lambda text: text.split(","), default=list(LANGUAGES),
        help=f"of {','.join(LANGUAGES)}",
    )  # fmt: skip
    parser.add_argument("--texts", type=int, default=10_000, help="number of old texts")


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each language; only those that --work lacks are measured."""
    work, wanted = arguments.work, arguments.languages
    base = synthetic.write_base(
        arguments.folder or work / "base", full=arguments.full, vocabulary=arguments.vocabulary
    )
    own = work / "base-run"
    if not RunFolder(own).epochs():
        checkpoint_of(base, own)
    results = work / "rows.jsonl"
    for language in wanted:
        if language in [row["language"] for row in read_rows(results)]:
            continue
        with tempfile.TemporaryDirectory(dir=work) as folder:
            checkpoint = RunFolder(own).checkpoint_path(1)
            row = row_of(language, base, checkpoint, Path(folder), arguments.texts)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return [row for row in read_rows(results) if row["language"] in wanted]


def read_rows(results: Path) -> list[dict[str, Any]]:
    """All rows so far, without a last line that was cut off."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text(encoding="utf-8").split("\n")[:-1]]


def row_of(language: str, base: Path, own: Path, work: Path, count: int) -> dict[str, Any]:
    """The figures of a language. own: a checkpoint of the base; count: of old texts."""
    clips, extended = write_clips(language, work / "clips"), work / "base"
    row: dict[str, Any] = {"language": language}
    row |= extend(base, language, clips, extended)
    row |= vocabulary_facts(base, extended, language, count)
    row["old_weights_bit_equal"] = same_weights(base, extended)
    row["model_gb"] = round((extended / "model.pth").stat().st_size / 1e9, 3)
    learned = checkpoint_of(extended, work / "run")
    row["refused"] = refused(own, extended) and refused(learned, base)
    export(find_voice(VoiceSpec(str(learned), base=extended)), work / "voice")
    text = sentences(language)[0]
    heard = measuring.ask("benchmarks.extension", work / "voice", language, text)
    ids = Tokenizer(ModelConfig.read(extended), extended).encode(text, language)
    return row | {
        "coqui_same_ids": heard["ids"] == ids,
        "coqui_audio_seconds": heard["audio_seconds"],
    }


# ---- texts ----


def sentences(language: str) -> list[str]:
    """Those that were written for this."""
    return (TEXTS / f"{language}.txt").read_text(encoding="utf-8").splitlines()


def write_clips(language: str, folder: Path) -> Path:
    """A dataset of the texts; its recordings, all one second of silence, are one file."""
    import numpy as np
    import soundfile

    draw = random.Random(0)
    texts = [*sentences(language), *(str(draw.randrange(10**6)) for _ in range(NUMBERS))]
    (folder / "wavs").mkdir(parents=True)
    soundfile.write(folder / "wavs" / "0.wav", np.zeros(22_050), 22_050)
    rows = [f"{number}|{text}" for number, text in enumerate(texts)]
    for number in range(1, len(rows)):
        (folder / "wavs" / f"{number}.wav").symlink_to("0.wav")
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def old_texts(config: ModelConfig, count: int) -> Iterator[tuple[str, str]]:
    """(text, language) of random words of the built-in sentences of the base's languages, the same
    every time."""
    draw = random.Random(0)
    words = {
        one: " ".join(built_in(one)).split() for one in config.languages if one not in ROMANISED
    }
    for _ in range(count):
        language = draw.choice(list(words))
        yield " ".join(draw.choices(words[language], k=draw.randint(1, 12))), language


# ---- what is measured ----


def extend(base: Path, language: str, clips: Path, to: Path) -> dict[str, Any]:
    """Runs `train extend`: seconds of the process by the clock and of a core, and its memory at
    most, with the mapped file and without. Raises ChildFailed."""
    command = [
        sys.executable, "-m", "train", "extend", f"--base-model={base}", f"--language={language}",
        f"--dataset={clips}", f"--to={to}",
    ]  # fmt: skip
    peaks = {"VmHWM": 0, "RssAnon": 0}

    def look(pid: int) -> None:
        for name in peaks:
            peaks[name] = max(peaks[name], measuring.memory_bytes(name, pid))

    began = time.perf_counter()
    code, usage = measuring.watched(command, look, LOOK_SECONDS)
    seconds = time.perf_counter() - began
    if code:
        raise measuring.ChildFailed(f"train extend ended with {code}.")
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_gb": round(peaks["VmHWM"] / 1e9, 2),
        "anonymous_gb": round(peaks["RssAnon"] / 1e9, 2),
    }


def vocabulary_facts(base: Path, extended: Path, language: str, count: int) -> dict[str, Any]:
    """What was added, how many of the texts had an unknown token and have one, and how many of
    `count` old texts have other ids than before."""
    old, new = (Tokenizer(ModelConfig.read(one), one) for one in (base, extended))
    config = ModelConfig.read(extended)
    added = config.extensions[-1]
    known = json.loads((base / "vocab.json").read_text(encoding="utf-8"))["model"]["vocab"]
    tokens = [new.token(added.first_id + place) for place in range(1, added.num_ids)]
    texts = [new.normalised(text, language) for text in sentences(language)]
    ids = [new.encode(text, language)[1:] for text in texts]
    others = sum(
        ids_or_refusal(old, text, one) != ids_or_refusal(new, text, one)
        for text, one in old_texts(ModelConfig.read(base), count)
    )
    return {
        "begins_as": added.like,
        "first_id": added.first_id,
        "new_ids": added.num_ids,
        "characters": sum(len(token) == 1 for token in tokens),
        "pieces": sum(len(token) > 1 for token in tokens),
        "sentences": len(texts),
        "unknown_before": sum(bool(lacking(known, [text])) for text in texts),
        "unknown": sum(bool(new.unknown(text, language)) for text in texts),
        "tokens_per_character": round(sum(map(len, ids)) / sum(map(len, texts)), 3),
        "old_texts_with_other_ids": others,
    }


def ids_or_refusal(tokenizer: Tokenizer, text: str, language: str) -> list[int] | str:
    """The ids of a text, or why it is refused: a made-up vocabulary lacks letters of a language."""
    try:
        return tokenizer.encode(text, language)
    except TextError as error:
        return str(error)


def same_weights(base: Path, extended: Path) -> bool:
    """Whether all old weights, and the old rows of the tables, are the same to the bit."""
    before, after = (read_tensors(one / "model.pth") for one in (base, extended))
    return before.keys() == after.keys() and all(
        bool((after[name][: len(tensor)] if name in TABLES else after[name]).equal(tensor))
        for name, tensor in before.items()
    )


def checkpoint_of(base: Path, output: Path) -> Path:
    """A checkpoint that says that it was made from the base, each value a little larger."""
    made_from = Fingerprint.of(base, "0" * 64, ModelConfig.read(base).gpt, output / "cache")
    provenance = {
        "base": {"name": str(base), "sha256": made_from.base_sha256},
        "fingerprint": made_from.as_dict(),
    }
    state = {
        name: tensor * 1.001
        for name, tensor in read_tensors(base / "model.pth").items()
        if name.startswith(PREFIX)
    }
    checkpoints = Checkpoints(RunFolder(output), 1, provenance=provenance)
    return checkpoints.save_epoch(1, 1, state, None, {}).path


def refused(checkpoint: Path, base: Path) -> bool:
    """Whether a checkpoint of another base is refused with this one."""
    try:
        find_voice(VoiceSpec(str(checkpoint), base=base))
    except SotaqueError:
        return True
    return False


def spoken_by_coqui(voice: Path, language: str, text: str) -> dict[str, Any]:
    """The ids by which Coqui's `Xtts` reads a text, and how much it spoke."""
    import numpy as np

    model = synthetic.load_coqui(voice, CODES)
    exec(COQUI_LINE, {"model": model})
    latents, speaker = synthetic.voice_latents(model.config.model_args.gpt_n_model_channels)
    wave = np.asarray(model.inference(text, language, latents, speaker)["wav"])
    if not np.isfinite(wave).all():
        raise SotaqueError(f"What Coqui spoke with {voice} is not finite.")
    return {
        "ids": model.tokenizer.encode(text, language),
        "audio_seconds": round(len(wave) / 24_000, 2),
    }


if __name__ == "__main__":
    print(json.dumps(spoken_by_coqui(Path(sys.argv[1]), *sys.argv[2:])))
