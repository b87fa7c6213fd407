"""The cache of computed values, in memory and in Redis; equal concurrent requests are computed once."""
