"""What can be read off a program: its ops and what they touch, what was fused, which values it takes."""
