"""Where golden files lie; apart from conftest.py, of which every folder may have one."""

from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
