"""Completes a batch's rows: values missing in events come from the batch, then from the mirror.

Where the mirror has it no more, since the old key's row went with an earlier batch, the files have it that
this batch's commit brought, as long as its snapshot is kept: they hold every event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from spark_jobs.formats.connect.documents import Documents, NotReadError
from spark_jobs.formats.connect.events import DELETE, SNAPSHOT
from spark_jobs.formats.connect.keys import Spelling
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.row_filters import is_among
from spark_jobs.lake.tables import progress_of, summary_of
from spark_jobs.mirror.fold import Fate, Folded
from spark_jobs.mirror.keys import identity_of
from spark_jobs.mirror.live_rows import in_file_order, rows_at
from spark_jobs.mirror.unavailable import (
    NotToldYetError,
    Telling,
    can_be_unavailable,
    is_unavailable,
    keys_to_look_up,
    source_of,
)
from spark_jobs.protocol.cdc import Position
from spark_jobs.schema.arrow_schema import arrow_schema, no_rows
from spark_jobs.schema.iceberg_types import (
    COMMIT_SEQUENCE,
    HEADERS,
    METADATA_COLUMNS,
    MIRROR_NAMES,
    OFFSET,
    OPERATION,
    PARTITION,
    ROW_ID,
    SEQUENCE,
)
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

    from spark_jobs.protocol.batch import WrittenFile

_OLD_KEY = "__debezium.oldkey"
_KEYS_AT_ONCE = 5_000
_NOWHERE = Position(-1, -1)  # before all events of a partition


@dataclass(frozen=True, slots=True)
class CompletedRows:
    """Complete ``rows`` of the table's columns, which replace those of incomplete events.

    ``missing`` says by partition and offset which value nobody has any more. ``waiting`` is by partition the
    first event whose old key's rows were not read yet. With either there are no rows.
    """

    rows: pa.Table
    missing: dict[int, dict[int, str]] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)


def complete_rows(
    table: Table, files: Sequence[WrittenFile], folded: Folded, *, looks_in_table: bool = True
) -> CompletedRows:
    """Complete the live rows of a batch, from the batch alone unless ``looks_in_table``.

    ``table`` stands at the batch's starts, ``files`` are the batch's. Raises as storage does.
    """
    try:
        return _Lookup(table, files, folded, looks_in_table=looks_in_table).complete_rows()
    except OSError as error:
        raise storage_error(error, "looking up values", table=".".join(table.name())) from error


class _Lookup:
    """Rows found so far: ``_parts`` in sequence, with their ``_tellings`` by key.

    They are of all events of the keys from now back to some commit, so the newest below a place is the one
    that was there then; in which commits compaction has left none, or that are not kept, nobody knows.
    """

    def __init__(
        self, table: Table, files: Sequence[WrittenFile], folded: Folded, *, looks_in_table: bool
    ) -> None:
        self._table, self._files, self._folded = table, files, folded
        self._snapshots = _snapshots_since_rebuild(table) if looks_in_table else []
        self._walked = 0
        unread = dict.fromkeys(progress_of(table).next_offsets, _NOWHERE)
        self._positions = unread | folded.cdc.positions
        own = {*MIRROR_NAMES, *METADATA_COLUMNS}
        self._columns = [
            each.name
            for each in arrow_schema(table.schema())
            if each.name not in own and can_be_unavailable(each.type)
        ]
        self._parts: list[pa.Table] = []
        self._count = 0
        self._tellings: defaultdict[str, list[Telling]] = defaultdict(list)
        self._asked: set[str] = set()

    def complete_rows(self) -> CompletedRows:
        nothing = no_rows(arrow_schema(self._table.schema()))
        lacking = self._incomplete_events()
        if not len(lacking):
            return CompletedRows(nothing)
        rows = self._take(self._rows_at(lacking))
        self._look_up(rows)
        found = self._find_sources(rows)
        while self._is_sought(rows, found) and self._walked < len(self._snapshots):
            self._walked += 1
            self._look_up(self._take(self._events_of(self._snapshots[self._walked - 1], self._asked)))
            found = self._find_sources(rows)
        places = lacking.select([PARTITION, OFFSET]).to_pylist()
        waiting: dict[int, int] = {}
        missing: defaultdict[int, dict[int, str]] = defaultdict(dict)
        for row, place in zip(rows, places, strict=True):
            partition, offset = place[PARTITION], place[OFFSET]
            if row.index not in found:
                waiting[partition] = min(offset, waiting.get(partition, offset))
            for column in [name for name, told_by in found.get(row.index, {}).items() if told_by is None]:
                reason = f"no event in the topic or the table has the value of {column} any more"
                missing[partition] |= dict.fromkeys([offset, *self._earlier(row, column)], reason)
        if waiting or missing:
            return CompletedRows(nothing, {} if waiting else dict(missing), waiting)
        return CompletedRows(self._put_together(rows, found))

    def _is_sought(self, rows: Sequence[Telling], found: Mapping[int, Mapping[str, Telling | None]]) -> bool:
        """True if earlier commits may have more: a value, or the unknown row of an old key."""
        if any(None in each.values() for each in found.values()):
            return True
        return any(row.index not in found for row in rows) and any(
            not self._tellings[key] for key in self._asked
        )

    def _find_sources(self, rows: Sequence[Telling]) -> dict[int, dict[str, Telling | None]]:
        """Return the source of each missing value, by row and column; a waiting row is left out."""
        found = {}
        for row in rows:
            with suppress(NotToldYetError):
                found[row.index] = {
                    column: source_of(row, column, self._tellings, self._positions)
                    for column in sorted(row.lacks)
                }
        return found

    def _earlier(self, row: Telling, column: str) -> list[int]:
        """Return offsets of earlier changes of the key in the batch that lack the column too.

        Each of them would be the newest without those after it.
        """
        events = self._folded.of(Fate.SUPERSEDED)
        is_row = pc.not_equal(events.column(OPERATION), DELETE)
        of_key = events.filter(pc.and_(is_row, pc.equal(events.column(ROW_ID), row.key)))
        offsets = set(of_key.column(OFFSET).to_pylist())
        every = pa.concat_tables([part.select([OFFSET]) for part in self._parts]).column(OFFSET)
        incomplete = [each for each in self._tellings[row.key] if column in each.lacks]
        return sorted(offsets & {every[each.index].as_py() for each in incomplete})

    def _put_together(
        self, rows: Sequence[Telling], found: Mapping[int, Mapping[str, Telling | None]]
    ) -> pa.Table:
        every = pa.concat_tables(self._parts)
        columns = []
        for name in every.column_names:
            tellers = [found[row.index].get(name) or row for row in rows]
            columns.append(every.column(name).take(pa.array([each.index for each in tellers])))
        return pa.Table.from_arrays(columns, schema=every.schema)

    def _incomplete_events(self) -> pa.Table:
        """Return the live events with missing values; snapshot events have none."""
        live = self._folded.of(Fate.LIVES)
        live = live.filter(pc.not_equal(live.column(OPERATION), SNAPSHOT))
        if not self._columns or not len(live):
            return live.slice(0, 0)
        rows = rows_at(self._table, self._files, live, self._table.schema().select(*self._columns))
        lacks = np.logical_or.reduce([is_unavailable(rows.column(name)) for name in self._columns])
        return in_file_order(live).filter(pa.array(lacks))

    def _look_up(self, rows: Sequence[Telling]) -> None:
        """Look up the keys and old keys of rows, then those of the rows found."""
        while keys := keys_to_look_up(rows) - self._asked:
            self._asked |= keys
            events = self._folded.events
            of_keys = pc.is_in(events.column(ROW_ID), pa.array(sorted(keys)))
            rows = self._take(self._rows_at(events.filter(of_keys)))
            if self._snapshots:
                live = self._read_keys(keys, lambda of_keys: self._table.scan(of_keys).plan_files())
                rows += self._take(live)
            for snapshot in self._snapshots[: self._walked]:
                rows += self._take(self._events_of(snapshot, keys))

    def _events_of(self, snapshot: Snapshot, keys: Iterable[str]) -> pa.Table:
        """Return the keys' rows among all events of one commit that never lived in the table."""
        if not summary_of(snapshot).is_of_sluice:
            return no_rows(arrow_schema(self._table.schema()))
        files = [
            entry.data_file
            for manifest in snapshot.manifests(self._table.io)
            if manifest.content is ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
            if entry.snapshot_id == snapshot.snapshot_id
        ]
        return self._read_keys(keys, lambda _: [FileScanTask(file) for file in files])

    def _take(self, rows: pa.Table) -> list[Telling]:
        """Keep rows and return their values."""
        masks = {name: is_unavailable(rows.column(name)) for name in self._columns}
        values = rows.select(
            [ROW_ID, PARTITION, OFFSET, COMMIT_SEQUENCE, SEQUENCE, OPERATION, HEADERS]
        ).to_pylist()
        restarts, spelling = self._folded.cdc.restarts, Spelling(self._folded.cdc.key or ())
        tellings = [
            Telling(
                self._count + at,
                each[ROW_ID],
                each[PARTITION],
                each[COMMIT_SEQUENCE],
                each[SEQUENCE],
                _old_key(each[HEADERS], spelling),
                frozenset(name for name, mask in masks.items() if mask[at]),
                each[OPERATION] == DELETE,
                identity_of(each[PARTITION], each[OFFSET], restarts),
            )
            for at, each in enumerate(values)
        ]
        for each in tellings:
            self._tellings[each.key].append(each)
        self._parts.append(rows)
        self._count += len(rows)
        return tellings

    def _rows_at(self, events: pa.Table) -> pa.Table:
        return rows_at(self._table, self._files, events, self._table.schema())

    def _read_keys(
        self, keys: Iterable[str], plan: Callable[[BooleanExpression], Iterable[FileScanTask]]
    ) -> pa.Table:
        ordered, schema = sorted(keys), self._table.schema()
        parts = [no_rows(arrow_schema(schema))]
        for first in range(0, len(ordered), _KEYS_AT_ONCE):
            of_keys = is_among(ROW_ID, ordered[first : first + _KEYS_AT_ONCE])
            for task in plan(of_keys):
                parts += rows_of_file(self._table.io, task, schema, of_keys)
        return pa.concat_tables(parts)


def _snapshots_since_rebuild(table: Table) -> list[Snapshot]:
    """Return the kept snapshots since the mirror was rebuilt: earlier ones are of another log."""
    snapshots = []
    for snapshot in ancestors_of(table.metadata.current_snapshot(), table.metadata):
        snapshots.append(snapshot)
        if summary_of(snapshot).work.kept(snapshot) is None:
            break
    return snapshots


def _old_key(headers: list[dict[str, object]] | None, spelling: Spelling) -> str | None:
    for header in headers or ():
        if header["key"] == _OLD_KEY and isinstance(value := header["value"], bytes):
            try:
                return spelling.read(Documents(), value).text
            except NotReadError:
                return None
    return None
