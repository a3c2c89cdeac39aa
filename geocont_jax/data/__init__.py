"""What is learned from: images as uint8 arrays, and which examples make up a batch."""
