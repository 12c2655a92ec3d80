"""What a process tells operators about itself: logs, the text of its metrics, and exported traces."""
