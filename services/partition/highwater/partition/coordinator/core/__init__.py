"""What the pure cores of coordinators share: times, timers, answers. No I/O, no clock."""
