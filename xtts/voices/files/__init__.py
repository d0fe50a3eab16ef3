"""`NAME.sotaque`: a voice as one file, which is packed, checked and unpacked here."""
