"""What the child that imports torch reads."""

from machine.doctor.readings import torch_child


def test_libraries_are_read_from_a_memory_map() -> None:
    maps = (
        "7f00-7f01 r-xp 00000000 fe:00 12  /a b/nvidia/cu13/lib/libcufft.so.12\n"
        "7f01-7f02 r--p 00001000 fe:00 12  /a b/nvidia/cu13/lib/libcufft.so.12\n"
        "7f02-7f03 r-xp 00000000 fe:00 13  /usr/local/cuda/lib64/libcufft.so.12\n"
        "7f03-7f04 r-xp 00000000 fe:00 14  /usr/lib/libcuda.so.1\n"
        "7f04-7f05 rw-p 00000000 00:00 0\n"
    )
    assert torch_child.loaded(maps) == {
        "libcufft.so.12": [
            "/a b/nvidia/cu13/lib/libcufft.so.12", "/usr/local/cuda/lib64/libcufft.so.12",
        ]
    }  # fmt: skip
