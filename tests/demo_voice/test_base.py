"""Continuing from an earlier voice: its GPT, with further layers and for new codes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from demo_voice import codec, pretraining
from demo_voice.base import Base, count_pairs, translate_codes
from demo_voice.recipe import FULL
from demo_voice.speech import Mels, Speech, write_shard
from demo_voice.stages import StageContext
from demo_voice.teachers.recordings import Phrase, to_clip
from machine.errors import SotaqueError
from xtts.model.gpt import from_coqui
from xtts.model.loading import load_model, read_tensors
from xtts.voices.base_models import DEMO


def test_with_the_same_codes_it_computes_what_the_base_does():
    theirs = load_model(DEMO).gpt
    taller = replace(FULL, gpt=replace(FULL.gpt, layers=theirs.shape.layers + 2))
    base = Base(DEMO, taller)
    ours = base.gpt(1e6 * torch.eye(1024)).eval()
    torch.manual_seed(0)
    heard, text = torch.randn(1, 80, 90), torch.randint(3, 48, (12,))
    for one in (theirs, ours):
        one.requires_grad_(False)
    found = []
    for gpt in (theirs, ours):
        said = [gpt.audio_input(torch.tensor([code]), n) for n, code in enumerate((1024, 5, 900))]
        whole = torch.cat((gpt.prefix(gpt.conditioning_latents(heard), text), *said), 1)
        found.append(gpt.mel_head(gpt.final_norm(gpt.gpt(whole))))
    torch.testing.assert_close(found[1], found[0], atol=2e-3, rtol=2e-3)


def test_a_new_code_takes_the_mean_of_the_old_ones_and_its_share_of_their_probability():
    pairs = count_pairs(torch.tensor([0, 0, 1, 1, 1, 1]), torch.tensor([1, 1, 0, 0, 0, 2]), 3)
    assert pairs.tolist() == [[0, 2, 0], [3, 0, 1], [0, 0, 0]]
    names = ("mel_embedding.weight", "mel_head.weight")
    old = {name: torch.tensor([[0.0], [1.0], [8.0], [7.0]]) for name in names}
    old["mel_head.bias"] = torch.log(torch.tensor([3 / 6, 2 / 6, 1 / 6, 1.0]))
    state = dict(old)
    translate_codes(state, pairs)
    for name in names:
        # The last row is START's or STOP's; the third code was never heard.
        assert state[name].flatten().tolist() == pytest.approx([1.0, 2.0, 3.0, 7.0], abs=1e-4)
        assert old[name][1] == 1.0
    wanted = torch.log(torch.tensor([2 / 6, 4 / 6, 0.0, 1.0]))
    torch.testing.assert_close(state["mel_head.bias"][:2], wanted[:2], atol=1e-4, rtol=0)
    assert state["mel_head.bias"][2] < -10 and state["mel_head.bias"][3] == 0


def test_a_voice_of_another_size_is_refused():
    wide = replace(FULL, gpt=replace(FULL.gpt, width=512, heads=8))
    with pytest.raises(SotaqueError, match=r"another size than the recipe \(width, heads\)"):
        Base(DEMO, wide)
    flat = replace(FULL, gpt=replace(FULL.gpt, layers=3))
    with pytest.raises(SotaqueError, match=r"\(layers\)"):
        Base(DEMO, flat)


def test_training_starts_from_the_base_s_mels_and_rows_of_the_codes_heard(tmp_path):
    noise = np.random.default_rng(0).integers(-9000, 9000, (6, 24_000)).astype(np.int16)
    clips = [to_clip(Phrase("", "", torch.from_numpy(one / np.float32(32768)))) for one in noise]
    write_shard(tmp_path / "shard_00000.npz", clips, [("He ran.", "hibari1")] * len(clips))
    device = torch.device("cpu")
    context = StageContext(FULL, tmp_path, device, 0.0, Base(DEMO, FULL))
    speech = Speech(tmp_path, device, 320)
    mels = Mels(speech, context.base.mel_stats)
    codes = codec.encode(context.base.codec(), mels)
    lessons = pretraining.Lessons(speech, mels, codes, speech.names)
    ours = pretraining.first_gpt(context, lessons).mel_embedding.weight
    theirs = from_coqui(read_tensors(DEMO / "model.pth"))["mel_embedding.weight"].float()
    heard = codes.unique()
    assert len(heard) > 5
    torch.testing.assert_close(ours[heard], theirs[heard], atol=5e-3, rtol=0)
    random = pretraining.first_gpt(replace(context, base=None), lessons).mel_embedding.weight
    assert not torch.allclose(random[heard], theirs[heard], atol=5e-3)
    codec.learn(context, speech)
    assert torch.equal(codec.load(context)[1], context.base.mel_stats)
