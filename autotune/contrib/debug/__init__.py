"""Step-by-step debugger of schedules: the changes of each transform to the payload, and the contents of handles."""
