"""Checks of the NVIDIA driver, the container runtime and device nodes."""

from collections.abc import Mapping

from machine.doctor.finding import Finding, fail, ok, warn
from machine.readings.snapshot import (
    AMD,
    INTEL,
    NVIDIA,
    Container,
    Driver,
    Graphics,
    GraphicsCard,
    Managed,
    Nodes,
)
from machine.remedies import REBOOT, get_driver

_MAKERS = {NVIDIA: "NVIDIA", AMD: "AMD", INTEL: "Intel"}
# They choose which card draws. CUDA does not read them.
_DRAWING = ("DRI_PRIME", "__NV_PRIME_RENDER_OFFLOAD", "__GLX_VENDOR_LIBRARY_NAME")
_SWITCHES = {
    "prime-select": "sudo prime-select on-demand && sudo reboot",
    "envycontrol": "sudo envycontrol -s hybrid && sudo reboot",
    "supergfxctl": "supergfxctl -m Hybrid, then log out and in",
    "optimus-manager": "optimus-manager --switch hybrid",
}


def graphics(
    graphics: Graphics, nodes: Nodes, programs: Mapping[str, str], variables: Mapping[str, str]
) -> Finding:
    """The cards, and on hybrid graphics whether the NVIDIA one is switched off."""
    seen = ", ".join(map(_card_words, graphics.cards)) or "no graphics card on the bus"
    drawing = ", ".join(f"{name}={variables[name]}" for name in _DRAWING if name in variables)
    if graphics.off and not nodes.gpus:
        tool = next((name for name in _SWITCHES if name in programs or name in graphics.off), "")
        return warn(
            f"{seen}; the NVIDIA card is switched off ({graphics.off})",
            "the NVIDIA card switched on",
            "On hybrid graphics a tool saves power by hiding this card; nothing can compute on it.",
            _SWITCHES.get(tool, "Switch the NVIDIA card on in the tool or BIOS that hid it."),
            drawing,
        )
    others = [card for card in graphics.cards if card.vendor != NVIDIA]
    if graphics.nvidia and others:
        asleep = " It sleeps until it is used; that is normal." * any(
            card.power == "suspended" for card in graphics.nvidia
        )
        meaning = (
            "Hybrid graphics: CUDA finds the NVIDIA card by itself. DRI_PRIME and prime-run choose "
            "who draws, not who computes." + asleep
        )
        return ok(seen, "", meaning, drawing)
    if graphics.cards and not graphics.nvidia:
        return ok(seen, "", "None of them is NVIDIA's: Sotaque computes on the CPU.", drawing)
    return ok(seen, evidence=drawing)


def driver(
    driver: Driver, graphics: Graphics, nodes: Nodes, managed: Managed, container: Container
) -> Finding | None:
    """The kernel module, its library, and whether the two answer."""
    if not driver.version:
        return _without_module(driver, graphics, nodes, container)
    expected = "a driver whose module and libraries are of one version, and that answers"
    if container.inside and not nodes.gpus:
        return ok(f"the host's driver is {driver.version}")  # `container` says what is missing
    fault, evidence = managed.fault, f"{managed.source}: {managed.fault}" if managed.fault else ""
    if "version mismatch" in fault:
        return fail(
            f"module {driver.version} is loaded, the libraries are of another version", expected,
            "The driver was updated, and the old one still runs in the kernel.", REBOOT, evidence,
        )  # fmt: skip
    if not driver.libcuda:
        inside = "NVIDIA_DRIVER_CAPABILITIES must hold compute (or be all), in .env"
        return fail(
            f"module {driver.version} is loaded, but libcuda.so.1 cannot be", expected,
            "Half of the driver is installed: without this library no program computes.",
            inside if container.inside else get_driver(driver.system, False), driver.libcuda_fault,
        )  # fmt: skip
    if fault and container.inside and "Unknown Error" in fault:
        return fail(
            "the driver no longer answers in this container", expected,
            "The host took the GPU back, as it does after `systemctl daemon-reload`.",
            "On the host: docker compose up -d --force-recreate", evidence,
        )  # fmt: skip
    if fault:
        return fail(
            f"driver {driver.version} does not answer", expected,
            "The driver or the card is in a state that no program gets out of.", REBOOT, evidence,
        )  # fmt: skip
    return ok(f"driver {driver.version}", evidence=driver.libcuda)


