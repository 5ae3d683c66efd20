"""The overlay network below the fourth paper's publish/subscribe: keys, a ring that repairs itself, and messages to keys."""
