"""From a speech request in any API dialect to the audio of its response."""
