"""A shortened `make demo-voice`: every stage, from clips to a folder that speaks."""

import hashlib
import itertools
import json

import numpy as np
import pytest
import torch

from demo_voice import carrying, codec, listener, packaging, pretraining, speaking, speech, vocoder
from demo_voice.__main__ import FILES, LEARNING_STAGES, Making
from demo_voice.recipe import CHARACTERS, SHORT
from demo_voice.speech import Mels, Speech
from demo_voice.stages import StageContext
from demo_voice.teachers.hibari import PHONES_PER_CODE, PITCHES_PER_CODE, RATE, Spoken, draw_person
from demo_voice.text import lexicon
from demo_voice.text import sentences as text
from demo_voice.text.sentences import Grammar
from machine.errors import SotaqueError
from tests.demo_voice.few_words import FEW_WORDS
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.inference import speech as speaks
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.inference.voice import voice_from_reference
from xtts.model.discriminators import read_discriminators
from xtts.model.loading import load_dvae, load_model
from xtts.voices.base_models import DEMO


def hum(said: str, pitch: float) -> Spoken:
    """A teacher for machines without hibari: a hum."""
    seconds = 1.5 + 0.02 * len(said)
    time = np.arange(int(seconds * RATE)) / RATE
    wave = sum(np.sin(2 * np.pi * pitch * n * time) / n for n in range(1, 9))
    sound = (wave * np.sin(7 * time) * 3000).astype(np.int16)
    codes = -(-len(sound) * CODE_RATE // (RATE * SAMPLES_PER_CODE))
    pitches = np.full((codes, PITCHES_PER_CODE), np.log2(pitch), np.float16)
    return Spoken(sound, pitches, np.full((codes, PHONES_PER_CODE), 7, np.uint8))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Making:
    """A voice from the shortened recipe: one step per stage."""
    folder = tmp_path_factory.mktemp("making")
    making = Making(SHORT, folder / "work", folder / "demo", torch.device("cpu"), 1e-4, 1)
    (making.work / "speech").mkdir(parents=True)
    lines = list(itertools.islice(text.sentences(Grammar(FEW_WORDS, "a"), set()), 40))
    names = [f"hibari{index % 4}" for index in range(40)]
    clips = [hum(line, 100.0 + 20 * (n % 4)) for n, line in enumerate(lines)]
    speech.write_shard(
        making.work / "speech" / "shard_00000.npz", clips, list(zip(lines, names, strict=True))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speaking, "speak_reference", lambda: clips[0].wave)
        making.run((*LEARNING_STAGES, "package"))
    return making


def read(made: Making) -> Speech:
    """The clips of that voice."""
    return Speech(made.work / "speech", torch.device("cpu"), 320)


@pytest.mark.slow
def test_the_folder_speaks(made):
    model = load_model(made.to)
    assert model.config.weights == "trained"
    assert model.config.text_frontend == "cmu_phones"
    assert model.config.piece_tokens == SHORT.piece_tokens
    voice = voice_from_reference(model, torch.from_numpy(hum("x", 120).wave / np.float32(32768)))
    request = SynthesisRequest("Hello there.", "en")
    assert len(speaks.synthesize(TorchBackend(model), voice, request)) > 0


@pytest.mark.slow
def test_the_discriminators_come_with_it(made):
    learned = torch.load(made.work / "vocoder.pt", weights_only=True)["critics"]
    packed = read_discriminators(made.to)
    assert packed is not None and packed.channels == SHORT.critics
    for name, tensor in packed.state_dict().items():
        assert torch.equal(tensor, learned[name].half().float())


def test_the_embedded_voice_names_the_heads_that_packing_would(tmp_path):
    for file in DEMO.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    named = content["sotaque"].pop("alignment_heads")
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    packaging.write_alignment_heads(tmp_path)
    found = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert sorted(found["sotaque"].pop("alignment_heads")) == sorted(named)
    assert found == content


def test_the_card_has_the_hashes_of_the_files():
    card = (DEMO / "CARD.md").read_text(encoding="utf-8")
    for name in FILES:
        digest = hashlib.sha256((DEMO / name).read_bytes()).hexdigest()
        assert f"| {name} | `{digest}` |" in card


@pytest.mark.slow
def test_the_learned_weights_are_those_packed(made):
    learned = torch.load(made.work / "pretraining.pt", weights_only=True)["pupil"]
    packed = load_model(made.to).gpt.text_embedding.weight
    torch.testing.assert_close(packed, learned["gpt.text_embedding.weight"].half().float())


@pytest.mark.slow
def test_ids_are_the_tokenizer_s(made):
    tokenizer = load_model(made.to).tokenizer
    for clip in read(made).clips:
        assert tokenizer.encode(clip.text, "en") == speech.token_ids(clip.text)
    assert made.recipe.gpt.text_ids == len(CHARACTERS)


@pytest.mark.slow
def test_codes_are_those_of_the_packed_codec_for_each_clip_alone(made):
    """In a batch, a clip's last codes must not depend on the next clip."""
    clips = read(made)
    dvae, stats = codec.load(made._context("codec"))
    packed = load_dvae(made.to, load_model(made.to).config)
    mels = Mels(clips, stats)
    together = codec.encode(dvae, mels)
    agree = []
    for index in (0, 17, 39):
        first, count = int(clips.code_starts[index]), int(clips.num_codes[index])
        own = mels.codec[4 * first : 4 * (first + count)].float().T[None]
        alone = packed.get_codebook_indices(own)[0]
        agree.append((together[first : first + count] == alone[:count]).float().mean())
    assert min(agree) > 0.9


@pytest.mark.slow
def test_carried_weights_speak_alike_and_go_on(made, tmp_path):
    carrying.pack(made.work, tmp_path / "there")
    parts = sorted((tmp_path / "there").iterdir())
    assert parts and all(part.stat().st_size <= carrying.PART_BYTES for part in parts)
    carrying.unpack(tmp_path / "there")
    for name in ("codec", "listener", "pretraining", "vocoder"):
        before = torch.load(made.work / f"{name}.pt", weights_only=True)
        after = torch.load(tmp_path / "there" / f"{name}.pt", weights_only=True)
        assert (after["step"], after["seconds"]) == (before["step"], before["seconds"])
        assert not set(carrying.LEFT_OUT) & set(after)
        for key in set(after) - {"step", "seconds"}:
            for weight, tensor in after[key].items():
                torch.testing.assert_close(tensor, before[key][weight], atol=1e-3, rtol=1e-3)
    with pytest.raises(SotaqueError, match=r"carried\.0"):
        carrying.unpack(tmp_path)


@pytest.mark.slow
def test_a_finished_stage_takes_one_more_step_and_keeps_its_weights(made):
    before = torch.load(made.work / "listener.pt", weights_only=True)
    made.run(["listener"])
    after = torch.load(made.work / "listener.pt", weights_only=True)
    assert after["step"] == before["step"] + 1
    weights = after["encoder"]["net.fc.weight"], before["encoder"]["net.fc.weight"]
    assert 0 < float((weights[0] - weights[1]).abs().max()) < 0.01


def test_a_stage_names_the_earlier_one_that_is_missing(tmp_path):
    context = StageContext(SHORT, tmp_path, torch.device("cpu"), 0.0)
    for part in (codec, listener, pretraining, vocoder):
        stage = part.__name__.rpartition(".")[2]
        with pytest.raises(SotaqueError, match=f"{stage}.pt is missing. Run the stage {stage} first"):
            part.load(context)


def test_sentences_differ_and_leave_out_the_judged():
    def drawn(unseen: set[str]) -> list[str]:
        return list(itertools.islice(text.sentences(Grammar(FEW_WORDS, "a"), unseen), 50))

    first = drawn(set())
    again = drawn({text.plain(first[3])})
    assert len({text.plain(line) for line in first}) == 50
    assert text.plain(first[3]) not in {text.plain(line) for line in again}
    assert drawn(set()) == first


def test_words_are_inflected_and_without_wordnet_its_package_is_named(tmp_path):
    forms = [text.past(verb, FEW_WORDS) for verb in ("see", "carry", "open", "close")]
    assert forms == ["saw", "carried", "opened", "closed"]
    with pytest.raises(SotaqueError, match="wordnet-base"):
        lexicon.read(tmp_path)


def test_no_person_is_hibari_unchanged_and_every_third_is_as_low_as_a_man():
    for number in range(SHORT.persons * 50):
        who = draw_person(number)
        assert abs(np.log(who.joint)) + abs(np.log(who.pitch)) > 0.04
        assert draw_person(number) == who
        assert (who.joint * who.pitch < 0.85) >= (number % 3 == 2)


@pytest.mark.slow
def test_a_batch_shares_references_among_clips_of_one_person(made):
    clips = read(made)
    lessons = pretraining.new_lessons(made._context("pretraining"), clips)
    rows = lessons.batch(3, 16)
    assert len(rows.references) == 2 and 8 <= len(rows.text) <= 16
    assert int(rows.reference_of.bincount().max()) <= 8
    assert torch.equal(rows.reference_of, rows.reference_of.sort().values)
    again = lessons.batch(3, 16)
    assert all(torch.equal(a, b) for a, b in zip(rows[:7], again[:7], strict=True))
    # The clips of each person have similar lengths: little padding.
    assert rows.code_lengths.float().mean() > 0.8 * rows.codes.shape[1]
    kept = {clips.clips[index].text for index in lessons.validation_clips.tolist()}
    taught = {clips.clips[index].text for some in lessons.clips_of for index in some.tolist()}
    assert kept and not kept & taught
