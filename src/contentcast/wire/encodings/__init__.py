"""Events, subscriptions, advertisements and headers as bytes; what messages are made of."""
