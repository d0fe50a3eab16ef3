"""Rehearsal of the old languages: clips of the dataset, or sentences that the base speaks."""

from dataclasses import replace

import pytest

from extras.languages.extension import write
from extras.languages.extension_plan import plan_of
from extras.languages.rehearsal import FOLDER, real_share, rehearsal_of, sentences
from tests.datasets import make_dataset
from tests.extras.languages.languages import GREEK, make_greek
from tests.models import ending_base
from train.distributed import World
from train.evaluation.plan import built_in_sentences
from train.run_context import build_context
from train.settings import TrainSettings
from train.setup import build_batches


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Greek clips for a base with Greek added."""
    folder = tmp_path_factory.mktemp("rehearsal")
    base = ending_base(folder / "base")
    clips = make_greek(folder / "greek", GREEK * 3)
    learning = TrainSettings(
        dataset_dir=clips,
        language="el",
        cache_dir=folder / "cache",
        device="cpu",
        base_model=str(folder / "base-el"),
    )
    write(plan_of(learning, base), folder / "base-el")
    return learning


@pytest.mark.slow
def test_the_base_speaks_its_languages_once_and_a_later_start_what_is_missing(settings, tmp_path):
    settings = replace(settings, output_dir=tmp_path / "out", rehearsal=0.5)
    context = build_context(settings)
    found = rehearsal_of(settings, context, speaks=True)
    spoken = [found.clips[index] for index in found.drawn]
    assert {clip.language for clip in spoken} == {"en", "pt"}
    assert {clip.speaker for clip in spoken} == {"base as speaker"}
    assert found.always == context.data.train and found.share == 0.5
    few = replace(found, drawn=found.drawn[:1])
    assert 0 < real_share(few) < real_share(found) <= 0.5
    listed = settings.output_dir / FOLDER / "metadata.csv"
    rows = listed.read_text().splitlines()
    # The last row is missing, as after a kill.
    listed.write_text("\n".join(rows[:-1]) + "\n")
    before = {path: path.stat().st_mtime_ns for path in listed.parent.glob("*.wav")}
    assert rehearsal_of(settings, build_context(settings), speaks=True).clips == found.clips
    last = listed.parent / rows[-1].partition("|")[0]
    listed_paths = {listed.parent / row.partition("|")[0] for row in rows[1:-1]}
    assert all(path.stat().st_mtime_ns == before[path] for path in listed_paths)
    assert last.stat().st_mtime_ns > before[last]
    # Another process of the run only reads.
    assert rehearsal_of(settings, context, speaks=False).clips == found.clips


def test_nothing_is_spoken_for_a_dataset_with_clips_of_old_languages(settings, tmp_path):
    english = make_dataset(tmp_path / "both", clips=24)
    rows = (english / "metadata.csv").read_text().splitlines()
    mixed = [
        f"{row.split('|')[0]}.wav|{text}|speaker|el" for row, text in zip(rows[:16], GREEK * 2, strict=True)
    ]
    mixed += [f"{row.split('|')[0]}.wav|{row.split('|')[1]}|speaker|en" for row in rows[16:]]
    (english / "metadata.csv").write_text("\n".join(mixed) + "\n", encoding="utf-8")
    settings = replace(settings, dataset_dir=english, output_dir=tmp_path / "out")
    context = build_context(settings)
    assert rehearsal_of(settings, context, speaks=True).drawn == ()
    drawn = rehearsal_of(replace(settings, rehearsal=0.3), context, speaks=True)
    assert {context.data.clips[index].language for index in drawn.drawn} == {"en"}
    assert {context.data.clips[index].language for index in drawn.always} == {"el"}
    mixed_in = replace(settings, rehearsal=0.3, batch_seconds=10)
    batches, _ = build_batches(mixed_in, context, None, World())
    planned = [context.data.clips[index] for group in batches.plan(1) for index in group]
    english = sum(clip.seconds for clip in planned if clip.language == "en")
    # Enough clips to reach the share, including the last one.
    assert 0.3 <= english / sum(clip.seconds for clip in planned) < 0.4
    assert not (tmp_path / "out").exists()


def test_nothing_is_rehearsed_without_an_added_language_or_with_off(settings, tmp_path):
    off = replace(settings, rehearsal="off", output_dir=tmp_path / "out")
    context = build_context(off)
    assert rehearsal_of(off, context, speaks=True).drawn == ()
    english = make_dataset(tmp_path / "english")
    plain = replace(settings, dataset_dir=english, language="en", output_dir=tmp_path / "out")
    assert rehearsal_of(plain, build_context(plain), speaks=True).drawn == ()
    # The base is an export of a run that has learned the language.
    learned = [replace(extension, learned=True) for extension in context.config.extensions]
    extended = replace(context, config=replace(context.config, extensions=tuple(learned)))
    on = replace(off, rehearsal="auto")
    assert rehearsal_of(on, extended, speaks=True).drawn == ()
    assert not (tmp_path / "out").exists()


def test_texts_join_halves_of_sentences_that_an_evaluation_speaks_whole():
    for language in ("en", "zh-cn"):
        texts = sentences(language, seed=0)
        assert len(texts) == len(built_in_sentences(language)) * (len(built_in_sentences(language)) - 1)
        assert not set(texts) & set(built_in_sentences(language))
        assert texts == sentences(language, seed=0) != sentences(language, seed=1)
    assert "  " not in "".join(sentences("en", 0)[:50])
    assert sentences("el", seed=0) == []
