"""Cost functions that come with the tool; they rest on the engine, and know neither payloads nor schedules."""
