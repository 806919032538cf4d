"""A schedule step by step: what each transform did to the payload, and what every handle points at."""
