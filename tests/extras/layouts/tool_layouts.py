"""Datasets in other tools' layouts, as those tools write them, with the expected rows.

Sources, read 2026-11: rhasspy/piper TRAINING.md and piper_train/preprocess.py; OHF-Voice/piper1-gpl
docs/TRAINING.md; jaywalnut310/vits filelists/; myshell-ai/MeloTTS docs/training.md and
melo/preprocess_text.py; RVC-Boss/GPT-SoVITS tools/asr/fasterwhisper_asr.py;
daswer123/xtts-finetune-webui utils/formatter.py; erew123/alltalk_tts finetune.py; NVIDIA NeMo's
manifests; Hugging Face's AudioFolder; LibriTTS; fishaudio/fish-speech docs; LibriSpeech.
"""

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile

from tests.datasets import a_sound

TEXTS = (
    "The birch canoe slid on the smooth planks.",
    "Glue the sheet to the dark blue background.",
    "It's easy to tell the depth of a well.",
    "These days a chicken leg is a rare dish.",
    "Rice is often served in round bowls.",
    "The juice of lemons makes fine punch.",
)
Expected = list[tuple[str, str, str, str, bool | None]]


@dataclass(frozen=True)
class Layout:
    """A tool's layout. write: creates such a dataset in a folder and returns its rows."""

    name: str
    write: Callable[[Path], Expected]


def sounds(folder: Path, names: Iterable[str], seconds: float = 1.0) -> None:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, a_sound(seconds + number / 50, 16_000, seed=number), 16_000)


def lines(folder: Path, name: str, rows: Iterable[str]) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")


def by_pandas(folder: Path, name: str, rows: Sequence[Sequence[str]]) -> None:
    """Writes as `DataFrame.to_csv(sep="|", index=False)` does."""
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="|", lineterminator="\n").writerows(rows)


def piper(folder: Path) -> Expected:
    people = ("kathleen", "ben", "kathleen", "ben", "kathleen", "ben")
    sounds(folder, (f"wav/{number}.wav" for number in range(6)))
    lines(folder, "metadata.csv", (f"{n}|{people[n]}|{TEXTS[n]}" for n in range(6)))
    return [(f"{n}", TEXTS[n], people[n], "en", None) for n in range(6)]


def piper1(folder: Path) -> Expected:
    sounds(folder, (f"wavs/utt{number}.wav" for number in range(6)))
    lines(folder, "metadata.csv", (f"utt{n}.wav|{TEXTS[n]}" for n in range(6)))
    return [(f"utt{n}.wav", TEXTS[n], "speaker", "en", None) for n in range(6)]


def vits(folder: Path) -> Expected:
    """`DUMMY2` is the link from VITS's README; people move the files instead."""
    names = [f"p36{n % 2}/p36{n % 2}_{n:03}.wav" for n in range(6)]
    sounds(folder, (f"wavs/{name}" for name in names))
    for part, some in (("train", range(4)), ("val", range(4, 6))):
        rows = (f"DUMMY2/{names[n]}|{n % 2}|{TEXTS[n]}" for n in some)
        lines(folder, f"filelists/vctk_audio_sid_text_{part}_filelist.txt", rows)
    return [(f"filelists/{names[n]}", TEXTS[n], str(n % 2), "en", n >= 4) for n in range(6)]


def melotts(folder: Path) -> Expected:
    sounds(folder, (f"wavs/{number:03}.wav" for number in range(6)))
    people = ("EN-default", "EN-US")
    rows = [f"wavs/{n:03}.wav |{people[n % 2]}|EN|{TEXTS[n]}" for n in range(6)]
    lines(folder, "metadata.list", rows)
    lines(folder, "config.json", ["{", ' "data": {"training_files": "train.list"}', "}"])
    return [(f"wavs/{n:03}.wav", TEXTS[n], people[n % 2], "en", None) for n in range(6)]


def melotts_cleaned(folder: Path) -> Expected:
    """The output of `preprocess_text.py` without metadata.list."""
    sounds(folder, (f"wavs/{number:03}.wav" for number in range(6)))
    for part, some in (("train", range(4)), ("val", range(4, 6))):
        lines(
            folder,
            f"{part}.list",
            (
                f"wavs/{n:03}.wav|ann|EN|{TEXTS[n].lower()}|_ dh ax b er ch _|0 0 1 0 2 0 0|1 2 3 1"
                for n in some
            ),
        )
    return [(f"wavs/{n:03}.wav", TEXTS[n].lower(), "ann", "en", n >= 4) for n in range(6)]


def gpt_sovits(folder: Path) -> Expected:
    """`output/` of GPT-SoVITS: the clips and the list written by its recogniser."""
    names = [f"vocal.wav_{n:010}_{n + 1:010}.wav" for n in range(6)]
    sounds(folder, (f"slicer_opt/{name}" for name in names))
    rows = (f"D:\\GPT-SoVITS\\output\\slicer_opt\\{names[n]}|slicer_opt|EN|{TEXTS[n]}" for n in range(6))
    lines(folder, "asr_opt/slicer_opt.list", rows)
    return [(f"asr_opt/slicer_opt/{names[n]}", TEXTS[n], "slicer_opt", "en", None) for n in range(6)]


