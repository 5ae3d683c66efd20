"""Events, subscriptions and deliveries that stand outside of files: topics of Kafka, tables of Delta and Iceberg."""
