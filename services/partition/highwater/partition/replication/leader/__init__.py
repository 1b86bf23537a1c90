"""The leader's side: answers to followers' fetches, and proposals of ISR changes."""
