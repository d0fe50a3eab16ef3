"""The sentences that the teachers say."""
