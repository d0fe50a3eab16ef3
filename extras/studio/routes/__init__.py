"""The studio's routes: datasets, takes and trainings."""
