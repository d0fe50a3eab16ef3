"""What several extras share: an extra may import it, and the core never does."""
