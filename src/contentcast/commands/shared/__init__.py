"""What commands share: progress, failures, interrupts, outputs, settings."""
