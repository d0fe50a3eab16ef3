"""Wyoming, the voice protocol of Home Assistant, on WYOMING_PORT."""

LISTENER = "extras.wyoming.listener"
