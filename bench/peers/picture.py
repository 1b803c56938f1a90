"""The results as a picture: throughput, and CPU of server and clients, by row. Axes are
logarithmic."""

from compare import plot
from compare.plot import Bars, Panel
from peers.results import Median, PeersRecord, medians
from peers.systems import LOADS, SYSTEMS


def svg(record: PeersRecord) -> str:
    return plot.svg(panels(record))


def panels(record: PeersRecord) -> list[Panel]:
    found, settings = medians(record.turns), record.settings
    places = [
        (count, row)
        for count in settings["processes"]
        for row in settings["rows"]
        if any(key[1:] == (count, row) for key in found)
    ]
    free = [place for place in places if not LOADS[place[1]].rate_per_s]
    labels = [f"{LOADS[row].title}\n{_clients(count)}" for count, row in places]

    def values(system: str, name: str) -> list[float | None]:
        shown = free if name == "messages_per_s" else places  # a fixed rate tells nothing
        measured: list[Median | None] = [
            found.get((system, *place)) if place in shown else None for place in places
        ]
        return [float(getattr(one, name)) if one else None for one in measured]

    return [
        Panel(
            axis,
            labels,
            [
                Bars(SYSTEMS[system].title, SYSTEMS[system].colour, values(system, name))
                for system in settings["systems"]
            ],
        )
        for axis, name in (
            ("messages per second (longer is better)", "messages_per_s"),
            ("server CPU, µs per message", "server_cpu_us"),
            ("client CPU, µs per message", "client_cpu_us"),
        )
    ]


def _clients(count: int) -> str:
    return "1 client" if count == 1 else f"{count} clients"
