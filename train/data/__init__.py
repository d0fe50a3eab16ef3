"""The demo dataset, and the sentences and voices of every evaluation."""
