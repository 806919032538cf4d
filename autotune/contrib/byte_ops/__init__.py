"""Element-wise ops on i8 by byte instructions: functions by table lookup, sliding windows by dot products."""
