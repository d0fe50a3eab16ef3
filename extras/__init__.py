"""Optional parts of Sotaque, a folder each, any of which can be deleted.

The core imports none of them: `machine.extras` finds them and says what one may offer. An extra
imports the core and `extras.common`, which holds what several extras share, and no other extra.
"""

# In the order in which help and /openapi.json list what they offer.
NAMES = (
    "cut",
    "languages",
    "studio",
    "distil",
    "books",
    "doctor",
    "inspect",
    "accent",
    "layouts",
    "onnx",
    "ray",
    "graphs",
    "eight_bit",
    "ssml",
    "dialects",
    "streams",
    "wyoming",
    "watermark",
    "mcp",
    "cli",
)
