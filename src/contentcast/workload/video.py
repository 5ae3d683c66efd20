"""Blocks of live video: each notification carries one 16x16 block, each viewer wants some columns of some stream.

Source: Eide et al. 2003, tables 2 (notification) and 3 (subscription), section 6.2 (sizes, senders and receivers);
the frame is the television picture of section 6.2.1, 720 x 576 pixels. Notifications come for blocks here and there,
as from an encoder that sends only what changed; the report does not say.
Rule: a subscription always names stream, source and encoding, as table 3 does; block type and rows are sometimes left
open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from contentcast.model import Attribute, Space
from contentcast.workload.columns import (
    Column,
    blobs,
    clause,
    column,
    conjunction,
    integer_text,
    joined,
    named,
    numbered,
)
from contentcast.workload.contract import Interests
from contentcast.workload.dice import Dice, Integers
from contentcast.workload.parameters import parameter

MEDIA_TYPE: Final = "video"
FIRST_SOURCE: Final = "fnasa.simula.no"
ENCODINGS: Final = ("/raw/luminance/8/16x16", "/raw/chrominance/8/16x16")
INTRA, INTER = BLOCK_TYPES = ("intra_coded", "inter_coded")
HAS_BLOCK_TYPE, HAS_ROWS = 0.7, 0.3
WORD_BYTES: Final = 8


@dataclass(frozen=True)
class VideoParameters:
    sources: int = parameter(2, 1, 1_000, "cameras, each at a computer of its own")
    receivers: int = parameter(4, 1, 1_000, "further computers, with the viewers")
    viewers: int = parameter(8, 1, 1_000_000, "viewers; subscription r belongs to viewer r mod viewers")
    columns: int = parameter(45, 1, 1_000, "columns of blocks in a frame")
    rows: int = parameter(36, 1, 1_000, "rows of blocks in a frame")
    stripe: int = parameter(10, 1, 1_000, "columns, and rows, that a subscription asks for")
    intra: float = parameter(0.25, 0, 1, "share of intra coded blocks")
    pixels: int = parameter(256, 1, 1_450, "bytes of pixels in a notification")


class Video:
    """Notifications and subscriptions of a LAN that shares its cameras."""

    def __init__(self, seed: int, parameters: VideoParameters) -> None:
        self.parameters = parameters
        self.dice = Dice(seed, "video")
        self.sources = [FIRST_SOURCE, *(f"camera{number}.example.org" for number in range(2, parameters.sources + 1))]
        self.space = Space(
            "video",
            media_type="string",
            media_source="string",
            encoding="string",
            block_type=Attribute("string", values=BLOCK_TYPES),
            block_h=Attribute("int", low=0, high=parameters.columns - 1),
            block_v=Attribute("int", low=0, high=parameters.rows - 1),
            pixels="bytes",
        )
        self.brokers = tuple(f"host{number}" for number in range(1, parameters.sources + parameters.receivers + 1))

    # --- events

    def events(self, rows: range) -> list[Column]:
        dice, parameters = self.dice, self.parameters
        return [
            named([MEDIA_TYPE], np.zeros(len(rows), dtype=np.int64)),
            named(self.sources, self._source(rows)),
            named(ENCODINGS, dice.below("event encoding", rows, len(ENCODINGS))),
            named((INTER, INTRA), dice.chance("event intra", rows, parameters.intra).astype(np.int64)),
            column(dice.below("event block_h", rows, parameters.columns)),
            column(dice.below("event block_v", rows, parameters.rows)),
            self._pixels(rows),
        ]

    def _source(self, rows: range) -> Integers:
        return self.dice.below("event source", rows, len(self.sources))

    def _pixels(self, rows: range) -> Column:
        size = self.parameters.pixels
        words = -(-size // WORD_BYTES)
        noise = self.dice.words("event pixels", rows, words).astype("<u8").view(np.uint8)
        return blobs(noise.reshape(len(rows), words * WORD_BYTES)[:, :size])

    def publishers(self, rows: range) -> Column:
        """Each camera publishes at its own computer, the first ones."""
        return named(self.brokers, self._source(rows))

    # --- subscriptions

    def interests(self, rows: range) -> Interests:
        dice, parameters = self.dice, self.parameters
        source = named(self.sources, dice.below("source", rows, len(self.sources)))
        encoding = named(ENCODINGS, dice.below("encoding", rows, len(ENCODINGS)))
        block_type = named(BLOCK_TYPES, dice.below("block_type", rows, len(BLOCK_TYPES)))
        predicate = conjunction(
            [
                joined(f"media_type = '{MEDIA_TYPE}' AND media_source = '", source, "'"),
                joined("encoding = '", encoding, "'"),
                clause(dice.chance("has block_type", rows, HAS_BLOCK_TYPE), "block_type = '", block_type, "'"),
                joined(*self._stripe("block_h", rows, parameters.columns)),
                clause(dice.chance("has block_v", rows, HAS_ROWS), *self._stripe("block_v", rows, parameters.rows)),
            ]
        )
        viewer = np.arange(rows.start, rows.stop) % parameters.viewers
        host = len(self.sources) + viewer % parameters.receivers
        return Interests(predicate, numbered("viewer-", viewer + 1), named(self.brokers, host))

    def _stripe(self, name: str, rows: range, blocks: int) -> list[str | Column]:
        """One of the stripes side by side that a frame is cut into, from the left or the top."""
        stripe = self.parameters.stripe
        low = self.dice.below(name, rows, -(-blocks // stripe)) * stripe
        return [f"{name} >= ", integer_text(low), f" AND {name} < ", integer_text(low + stripe)]
