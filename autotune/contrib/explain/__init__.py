"""What each technique is worth to a bundle: `autotune explain`, and `report --explain`."""
