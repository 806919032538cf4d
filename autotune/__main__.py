"""``python -m autotune`` is the command `autotune`, where no folder of programs is on the path."""

from autotune.cli import main

if __name__ == "__main__":
    main()
