"""The roster of hosts for an operator: ``shardpulse hosts`` lists it, ``shardpulse hosts forget`` takes a host off."""
