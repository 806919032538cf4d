"""Cross compilation for other machines: model-based choice of schedules, and verification under an emulator."""
