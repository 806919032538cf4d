"""Analyses of structured ops: the arrays they access, where their operands come from, why they fuse or do not."""
