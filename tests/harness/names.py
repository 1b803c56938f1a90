"""The topic and the group of tests that need one of each."""

TOPIC, GROUP = "t", "g"
