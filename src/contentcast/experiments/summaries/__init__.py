"""The evaluation of Triantafillou & Economides 2004, by the paper's own model and by real subscriptions, messages and bytes."""
