"""The lesson: a booking that survives a crash, told by real interpreters that really die."""
