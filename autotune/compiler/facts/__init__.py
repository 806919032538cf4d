"""Reading a program's structured ops: what they touch, what they are computed from, why they fuse or do not."""
