"""Text to token ids: normalize, phonemize, tokenize, split."""
