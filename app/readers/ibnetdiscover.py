"""What ibnetdiscover prints: the racks and cards of an InfiniBand network.

Descriptions of cards are free text: only a host's name before the name of its card tells the host.
"""
import re

from draft import Refused, plural
from switches import Network

# Payload of a lane by name [bits/s].  Source: InfiniBand Trade Association, InfiniBand roadmap; SDR to QDR carry
# 8 bits in 10, FDR and later 64 in 66 or with error correction of their own.
LANES = {"SDR": 2e9, "DDR": 4e9, "QDR": 8e9, "FDR10": 10e9, "FDR": 13.64e9, "EDR": 25e9, "HDR": 50e9, "NDR": 100e9,
         "XDR": 200e9}
SPEED = re.compile(r"\b(\d+)x([A-Z]+\d*)\b")
PORT = re.compile(r'\[\d+\]\s*(?:\[[^\]]*\]\s*)?"([HSR])[^"]*"')
QUOTED = re.compile(r'"([^"]*)"')
# Of a card: "HCA-1", and what Linux calls one by driver or by place (udev).
CARD = re.compile(r"(HCA-\d+|mthca\d+|mlx\d_\w+|ib[ps]\w*\d|ib\d+|ro(ce)?p?\w*\d|hfi\d\w*|qib\d\w*|opap?\w*\d|bnxt_re\w*\d|"
                  r"irdma\w*\d|i40iw\w*\d|iw\w*\d|rdmap?\w*\d|efa\w*\d|cxi\d+|hsn\d+)", re.IGNORECASE)
NAMELESS = re.compile(r"\bMT\d{4,}|ConnectX|Mellanox Technologies|^localhost\b|\bNVIDIA Corp", re.IGNORECASE)
AGGREGATION = re.compile(r"aggregation node", re.IGNORECASE)


def speed_of(text):
    """The first speed such as 4xEDR [bytes/s], or 0."""
    return next((int(width) * LANES[lane] / 8 for width, lane in SPEED.findall(text) if lane in LANES), 0)


def split(description):
    """The host and the card in a description; "" for what it does not say."""
    words = description.split(" ")
    for index, word in enumerate(words):
        if CARD.fullmatch(word):
            return " ".join(words[:index]).strip(), word
    return description.strip(), ""


class Fabric:
    """What has been read so far."""

    def __init__(self):
        self.network = Network()
        self.cards = []  # (identifier, description, leaf, speed)
        self.now = None  # the switch whose ports are being read
        self.aggregation = 0

    def port(self, row, line):
        """'[1] "H-0002c903"[1](2c903)  # "node1 HCA-1" lid 4 4xEDR'."""
        found = PORT.match(line)
        if not found:
            raise Refused("expected a port such as '[1] \"H-0002c9\"[1] # \"node1 HCA-1\" lid 4 4xEDR'", row)
        peer, *described = QUOTED.findall(line)
        speed = speed_of(line[found.end():])
        description = described[0] if described else ""
        if found[1] == "H" and AGGREGATION.search(description):
            self.aggregation += 1
        elif found[1] == "H":
            self.cards.append((peer, description, self.now, speed))
            if len(self.cards) > 64 * 100000:
                raise Refused("more than 6400000 cards", row)
        elif found[1] == "S":
            switch = self.network.switch(self.now)
            switch.uplinks += 1
            switch.speed = min(filter(None, (switch.speed, speed)), default=0.0)

    def name_hosts(self, draft):
        """Put each card below its leaf.  A card whose name another one has too is a host of its own."""
        taken, nameless = {}, 0
        for peer, description, _, _ in self.cards:
            taken.setdefault(description, set()).add(peer)
        for peer, description, leaf, _ in self.cards:
            host, card = split(description)
            named = host and not NAMELESS.search(host) and not (card and len(taken[description]) > 1)
            nameless += not named
            self.network.host(host if named else peer, leaf)
        if self.aggregation:
            draft.note(f"{plural(self.aggregation, 'aggregation node')} of switches, which {'is' if self.aggregation == 1 else 'are'} no host")
        if nameless:
            draft.assume(f"{plural(nameless, 'card')} without the name of a host: a node each")


def read(draft, text, _ranks, _nodes):
    """Fill @draft."""
    fabric = Fabric()
    rows = text.splitlines()
    for row, line in enumerate(map(str.strip, rows), 1):
        if line.startswith("Switch") and QUOTED.search(line):
            fabric.now = QUOTED.search(line)[1]
            fabric.network.switch(fabric.now)
        elif line.startswith(("Ca", "Rt")):
            fabric.now = None  # the same cables from the other end
        elif line.startswith("[") and fabric.now:
            fabric.port(row, line)
    if not fabric.cards:
        raise Refused("no 'Switch' with a host on a port up to here: give what ibnetdiscover prints", len(rows))
    fabric.name_hosts(draft)
    fabric.network.understand(draft)
    speeds = [card[3] for card in fabric.cards if card[3]]
    draft.note(f"{len(fabric.cards)} cards of {min(speeds, default=0) * 8e-9:g} to {max(speeds, default=0) * 8e-9:g} Gb/s, "
               f"{len(fabric.cards) / len(fabric.network.hosts):.3g} a node")
    if len(speeds) < len(fabric.cards):
        draft.note(f"{len(fabric.cards) - len(speeds)} cards without a speed that is known")
    if speeds:
        draft.put(nic={"bandwidth": (min(speeds), "datasheet", f"{draft.name}: the slowest card")})
    draft.put(description="from ibnetdiscover", cards=fabric.network.cards())
    draft.assume("cables of a leaf switch to other switches all go up")