def xtts_webui(folder: Path) -> Expected:
    """Older versions keep some validation clips among the training clips."""
    names = [f"wavs/ann_{n:08}.wav" for n in range(6)]
    sounds(folder, names)
    head = ("audio_file", "text", "speaker_name")
    texts = [f'{TEXTS[0]} "Really?"', *TEXTS[1:]]
    rows = [(names[n], texts[n], "coqui") for n in range(6)]
    by_pandas(folder, "metadata_train.csv", [head, *rows[:5]])
    by_pandas(folder, "metadata_eval.csv", [head, *rows[4:]])
    (folder / "lang.txt").write_text("en")
    return [(names[n], texts[n], "coqui", "en", n >= 4) for n in range(6)]


def nemo(folder: Path) -> Expected:
    sounds(folder, (f"audio/{number}.wav" for number in range(6)))
    for part, some in (("train", range(4)), ("val", range(4, 6))):
        lines(
            folder,
            f"{part}_manifest.json",
            (
                json.dumps(
                    {
                        "audio_filepath": f"/data/corpus/audio/{n}.wav",
                        "duration": 1.0,
                        "text": TEXTS[n],
                        "normalized_text": TEXTS[n].lower(),
                        "speaker": n % 2,
                    }
                )
                for n in some
            ),
        )
    return [(f"audio/{n}.wav", TEXTS[n].lower(), str(n % 2), "en", n >= 4) for n in range(6)]


def hugging_face(folder: Path) -> Expected:
    sounds(folder, (f"data/{number}.wav" for number in range(6)))
    lines(
        folder,
        "metadata.jsonl",
        (json.dumps({"file_name": f"data/{n}.wav", "transcription": TEXTS[n]}) for n in range(6)),
    )
    return [(f"data/{n}.wav", TEXTS[n], "speaker", "en", None) for n in range(6)]


def hugging_face_splits(folder: Path) -> Expected:
    for part, some in (("train", range(4)), ("validation", range(4, 6))):
        sounds(folder, (f"{part}/{number}.wav" for number in some))
        lines(
            folder,
            f"{part}/metadata.csv",
            ("file_name,transcription", *(f'{n}.wav,"{TEXTS[n]}"' for n in some)),
        )
    parts = ["train"] * 4 + ["validation"] * 2
    return [(f"{parts[n]}/{n}.wav", TEXTS[n], "speaker", "en", n >= 4) for n in range(6)]


def libritts(folder: Path) -> Expected:
    names = [f"{84 + n % 2}/1211/{84 + n % 2}_1211_{n:06}_000000" for n in range(6)]
    sounds(folder, (f"{name}.wav" for name in names))
    for name, text in zip(names, TEXTS, strict=True):
        lines(folder, f"{name}.original.txt", [f"{text} No. 9"])
        lines(folder, f"{name}.normalized.txt", [text])
    lines(folder, "84/1211/84_1211.trans.tsv", ["84_1211_000000_000000\tNo. 9\tnumber nine"])
    return sorted(
        (f"{name}.wav", text, name[:2], "en", None) for name, text in zip(names, TEXTS, strict=True)
    )


def librispeech(folder: Path) -> Expected:
    names = [f"{84 + n % 2}/1211/{84 + n % 2}-1211-{n:04}" for n in range(6)]
    sounds(folder, (f"{name}.flac" for name in names))
    for speaker in ("84", "85"):
        lines(
            folder,
            f"{speaker}/1211/{speaker}-1211.trans.txt",
            (
                f"{Path(name).name} {text.upper()}"
                for name, text in zip(names, TEXTS, strict=True)
                if name.startswith(speaker)
            ),
        )
    return sorted((name, text.upper(), name[:2], "en", None) for name, text in zip(names, TEXTS, strict=True))


def fish_speech(folder: Path) -> Expected:
    names = [f"SPK1/{n}.{n}-{n + 1}.0.mp3" for n in range(6)]
    sounds(folder, names)
    for name, text in zip(names, TEXTS, strict=True):
        lines(folder, f"{name[:-4]}.lab", [text])
    return [(name, text, "speaker", "en", None) for name, text in zip(names, TEXTS, strict=True)]


ALL = [
    Layout("Piper (several speakers)", piper),
    Layout("Piper 1", piper1),
    Layout("VITS (numbered speakers)", vits),
    Layout("MeloTTS", melotts),
    Layout("MeloTTS, prepared", melotts_cleaned),
    Layout("GPT-SoVITS", gpt_sovits),
    Layout("xtts-finetune-webui, AllTalk, Coqui's demo", xtts_webui),
    Layout("NeMo", nemo),
    Layout("Hugging Face, metadata.jsonl", hugging_face),
    Layout("Hugging Face, folders of splits", hugging_face_splits),
    Layout("LibriTTS", libritts),
    Layout("LibriSpeech", librispeech),
    Layout("Fish Speech", fish_speech),
]
