"""What a subscription means: constraints, predicates, their normal form, covering, and tables of many."""
