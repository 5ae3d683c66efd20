"""Networks of brokers: topologies, their spanning trees, named ones, files of them, and pictures."""
