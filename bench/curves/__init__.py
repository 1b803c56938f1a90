"""What a message costs by how much there is: its size, topics, groups, clients, backlog, delayed
messages."""
