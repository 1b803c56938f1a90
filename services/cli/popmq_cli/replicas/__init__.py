"""popmq replica: the replicas of brokers, and what is wrong with them."""
