"""Settings: declared, loaded, validated and documented, for both programs."""
