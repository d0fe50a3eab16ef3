"""Which build, driver and command line fix a GPU that a build does not support."""

import pytest

from extras.common.remedies import branch_of, driver_command, fitting_backend, has_code_for

# The architectures that torch's builds have code for.
CU130 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
CU126 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")


@pytest.mark.parametrize(
    ("capability", "architectures", "runs"),
    [
        ((8, 6), ("sm_86",), True),
        ((8, 9), ("sm_86",), True),  # the same major, a later minor
        ((8, 0), ("sm_86",), False),
        ((9, 0), ("sm_86",), False),
        ((9, 0), ("sm_90a",), True),
        ((9, 1), ("sm_90a",), False),  # architecture-specific code runs on no other
        ((12, 0), CU126, False),
        ((12, 0), CU130, True),
        ((12, 0), ("sm_90", "compute_90"), True),  # PTX is compiled for newer GPUs
        ((6, 1), CU126, True),
        ((6, 1), CU130, False),
        ((6, 1), ("nonsense", "sm_", "sm_x"), False),
    ],
)
def test_which_gpu_a_build_has_code_for(capability, architectures, runs):
    assert has_code_for(capability, architectures) is runs


@pytest.mark.parametrize(
    ("version", "capability", "backend"),
    [
        ("580.95.05", (8, 6), "cu130"),
        ("550.54.14", (8, 6), "cu126"),
        ("580.95.05", (6, 1), "cu126"),  # Pascal, which cu130 does not support
        ("580.95.05", (12, 0), "cu130"),
        ("550.54.14", (12, 0), ""),  # neither fits: the driver must be updated
        ("470.82.01", (7, 5), ""),
        ("580.95.05", (3, 5), ""),
        ("", (7, 5), "cu130"),
    ],
)
def test_which_build_fits(version, capability, backend):
    assert fitting_backend(version, [capability]) == backend


def test_a_version_that_is_none_is_no_version():
    assert (branch_of("550.54"), branch_of("unknown"), branch_of("")) == (550, None, None)


def test_everybody_gets_the_line_of_their_own_system():
    assert "ubuntu-drivers" in driver_command(("ubuntu", "debian"), False)
    assert "chwd" in driver_command(("cachyos", "arch"), False)
    assert "nvidia.com/drivers" in driver_command((), False)
    assert "On the host" in driver_command(("ubuntu",), True)
