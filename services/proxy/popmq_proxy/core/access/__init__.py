"""Who may do what: accounts, policies, the decision, signatures. Source: RocketMQ's ACL 2.0."""
