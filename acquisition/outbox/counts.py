"""What a probe has sent again, given up or shed of one resource set since it was started."""

from __future__ import annotations


class Counts:
    """Frames and samples of one send window; they go on when its numbers start anew."""

    __slots__ = ("dropped_frames", "dropped_samples", "go_backs", "resent", "shed_frames", "shed_samples")

    def __init__(self) -> None:
        self.resent = self.go_backs = 0
        self.dropped_frames = self.dropped_samples = 0
        self.shed_frames = self.shed_samples = 0

    def drop(self, samples: int) -> None:
        """A frame was given up before it was known to be applied."""
        self.dropped_frames += 1
        self.dropped_samples += samples

    def shed(self, samples: int) -> None:
        """A frame was given up before it was sent: more is made than the pipeline takes."""
        self.shed_frames += 1
        self.shed_samples += samples

    def resend(self) -> None:
        """A frame was sent once more."""
        self.resent += 1

    def go_back(self) -> None:
        """The window went back to frames that it had sent."""
        self.go_backs += 1
