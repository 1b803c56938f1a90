"""popmq user, popmq acl: who may do what, and files of RocketMQ that say it."""
