"""Element-wise ops of bytes by instructions for bytes: functions read from a table, windows by dot products."""
