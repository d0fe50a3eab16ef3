"""An inaudible watermark in all speech (WATERMARK=perth)."""

SETTINGS = "extras.watermark.settings"
WATERMARK = "extras.watermark.perth"
