"""What a reader reads: everything where codes say the phones, nothing where they say nothing."""

import json

import pytest
import torch

from benchmarks import phones
from demo_voice.teachers import phone_timing
from demo_voice.text import lexicon

PHONES = 5


def clips(told: bool) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Sixty clips of 20 codes; a code's latent holds both of its phones, or noise."""
    drawn = torch.Generator().manual_seed(0)
    found = []
    for _ in range(60):
        said = torch.randint(PHONES, (20, 2), generator=drawn)
        latents = torch.nn.functional.one_hot(said, PHONES).flatten(1).float()
        if not told:
            latents = torch.randn(latents.shape, generator=drawn)
        found.append((latents, said.flatten()))
    return found


def test_what_the_codes_say_is_read_and_what_they_do_not_say_is_not() -> None:
    accuracy, nats = phones.taught(clips(told=True))
    assert accuracy > 0.98 and nats < 0.3
    accuracy, nats = phones.taught(clips(told=False))
    assert 0.1 < accuracy < 0.3 and nats > 1.4


def test_what_is_not_known_is_not_asked() -> None:
    known = clips(told=True)
    unknown = [(one, said.clone()) for one, said in known]
    for _, said in unknown:
        said[::2] = phone_timing.UNKNOWN
    assert phones.taught(unknown)[0] > 0.98


def test_the_drawing_of_others_is_left_alone() -> None:
    state = torch.get_rng_state()
    phones.taught(clips(told=True)[:12])
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.slow
@pytest.mark.skipif(not lexicon.WORDNET.exists(), reason="apt-get install wordnet-base flite")
def test_the_embedded_codec_says_more_of_a_voice_that_it_knows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert phones.main(["--sentences", "60", "--voices", "rms,awb", "--json"]) == 0
    rms, awb = json.loads(capsys.readouterr().out)
    assert rms["accuracy"] > 0.75 and rms["accuracy"] > awb["accuracy"] > 0.4
