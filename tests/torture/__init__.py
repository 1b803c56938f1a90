"""Replicated brokers under load and faults, as real processes, and a judge of what clients saw.

faults   what happens, drawn from a seed       judge     is every promise kept? reads a history
cluster  processes, links, the register        outages   how long nobody was served, per fault
load     what clients do, and write down       history   all of it, as JSON lines
"""
