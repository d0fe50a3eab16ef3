"""The served voice of an evaluated run, and the reason for it."""

import pytest

from tests.api.conftest import running, settings_in
from tests.api.heard import refused
from tests.api.judged_run import PATIENT, preview, row, rows, served, write_judged_run
from tests.api.run_folders import (
    candidate,
    sha256_of_epoch,
    write_blend,
    write_epoch,
    write_evaluated,
    write_learned_decoder,
)
from xtts.voices.run_folder import RunFolder, manifest_beside
from xtts.voices.run_lock import lock


def test_without_voice_the_best_is_served_and_the_status_says_why(still):
    assert served(still) == {"run": "current", "epoch": 1, "candidate": "epoch_1"}
    status = still.status()
    assert status["voice"].startswith("epoch 1 ")
    assert status["voice_reason"] == "By the run's evaluation. It speaks best."
    assert still.client.get("/v1/runs").json()["follows"] == "best"


def test_a_new_verdict_is_followed_to_a_blend_and_to_the_base(service, output):
    write_blend(output, 2, 0.5)
    blend = candidate(output, "blend", 2, 0.5)
    write_evaluated(output, blend, candidate(output, "epoch", 2, 1.0), blend)
    name = "epoch_2_share_0.5"
    expected = {"run": "current", "epoch": 2, "candidate": name}
    service.wait_until(lambda: served(service) == expected, 10)
    assert row(service, name)["is_served"] and row(service, name)["is_best"]
    assert service.status()["voice"].startswith("epoch 2 at 50% (")
    base = candidate(output, "base")
    write_evaluated(output, base, candidate(output, "epoch", 2, 1.0))
    expected = {"run": "current", "epoch": 0, "candidate": "base"}
    service.wait_until(lambda: served(service) == expected, 10)
    opened = service.state.engine.served_voice.voice.spec
    assert opened["base_only"] and opened["reference"].endswith("epoch_2_reference.wav")
    key = service.state.engine.served_voice.key
    write_epoch(output, 3)  # another checkpoint of the same base: nothing is reopened
    service.wait_until(lambda: 3 in service.state.follower.runs["current"].epochs, 10)
    assert served(service) == expected and service.state.engine.served_voice.key == key
    write_learned_decoder(output, 0)  # for that base: it is reopened with the decoder
    service.wait_until(lambda: service.state.engine.served_voice.key != key, 10)
    assert served(service) == expected and service.state.engine.served_voice.voice.decoder


def test_a_decoder_that_is_learned_meanwhile_is_taken(service, output):
    """It appears at the end of a run; its weights may be served without it until then."""
    keys = [service.state.engine.served_voice.key]

    def another():
        return service.state.engine.served_voice.key not in keys

    for content in (b"one", b"another"):
        write_learned_decoder(output, 1, content=content)
        service.wait_until(another, 10)
        keys.append(service.state.engine.served_voice.key)
    assert served(service)["candidate"] == "epoch_1"
    write_learned_decoder(output, 2)  # for weights that are not served
    service.wait_until(another, 10)
    keys.append(service.state.engine.served_voice.key)
    write_learned_decoder(output, 2, content=b"new")
    write_epoch(output, 3)
    service.wait_until(lambda: 3 in service.state.follower.runs["current"].epochs, 10)
    assert not another() and service.state.engine.served_voice.voice.decoder == ""


def test_a_blend_that_is_another_one_than_the_verdicts_is_not_spoken_with(service, output):
    write_blend(output, 1, 0.5)  # as left by a kill between best.pt and evaluation.json
    blend = candidate(output, "blend", 2, 0.5)
    write_evaluated(output, blend, blend)
    service.wait_until(lambda: "train evaluate` writes it" in service.state.follower.served_reason, 10)
    assert "speaks instead" in service.state.follower.served_reason
    with lock(RunFolder(output)):
        reason = "epoch 2 at 50%, is written when the run ends. Epoch 2, which is part of that blend"
        service.wait_until(lambda: reason in service.state.follower.served_reason, 10)
    assert served(service)["candidate"] == "epoch_2"
    assert not row(service, "epoch_2_share_0.5")["can_speak"]
    assert refused(preview(service, "epoch_2_share_0.5", "hello")) == (409, "no_checkpoint")
    # Its epoch is served instead, not the newest.
    blend = candidate(output, "blend", 1, 0.7)
    write_evaluated(output, blend, blend)
    service.wait_until(lambda: served(service)["candidate"] == "epoch_1", 10)
    assert "blend" in service.state.follower.served_reason


