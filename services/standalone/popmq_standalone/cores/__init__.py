"""A standalone on several cores: a process for each, and one that starts and watches them."""
