"""A cluster of processes, three kinds of clients, one fault after the other: what is seen?"""