@pytest.mark.parametrize(
    ("voice", "epoch", "reason"),
    [("latest", 2, "VOICE=latest: Epoch 2"), ("best", 1, "VOICE=best: By the run's evaluation.")],
)
def test_what_voice_says_goes_before(tmp_path, voice, epoch, reason):
    write_judged_run(tmp_path)
    with running(settings_in(tmp_path, voice=voice), limits=PATIENT) as service:
        assert served(service)["epoch"] == epoch
        assert service.status()["voice_reason"].startswith(reason)


def test_without_evaluation_the_lowest_loss_of_those_that_open_is_the_best(tmp_path):
    for epoch, loss in ((1, 2.5), (2, 1.5), (3, 3.5)):
        write_epoch(tmp_path / "output", epoch, loss=loss)
    with running(settings_in(tmp_path, voice="best"), limits=PATIENT) as service:
        assert served(service)["epoch"] == 2
        follower = service.state.follower
        follower._refused_names.add(follower.choose_target().name)
        assert follower.choose_target().reason.startswith("VOICE=best: Epoch 1 has the lowest")


def test_a_promoted_epoch_goes_before_the_best(service):
    service.client.post("/v1/runs/current/epochs/2/promote")
    assert service.status()["voice_reason"] == "Epoch 2 was promoted."
    answer = service.client.delete("/v1/promotion").json()
    assert answer["served"]["candidate"] == "epoch_1"


def test_a_promoted_epoch_keeps_its_learned_decoder_when_it_is_pruned(service, output):
    write_learned_decoder(output, 1)
    service.wait_until(lambda: service.state.engine.served_voice.voice.decoder != "", 10)
    learned = service.state.engine.served_voice.voice.decoder
    service.client.post("/v1/runs/current/epochs/1/promote")
    run = RunFolder(output)
    copy = service.state.settings.voices_dir / "promoted" / sha256_of_epoch(run, 1)
    assert RunFolder(copy).best_decoder.read_bytes() == run.best_decoder.read_bytes()
    for path in (run.checkpoint_path(1), run.best_decoder, manifest_beside(run.best_decoder)):
        path.unlink()

    def opened_from_what_was_kept():
        return str(service.state.engine.target.spec["name"]).startswith(str(copy))

    service.wait_until(opened_from_what_was_kept, 10)
    assert service.state.engine.target.decoder == learned


def test_a_blend_is_promoted_and_stays_when_the_run_has_it_no_more(service, output):
    """Like the best of a run that is not the current one, which nothing follows."""
    write_blend(output, 2, 0.5)
    blend = candidate(output, "blend", 2, 0.5)
    write_evaluated(output, candidate(output, "epoch", 1), blend)
    assert refused(promoting(service, "base")) == (409, "no_checkpoint")
    write_evaluated(output, blend, blend)
    name = "epoch_2_share_0.5"
    service.wait_until(lambda: any(row["id"] == name and row["can_speak"] for row in rows(service)), 10)
    answer = promoting(service, name).raise_for_status().json()
    assert answer["served"] == {"run": "current", "epoch": 2, "candidate": name}
    assert service.status()["voice_reason"] == "Epoch 2 at 50% was promoted."
    voice = service.status()["voice"]
    RunFolder(output).best_blend.unlink()
    copies = service.state.settings.voices_dir / "promoted"
    service.wait_until(lambda: str(service.state.engine.target.spec["name"]).startswith(str(copies)), 10)
    assert service.status()["voice"] == voice


def promoting(service, name):
    return service.client.post(f"/v1/runs/current/candidates/{name}/promote")
