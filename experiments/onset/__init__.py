"""How long an overload is not told: from the onset of a step to the answer of ``/v1/hot``."""
