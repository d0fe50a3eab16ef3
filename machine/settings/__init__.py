"""How settings are declared, read, checked and explained; both programs use it."""
