"""Which operations of different ranks are one, and how their clocks differ."""
