"""What is read from this machine: cores, caches, memory pages, files, clock."""
