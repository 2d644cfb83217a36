"""How long frames of the page take with ten thousand tiles that all change at every tick."""
