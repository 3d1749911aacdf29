"""What people and scripts read: folded from the View, with light queries beside it. Nothing here writes."""
