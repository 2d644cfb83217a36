"""What a planned move must respect: capacities after the move, labels, migrations that are under way."""
