"""The published model XTTS-v2, and how its files are downloaded."""
