"""How settings are declared, loaded, validated and documented; for both programs."""
