"""Wyoming, the voice protocol of Home Assistant, on WYOMING_PORT."""

SETTINGS = "extras.wyoming.settings"
LISTENER = "extras.wyoming.listener"
