"""Programs that start programs: orders and answers between parent and child, how they end, where their time goes."""
