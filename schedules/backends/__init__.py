"""Back ends that come with the tool: each makes object code for tasks, and is found by its entry point."""
