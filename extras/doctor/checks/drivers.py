"""Checks of the NVIDIA driver, the container runtime and device nodes."""

from collections.abc import Mapping

from extras.common.readings.snapshot import (
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
from extras.common.remedies import REBOOT, driver_command
from extras.doctor.finding import Finding, fail, ok, warn

_MAKERS = {NVIDIA: "NVIDIA", AMD: "AMD", INTEL: "Intel"}
# These choose the card that draws. CUDA does not read them.
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
    """The graphics cards, and whether a tool has switched the NVIDIA card off."""
    seen = ", ".join(map(_card_words, graphics.cards)) or "no graphics card on the bus"
    drawing = ", ".join(f"{name}={variables[name]}" for name in _DRAWING if name in variables)
    if graphics.off and not nodes.gpus:
        tool = next((name for name in _SWITCHES if name in programs or name in graphics.off), "")
        return warn(
            f"{seen}; the NVIDIA card is switched off ({graphics.off})",
            "the NVIDIA card switched on",
            "A power-saving tool for hybrid graphics hides this card; no program can use it.",
            _SWITCHES.get(tool, "Switch the NVIDIA card on in the tool or BIOS that hid it."),
            drawing,
        )
    others = [card for card in graphics.cards if card.vendor != NVIDIA]
    if graphics.nvidia and others:
        meaning = (
            "Hybrid graphics: CUDA finds the NVIDIA card by itself. DRI_PRIME and prime-run choose "
            "the card that draws, not the one that computes."
        )
        if any(card.power == "suspended" for card in graphics.nvidia):
            meaning += " The card sleeps until a program uses it, which is normal."
        return ok(seen, "", meaning, drawing)
    if graphics.cards and not graphics.nvidia:
        return ok(seen, "", "No NVIDIA card: Sotaque computes on the CPU.", drawing)
    return ok(seen, evidence=drawing)


def driver(
    driver: Driver, graphics: Graphics, nodes: Nodes, managed: Managed, container: Container
) -> Finding | None:
    """Whether the kernel module and its library are installed and respond."""
    if not driver.version:
        return _without_module(driver, graphics, nodes, container)
    expected = "a driver that responds, with module and libraries of one version"
    if container.inside and not nodes.gpus:
        return ok(f"the host's driver is {driver.version}")  # `container` says what is missing
    fault, evidence = managed.fault, f"{managed.source}: {managed.fault}" if managed.fault else ""
    if "version mismatch" in fault:
        return fail(
            f"module {driver.version} is loaded, but the libraries have another version",
            expected,
            "The driver was updated, and the kernel still runs the old one.",
            REBOOT,
            evidence,
        )
    if not driver.libcuda:
        inside = "Add compute to NVIDIA_DRIVER_CAPABILITIES in .env, or set it to all."
        return fail(
            f"module {driver.version} is loaded, but libcuda.so.1 cannot be loaded",
            expected,
            "Part of the driver is missing: without this library no program can use the GPU.",
            inside if container.inside else driver_command(driver.system, False),
            driver.libcuda_fault,
        )
    if fault and container.inside and "Unknown Error" in fault:
        return fail(
            "the driver no longer responds in this container",
            expected,
            "The host has taken the GPU back, as after `systemctl daemon-reload`.",
            "On the host: docker compose up -d --force-recreate",
            evidence,
        )
    if fault:
        return fail(
            f"driver {driver.version} does not respond",
            expected,
            "The driver or the card is in a state that only a reboot clears.",
            REBOOT,
            evidence,
        )
    return ok(f"driver {driver.version}", evidence=driver.libcuda)


def container(
    container: Container, driver: Driver, graphics: Graphics, nodes: Nodes, variables: Mapping[str, str]
) -> Finding | None:
    """Whether a container has access to the GPU of its host."""
    if not container.inside:
        if container.docker and nodes.gpus and not container.toolkit:
            return ok(
                "Docker is installed, but not NVIDIA's container toolkit",
                "",
                "Only containers need it: DOCKER_RUNTIME=nvidia does not start without it.",
                container.docker,
            )
        return None
    if nodes.gpus:
        return ok("in a container, with the GPU")
    if not driver.version:
        return ok("in a container; its host has loaded no NVIDIA driver")
    visible = variables.get("NVIDIA_VISIBLE_DEVICES", "")
    hidden = visible in ("", "void", "none")
    setting = " Set NVIDIA_VISIBLE_DEVICES=all." if hidden else ""
    return fail(
        f"in a container without /dev/nvidia0; the host has driver {driver.version}",
        "the nvidia runtime, which adds device nodes and libraries",
        "The container was started without NVIDIA's container toolkit, so it has no GPU.",
        "Install nvidia-container-toolkit on the host, write DOCKER_RUNTIME=nvidia into .env, and "
        f"start the container again.{setting}",
        f"NVIDIA_VISIBLE_DEVICES={visible or '(not set)'}",
    )


def device_nodes(driver: Driver, nodes: Nodes, container: Container) -> Finding | None:
    """The files under /dev that CUDA opens."""
    if not driver.version or (container.inside and not nodes.gpus):
        return None
    expected = "/dev/nvidia0, /dev/nvidiactl and /dev/nvidia-uvm, accessible to this user"
    seen = " ".join(f"/dev/{name}" for name in nodes.names) or "none"
    missing = [name for name in ("nvidiactl", "nvidia-uvm") if name not in nodes.names]
    if not nodes.gpus:
        missing.insert(0, "nvidia0")
    if missing:
        names = " and ".join(f"/dev/{name}" for name in missing)
        return fail(
            f"{names} {'are' if len(missing) > 1 else 'is'} missing",
            expected,
            "CUDA reports 'unknown error' (999) or no device, although nvidia-smi lists the GPU."
            if nodes.gpus
            else "The driver is loaded but has created no device node.",
            "On the host: sudo nvidia-modprobe -u -c 0, then start the container again"
            if container.inside
            else "sudo nvidia-modprobe -u -c 0",
            seen,
        )
    if nodes.closed:
        names = " ".join(f"/dev/{name}" for name in nodes.closed)
        return fail(
            f"this user cannot open {names}",
            expected,
            "CUDA reports that there is no device.",
            "sudo usermod -aG video,render $USER, then log out and in",
            seen,
        )
    return ok(seen)


def _without_module(driver: Driver, graphics: Graphics, nodes: Nodes, container: Container) -> Finding | None:
    if "dxg" in nodes.names:
        return ok("WSL uses the driver of Windows", evidence=driver.libcuda)
    if not graphics.nvidia:
        return ok("no NVIDIA card, so no driver is needed")
    if graphics.off:
        return None  # `graphics` reports what switched the card off
    nouveau = " The card's current driver, nouveau, cannot compute." if driver.nouveau else ""
    return fail(
        f"no NVIDIA driver is loaded for {_card_words(graphics.nvidia[0])}",
        "NVIDIA's driver, loaded",
        "Without it the card cannot compute, and everything runs on the CPU." + nouveau,
        driver_command(driver.system, container.inside),
        driver.libcuda_fault,
    )


def _card_words(card: GraphicsCard) -> str:
    maker = _MAKERS.get(card.vendor, f"vendor {card.vendor}")
    what = f"{maker} {card.vendor}:{card.device} at {card.address}"
    return f"{what} (drives the screen)" if card.screen else what
