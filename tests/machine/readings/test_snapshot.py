"""What a reading says of itself beyond what was read."""

from dataclasses import fields

from machine.readings.snapshot import AMD, NVIDIA, Graphics, GraphicsCard, Machine, Nodes


def test_only_numbered_nodes_are_gpus() -> None:
    nodes = Nodes(("dxg", "nvidia-uvm", "nvidia0", "nvidia10", "nvidiactl"))
    assert nodes.gpus == ("nvidia0", "nvidia10")


def test_only_nvidias_cards_are_those_that_cuda_could_use() -> None:
    card = GraphicsCard("0000:01:00.0", NVIDIA)
    assert Graphics((GraphicsCard("0000:05:00.0", AMD), card)).nvidia == (card,)


def test_a_machine_of_which_nothing_was_read_has_no_reading() -> None:
    unread = {one.name for one in fields(Machine) if getattr(Machine(), one.name) is None}
    assert unread == {one.name for one in fields(Machine)} - {"spoken", "troubles", "seconds"}
