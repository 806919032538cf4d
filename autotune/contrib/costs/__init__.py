"""Cost functions: models of machines that choose without measuring; `autotune tune --cost NAME:ARGUMENT`."""
