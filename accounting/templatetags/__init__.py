"""What templates of the console may call."""
