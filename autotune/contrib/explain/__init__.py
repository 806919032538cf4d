"""Ablation study of a bundle's winner: `autotune explain`, and `report --explain`."""
