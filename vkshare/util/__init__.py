"""Small helpers of every shelf: checks of arguments, file descriptors, deadlines, destructors, trace points."""