def container(
    container: Container, driver: Driver, graphics: Graphics, nodes: Nodes,
    variables: Mapping[str, str],
) -> Finding | None:  # fmt: skip
    """Whether a container was given the GPU of its host."""
    if not container.inside:
        if container.docker and nodes.gpus and not container.toolkit:
            return ok(
                "docker is here, NVIDIA's container toolkit is not", "",
                "Only containers need it: without it DOCKER_RUNTIME=nvidia does not start.",
                container.docker,
            )  # fmt: skip
        return None
    if nodes.gpus:
        return ok("in a container, with the GPU")
    if not driver.version:
        return ok("in a container; its host has no NVIDIA driver loaded")
    visible = variables.get("NVIDIA_VISIBLE_DEVICES", "")
    hidden = visible in ("", "void", "none")
    return fail(
        f"in a container; the host has driver {driver.version}, but no /dev/nvidia0 is in here",
        "the nvidia runtime, which brings device nodes and libraries",
        "The container was started without NVIDIA's container toolkit: it sees no GPU.",
        "Install nvidia-container-toolkit on the host, write DOCKER_RUNTIME=nvidia into .env, and "
        "start the container again." + " Leave NVIDIA_VISIBLE_DEVICES=all." * hidden,
        f"NVIDIA_VISIBLE_DEVICES={visible or '(not set)'}",
    )


def device_nodes(driver: Driver, nodes: Nodes, container: Container) -> Finding | None:
    """The files under /dev that CUDA opens."""
    if not driver.version or (container.inside and not nodes.gpus):
        return None
    expected = "/dev/nvidia0, /dev/nvidiactl and /dev/nvidia-uvm, open to this user"
    seen = " ".join(f"/dev/{name}" for name in nodes.names) or "none"
    missing = [name for name in ("nvidiactl", "nvidia-uvm") if name not in nodes.names]
    if not nodes.gpus:
        missing.insert(0, "nvidia0")
    if missing:
        names = " and ".join(f"/dev/{name}" for name in missing)
        return fail(
            f"{names} {'are' if len(missing) > 1 else 'is'} missing", expected,
            "CUDA reports 'unknown error' (999) or no device, although nvidia-smi lists the GPU."
            if nodes.gpus else "The driver is loaded and has made no device.",
            "On the host: sudo nvidia-modprobe -u -c 0, then start the container again"
            if container.inside else "sudo nvidia-modprobe -u -c 0", seen,
        )  # fmt: skip
    if nodes.closed:
        names = " ".join(f"/dev/{name}" for name in nodes.closed)
        return fail(
            f"this user may not open {names}", expected,
            "CUDA reports that there is no device.",
            "sudo usermod -aG video,render $USER, then log out and in", seen,
        )  # fmt: skip
    return ok(seen)


def _without_module(
    driver: Driver, graphics: Graphics, nodes: Nodes, container: Container
) -> Finding | None:
    if "dxg" in nodes.names:
        return ok("WSL: the driver is Windows' own", evidence=driver.libcuda)
    if not graphics.nvidia:
        return ok("no NVIDIA card, so no driver is needed")
    if graphics.off:
        return None  # `graphics` says who switched the card off
    nouveau = " nouveau, which drives the card now, cannot compute." * driver.nouveau
    return fail(
        f"no NVIDIA driver is loaded, and there is {_card_words(graphics.nvidia[0])}",
        "NVIDIA's driver, loaded",
        "Without it the card cannot compute; everything runs on the CPU." + nouveau,
        get_driver(driver.system, container.inside),
        driver.libcuda_fault,
    )


def _card_words(card: GraphicsCard) -> str:
    maker = _MAKERS.get(card.vendor, f"vendor {card.vendor}")
    what = f"{maker} {card.vendor}:{card.device} at {card.address}"
    return what + " (drives the screen)" * card.screen
