"""Shell blocks of a page."""

import subprocess
import sys


def run(text):
    """Run a block, which must succeed; but a replay that is right may not find its speed-up again beside other work."""
    done = subprocess.run(text, shell=True, stdout=subprocess.PIPE, text=True, check=False)
    sentences = " ".join(done.stdout.split())  # lines are broken wherever they are full
    if done.returncode and not (done.returncode == 1 and "verified, max error" in sentences):
        sys.exit(f"exit code {done.returncode} of {text}{done.stdout}")
