"""`python -m benchmarks language` teaches the embedded voice a language that it has never spoken.

The language is a cipher: the demo clips' texts as phones, each phone written as a letter of
Georgian, which the vocabulary lacks. The sound stays, so a recogniser of English still knows what
should be heard. For each seed three runs with default settings learn from the same clips: plain
English on the plain base, the cipher on a base that `train extend` made, and the cipher by the
usual recipe, whose new rows begin at random and whose old language is not rehearsed. Their last
epochs, blends of them with the base, and the base speak the reporting set, without the guard, and
pocketsphinx counts word errors. A killed benchmark goes on with what is in --work.
"""

import argparse
import itertools
import json
import random
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import evaluation, judges, measuring, tables
from extras.languages import command as extending
from extras.languages.plan import ExtensionPlan, plan_of
from extras.languages.rows import TABLES
from machine.storage.atomic import replace_file, write_json
from train.dataset.metadata import read_entries
from train.settings import TrainSettings
from xtts import audio
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.config import ModelConfig
from xtts.model.loading import load_gpt, read_tensors
from xtts.text.phonemes import PHONES
from xtts.text.tokenizer import Tokenizer
from xtts.voices.base_models import DEMO
from xtts.voices.run_folder import RunFolder
from xtts.workers.file_synthesis import FileSpeaker
from xtts.workers.requests import EvaluateRequest, SentenceTask, SpeakingRate

DATASET = evaluation.DATASET
CIPHER, ENGLISH = "ka", "en"
# Letters whose romanisation says the phone, where Georgian has one; the others as they come.
ALIKE = {
    "&": "ა", "b": "ბ", "g": "გ", "d": "დ", "E": "ე", "v": "ვ", "z": "ზ", "t": "თ", "I": "ი",
    "k": "კ", "l": "ლ", "m": "მ", "n": "ნ", "A": "ო", "p": "პ", "r": "რ", "s": "ს", "V": "უ",
    "S": "შ", "C": "ჩ", "J": "ჯ", "h": "ჰ",
}  # fmt: skip
SPARE = "ჟტფქღყცძწჭხჱჲჳჴჵჶჷ"
LETTERS = ALIKE | dict(zip(sorted(set(PHONES.values()) - ALIKE.keys()), SPARE, strict=True))
# The runs of a seed: plain English, the cipher as `train extend` and a default run learn it, and
# the cipher as usual.
WAYS = ("english", "extended", "usual")
# As the embedded base advises, but for the tables, which the usual recipe trains whole.
USUAL = {
    "rehearsal": "off", "new_language_rate": 1,
    "freeze": "conditioning_*,text_pos_embedding,mel_pos_embedding",
}  # fmt: skip
# Judging changes no bit of what an epoch has learned.
SETTINGS = {"sample_device": "off"}
# Of the fine-tuned weights; the rest are the base's. A default run judges both, and others.
SHARES = (1.0, 0.5)
# Enough for the slowest of the demo's people: what is longer by far does not end.
RATE = SpeakingRate(2.2, 10.0)
# Way, seed, share, language.
Key = tuple[str, int, float, str]


