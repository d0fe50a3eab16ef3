"""Wyoming, the protocol of Home Assistant's voice programs, on WYOMING_PORT."""

LISTENER = "extras.wyoming.listener"
