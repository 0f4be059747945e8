"""Clocks, the profiler's trace and the allocator's peak: each is read in one place, here."""
