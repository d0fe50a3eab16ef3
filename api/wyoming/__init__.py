"""Wyoming, the protocol of Home Assistant's voice programs: WYOMING_PORT beside the HTTP port."""
