"""Transform scripts as plain data: assembled, parametric, with marks, constraints and rules."""
