"""What clients have counted, against what brokers have."""