@dataclass(frozen=True)
class Heard:
    """What a recogniser heard of a run: errors and words of each sentence, and how many sentences
    did not end. way: of WAYS, or `base`; share: of SHARES; language: CIPHER or ENGLISH."""

    way: str
    seed: int
    share: float
    language: str
    errors: list[int]
    words: list[int]
    unfinished: int

    @property
    def key(self) -> Key:
        """What it is of."""
        return self.way, self.seed, self.share, self.language

    @property
    def word_errors(self) -> float:
        """Word error rate as a share."""
        return sum(self.errors) / sum(self.words)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=_seeds, default=[0, 1, 2], help="such as 0,1,2")
    parser.add_argument(
        "--work", type=Path, default=Path("build/language"), help="folder of bases, runs, results"
    )
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    parser.add_argument("--sentences", type=int, default=None, help="number of sentences")
    parser.add_argument("--texts", type=int, default=10_000, help="number of old texts")
    parser.add_argument(
        "--vocabulary", action="store_true", help="only what is added, and what stays the same"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of speaking")


def _seeds(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains and listens to what is missing in --work; the figures of all."""
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    plan = write_bases(work)
    facts = kept_facts(plan, work, arguments.texts)
    if arguments.vocabulary:
        return {"vocabulary": facts}
    lines = evaluation.sentences("reporting")[: arguments.sentences]
    results = work / "heard.jsonl"
    for wanted in _wanted(arguments.ways, arguments.seeds):
        if wanted in [one.key for one in read_heard(results)]:
            continue
        way, seed, *_ = wanted
        if way != "base":
            train(work, way, seed)
        told = listened(work, *wanted, lines, arguments.threads)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(told)) + "\n")
    heard = [one for one in read_heard(results) if one.way == "base" or one.seed in arguments.seeds]
    return figures(heard, arguments.seeds, len(lines)) | {"vocabulary": facts}


def _wanted(ways: Sequence[str], seeds: Sequence[int]) -> Iterator[Key]:
    """Everything that is listened to."""
    yield "base", 0, 1.0, ENGLISH
    for seed, way, share in itertools.product(seeds, ways, SHARES):
        for language in (ENGLISH,) if way == "english" else (CIPHER, ENGLISH):
            yield way, seed, share, language


def read_heard(results: Path) -> list[Heard]:
    """All results so far, without a last line that was cut off."""
    if not results.exists():
        return []
    lines = results.read_text(encoding="utf-8").split("\n")[:-1]
    return [Heard(**json.loads(line)) for line in lines]


# ---- the cipher, its clips and its bases ----


def ciphered(phones: str) -> str:
    """Phones, as the embedded voice's tokenizer writes them, in letters of the cipher."""
    return "".join(LETTERS.get(one, one) for one in phones)


def write_dataset(folder: Path) -> None:
    """The demo clips with their texts in the cipher; the recordings are linked."""
    if (folder / "metadata.csv").is_file():
        return
    tokenizer = Tokenizer(ModelConfig.read(DEMO), DEMO)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wavs").symlink_to((DATASET / "wavs").resolve())
    rows = read_entries(DATASET, "auto", ENGLISH)
    lines = [f"{row.path.stem}|{ciphered(tokenizer.normalised(row.text, ENGLISH))}" for row in rows]
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_bases(work: Path) -> ExtensionPlan:
    """`extended` as `train extend` makes it, and `usual` with new rows of unit variance; how the
    base was extended."""
    write_dataset(work / "cipher")
    settings = TrainSettings(dataset_dir=work / "cipher", language=CIPHER)
    plan = plan_of(settings, DEMO, most_pieces=0)
    extended, usual = work / "extended", work / "usual"
    if not extended.exists():
        extending.write(plan, extended)
    if not usual.exists():
        extending.write(plan, usual)
        state = read_tensors(usual / "model.pth")
        first, count = plan.extension.first_id, plan.extension.num_ids
        draw = torch.Generator().manual_seed(0)
        for name in TABLES:
            rows = state[name][first : first + count]
            rows.copy_(torch.randn(rows.shape, generator=draw))
        # What is read is mapped from the file that is replaced.
        replace_file(usual / "model.pth", lambda file: torch.save({"model": state}, file))
    return plan


def kept_facts(plan: ExtensionPlan, work: Path, count: int) -> dict[str, Any]:
    """`vocabulary_facts`, computed once for a --work."""
    path = work / "vocabulary.json"
    if not path.is_file():
        write_json(path, vocabulary_facts(plan, work / "extended", count))
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts


def vocabulary_facts(plan: ExtensionPlan, extended: Path, count: int) -> dict[str, Any]:
    """What was added, how many cipher texts have an unknown piece, how many of `count` English
    texts have other ids than before, and whether their logits are the same to the bit."""
    old, new = (Tokenizer(ModelConfig.read(one), one) for one in (DEMO, extended))
    others = sum(
        old.encode(text, ENGLISH) != new.encode(text, ENGLISH) for text in old_texts(count)
    )
    return {
        "new_ids": plan.extension.num_ids,
        "texts": len(plan.texts),
        "texts_with_unknown": sum(bool(new.unknown(text, CIPHER)) for text in plan.texts),
        "old_texts": count,
        "old_texts_with_other_ids": others,
        "old_logits_bit_equal": same_logits(old, extended),
    }


def old_texts(count: int) -> Iterator[str]:
    """English texts of random words of the demo clips, the same every time."""
    draw = random.Random(0)
    words = [word for row in read_entries(DATASET, "auto", ENGLISH) for word in row.text.split()]
    return (" ".join(draw.choices(words, k=draw.randint(1, 12))) for _ in range(count))


def same_logits(old: Tokenizer, extended: Path) -> bool:
    """Whether 20 English texts have the same logits of codes and of old text ids, to the bit."""
    configs = [ModelConfig.read(one) for one in (DEMO, extended)]
    gpts = [
        load_gpt(read_tensors(folder / "model.pth"), config).eval()
        for folder, config in zip((DEMO, extended), configs, strict=True)
    ]
    shape = configs[0].gpt
    latents = torch.randn(1, 32, shape.width, generator=torch.Generator().manual_seed(0))
    for text in old_texts(20):
        ids = torch.tensor(old.encode(text, ENGLISH))
        with torch.no_grad():
            seen = [gpt.final_norm(gpt.gpt(gpt.prefix(latents, ids))) for gpt in gpts]
            pairs = [
                [gpt.mel_head(one) for gpt, one in zip(gpts, seen, strict=True)],
                [gpt.text_head(one)[..., : shape.text_ids]
                 for gpt, one in zip(gpts, seen, strict=True)],
            ]  # fmt: skip
        if not all(torch.equal(*pair) for pair in pairs):
            return False
    return True


# ---- runs and what they say ----


def train(work: Path, way: str, seed: int) -> None:
    """A default run of one way, to its end. Raises ChildFailed."""
    folder = work / f"{way}_{seed}"
    settings: dict[str, Any] = {"seed": seed, "output_dir": folder, **SETTINGS}
    if way == "english":
        settings |= {"dataset_dir": DATASET}
    else:
        settings |= {"dataset_dir": work / "cipher", "language": CIPHER, "base_model": work / way}
    if way == "usual":
        settings |= USUAL
    measuring.train_once(folder / "done", work / f"{way}_{seed}.log", work, **settings)


def listened(
    work: Path,
    way: str,
    seed: int,
    share: float,
    language: str,
    lines: Sequence[str],
    threads: int,
) -> Heard:
    """Lets the last epoch of a run, or the base, speak the sentences, and recognises them."""
    base = DEMO if way in ("base", "english") else work / way
    run = RunFolder(work / f"{way}_{seed}")
    weights = None if way == "base" else run.checkpoint_path(run.epochs()[-1])
    compute = ComputeConfig(threads=threads)
    compute.apply()
    speaker = FileSpeaker(base, compute)
    tokenizer = Tokenizer(ModelConfig.read(DEMO), DEMO)
    spoken = [
        line if language == ENGLISH else ciphered(tokenizer.normalised(line, ENGLISH))
        for line in lines
    ]
    with tempfile.TemporaryDirectory() as name:
        wavs = [Path(name) / f"{number}.wav" for number in range(len(lines))]
        tasks = tuple(
            SentenceTask(SynthesisRequest(text, language, number), out=wav)
            for number, (text, wav) in enumerate(zip(spoken, wavs, strict=True))
        )
        said = speaker.ask(EvaluateRequest(tasks, reference(), weights, share, RATE))
        heard = [judges.words_heard(audio.read(wav, audio.SPEAKER_RATE)) for wav in wavs]
    counted = [judges.counted_errors(*pair) for pair in zip(lines, heard, strict=True)]
    errors, words = (list(column) for column in zip(*counted, strict=True))
    unfinished = sum(not one.finished for one in said.sentences)
    return Heard(way, seed, share, language, errors, words, unfinished)


def reference() -> Path:
    """The recording by which everything is spoken: the demo's first clip."""
    return read_entries(DATASET, "auto", ENGLISH)[0].path


# ---- figures ----


def figures(heard: Sequence[Heard], seeds: Sequence[int], sentences: int) -> dict[str, Any]:
    """Word errors of each way and language, over the seeds; how far the cipher is behind English by
    the same kind of run, and the English that is left behind the base's."""
    found = {
        name: _over_seeds([one for one in heard if _name(one) == name])
        for name in dict.fromkeys(map(_name, heard))
    }

    def gap(one: str, other: str) -> float | None:
        if one not in found or other not in found:
            return None
        return round(found[one]["word_errors"]["mean"] - found[other]["word_errors"]["mean"], 4)

    return {
        "guard": "off",
        "sentences": sentences,
        "seeds": list(seeds),
        "ways": found,
        "points": {
            f"{way} at {share:.0%}": {
                "cipher_behind_english": gap(
                    f"{way} at {share:.0%}, cipher", f"english at {share:.0%}, English"
                ),
                "english_lost": gap(f"{way} at {share:.0%}, English", "base, English"),
            }
            for way, share in itertools.product(WAYS[1:], SHARES)
        },
    }


def _name(one: Heard) -> str:
    of = "base" if one.way == "base" else f"{one.way} at {one.share:.0%}"
    return f"{of}, {'cipher' if one.language == CIPHER else 'English'}"


def _over_seeds(rows: Sequence[Heard]) -> dict[str, Any]:
    values = [one.word_errors for one in rows]
    return {
        "word_errors": {
            "mean": round(statistics.fmean(values), 4),
            "spread": round(statistics.pstdev(values), 4),
        },
        "unfinished": sum(one.unfinished for one in rows),
        "runs": len(rows),
    }


def report(found: Mapping[str, Any]) -> str:
    """The figures as tables."""
    return tables.text(found)
