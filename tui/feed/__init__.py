"""The outside world, put together: which sources watch a target, and the one stream they make."""
