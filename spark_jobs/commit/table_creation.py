"""Table creation: by one call that also carries the first snapshot, so that no other state is ever seen."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import (
    PARTITION_FIELD_ID_START,
    UNPARTITIONED_PARTITION_SPEC,
    PartitionField,
    PartitionSpec,
)
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.types import BinaryType

from spark_jobs.commit.swap import send, stage_creation
from spark_jobs.config.catalog_rules import refuse_untaken
from spark_jobs.config.iceberg_terms import with_fitting_values
from spark_jobs.lake.catalog import creation_error, staging
from spark_jobs.lake.parquet_writer import DEFAULT_DICTIONARY_BYTES, DICTIONARY_BYTES
from spark_jobs.lake.tables import dead_letters_of, load_table, progress_of
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import is_of_another_table
from spark_jobs.schema.declared import partition_spec, sort_order, sorted_by
from spark_jobs.schema.evolution import Binding, bind
from spark_jobs.schema.iceberg_types import (
    IDENTITY,
    KEY,
    METADATA_COLUMNS,
    dead_letter_schema,
    with_metadata_columns,
)
from spark_jobs.storage.paths import is_inside

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import CreateTableTransaction, Table


COMMENT = "comment"  # where Spark, Trino and others look for a table's comment
# The level: Parquet with zstd 1 costs about 0.3 µs a row; higher levels cost more than they save here.
TABLE_PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    DICTIONARY_BYTES: DEFAULT_DICTIONARY_BYTES,
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def create_table(
    catalog: Catalog,
    identifier: str,
    schema: Schema,
    *,
    partition_by: Sequence[str],
    sort_by: Sequence[str] = (),
    properties: Mapping[str, str],
    location: str | None = None,
    progress: Progress,
    dead_letters: bool,
    key_is_binary: bool = False,
    bindings: Iterable[Binding] = (),
    identity: Sequence[str] = IDENTITY,
) -> Table:
    """Create the table, or load the one that another creator made first, with its progress.

    ``schema`` has the JSON's columns only; ``properties`` go on top of Sluice's own; ``progress`` holds the
    resolved start offsets and the source's identity. With ``dead_letters`` its dead-letter table is made
    before it; each gets a folder in ``location``, where the catalog puts it without one. ``bindings`` say
    which columns take a schema's fields; ``identity`` by which no two rows are equal.
    """
    if (table := load_table(catalog, identifier)) is not None:
        return table
    full_schema = assign_fresh_schema_ids(
        with_metadata_columns(
            _without_reserved(schema, identifier), key_is_binary=key_is_binary, identity=identity
        )
    )
    spec = partition_spec(full_schema, partition_by)
    if dead_letters:
        create_dead_letter_table(catalog, identifier, properties, progress, location=location)
    return create_with_snapshot(
        catalog,
        identifier,
        schema=full_schema,
        spec=spec,
        properties={COMMENT: f"Created by Sluice from the Kafka topic {progress.topic}", **properties},
        location=location,
        progress=replace(progress, columns=bind({}, bindings, full_schema)),
        order=sort_order(full_schema, sort_by),
    )


def create_dead_letter_table(
    catalog: Catalog,
    identifier: str,
    properties: Mapping[str, str],
    progress: Progress,
    *,
    location: str | None = None,
) -> Table:
    """Create the dead-letter table of the data table ``identifier``, or load the existing one.

    It is born knowing no partition: its offsets move only with batches that have dead letters, and a creator
    that dies before it makes the data table must not leave start offsets that a later one did not choose.
    """
    name = dead_letters_of(identifier)
    table = load_table(catalog, name)
    if table is None:
        schema = assign_fresh_schema_ids(dead_letter_schema())
        table = create_with_snapshot(
            catalog,
            name,
            schema=schema,
            order=sort_order(schema),
            spec=UNPARTITIONED_PARTITION_SPEC,
            properties={
                **properties,
                COMMENT: f"Created by Sluice for records that could not become rows of {identifier}",
            },
            location=location,
            progress=receiving_progress(progress),
        )
    _refuse_older_dead_letters(catalog, table, identifier, progress)
    return table


def receiving_progress(progress: Progress) -> Progress:
    """Return the initial progress of a table that receives rows of a table with this progress."""
    return replace(
        progress,
        next_offsets={},
        last_commits=(),
        pending_dead_letters=None,
        routes=(),
        owed_routes=None,
        last_drain_offsets=None,
        replay_epoch=0,  # of what the data table owes nothing can be in here yet
        columns={},
        layout=None,
    )


def create_with_snapshot(
    catalog: Catalog,
    identifier: str,
    *,
    schema: Schema,
    spec: PartitionSpec,
    properties: Mapping[str, str],
    location: str | None = None,
    progress: Progress,
    order: SortOrder = UNSORTED_SORT_ORDER,
) -> Table:
    """Create a table with ``progress`` in its first snapshot, or return another creator's.

    ``schema`` has its final field ids. Raises ``RetryableError`` and ``ConfigError``.
    """
    terms: dict[str, Any] = {
        "partition_spec": spec,
        "sort_order": order,
        "properties": with_fitting_values({**TABLE_PROPERTIES, **properties}),
    }
    refuse_untaken(catalog.properties, identifier)
    refusal: Exception = NoSuchTableError(identifier)
    try:
        create_namespace(catalog, identifier)
        creation = _begun(
            partial(catalog.create_table_transaction, identifier, schema, **terms), identifier, location
        )
        with staging(creation._table):  # noqa: SLF001  (see swap.py)
            table, swap = stage_creation(creation, progress)
        send(catalog, table, swap)
    except (TableAlreadyExistsError, CommitFailedException) as error:
        # Another creator was first, or a gateway repeated a request that had landed: the table that bears the
        # name decides.
        refusal = error
    except SluiceError:
        raise
    except Exception as error:
        raise creation_error(error, table=identifier) from error
    if (born := load_table(catalog, identifier)) is None:
        raise creation_error(refusal, table=identifier) from refusal
    return born


def _begun(
    begin: Callable[[str | None], CreateTableTransaction], identifier: str, location: str | None
) -> CreateTableTransaction:
    """Begin a creation at a place that no table had before: files of a dropped one may be there.

    Most catalogs put a table at namespace/name. Raises ``ConfigError`` (``location-ignored``).
    """
    suffix = uuid.uuid4().hex[:8]
    if not location:
        creation = begin(None)
        place = creation.table_metadata.location.rstrip("/")
        is_shared = place.endswith(f"/{identifier.rpartition('.')[2]}")
        return begin(f"{place}-{suffix}") if is_shared else creation
    creation = begin(f"{location}/{identifier.replace('.', '/')}-{suffix}")
    if not is_inside(creation.table_metadata.location, location):
        place = creation.table_metadata.location
        raise fault("location-ignored", found=place, wanted=location, table=identifier)
    return creation


def _without_reserved(schema: Schema, identifier: str) -> Schema:
    taken = [name for name in METADATA_COLUMNS if name in {field.name for field in schema.fields}]
    if taken:
        raise fault("reserved-column", taken=", ".join(taken), table=identifier)
    return schema


def _refuse_older_dead_letters(catalog: Catalog, table: Table, identifier: str, progress: Progress) -> None:
    found = progress_of(table)
    if not is_of_another_table(found, progress):
        return
    # Another run may have taken both tables on since ``progress`` was read; what is read now is no older.
    data = load_table(catalog, identifier)
    if data is None or is_of_another_table(found, progress_of(data)):
        raise fault("dead-letters-of-another-table", table=identifier, dead_letters=".".join(table.name()))


def create_namespace(catalog: Catalog, identifier: str) -> None:
    """Create the namespaces of a table that do not exist."""
    parts = identifier.split(".")[:-1]
    for depth in range(1, len(parts) + 1):
        namespace = tuple(parts[:depth])
        if catalog.namespace_exists(namespace):
            continue
        try:
            catalog.create_namespace(namespace)
        except Exception:
            # Two creators at once fail in as many ways as there are catalogs; it counts that it is there.
            if not catalog.namespace_exists(namespace):
                raise


# The birth of a table that another one's rows are routed to: laid out as that one, and named as its own.


def create_routed_table(
    catalog: Catalog,
    identifier: str,
    own: Table,
    *,
    properties: Mapping[str, str],
    location: str | None = None,
) -> Table:
    """Create the routed table, or load the existing one.

    Of ``own``'s columns it is born with those that it is partitioned or sorted by; others come with rows that
    have values in them. Raises ``ConfigError`` (``not-routed-from``) for a table that rows of another one are
    routed to, or none, and as ``create_with_snapshot``.
    """
    table = load_table(catalog, identifier)
    if table is None:
        schema, sort_by = own.schema(), sorted_by(own.schema(), own.sort_order())
        sources = {each.source_id: str(schema.find_column_name(each.source_id)) for each in own.spec().fields}
        columns = _schema(schema, {*sort_by, *sources.values()})
        table = create_with_snapshot(
            catalog,
            identifier,
            schema=columns,
            spec=_spec(own.spec(), {old: columns.find_field(name).field_id for old, name in sources.items()}),
            properties={
                **properties,
                COMMENT: f"Created by Sluice for rows that are routed here from {'.'.join(own.name())}",
            },
            location=location,
            progress=replace(receiving_progress(progress_of(own)), routed_from=str(own.metadata.table_uuid)),
            order=sort_order(columns, sort_by),
        )
    refuse_other_origin(table, str(own.metadata.table_uuid))
    return table


def refuse_other_origin(table: Table, own_uuid: str) -> None:
    """Raise ``ConfigError`` (``not-routed-from``) unless the table was created for this table's rows."""
    if progress_of(table).routed_from != own_uuid:
        raise fault("not-routed-from", table=".".join(table.name()))


def _schema(own: Schema, named: set[str]) -> Schema:
    """Return the schema with the named columns, or fields of a struct, and the fixed ones."""
    holding = {part for name in named for part in (name, name.partition(".")[0])} - {*METADATA_COLUMNS}
    fields = [field for field in own.fields if field.name in holding]
    key_is_binary = isinstance(own.find_type(KEY), BinaryType)
    return assign_fresh_schema_ids(with_metadata_columns(Schema(*fields), key_is_binary=key_is_binary))


def _spec(own: PartitionSpec, sources: Mapping[int, int]) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(sources[each.source_id], PARTITION_FIELD_ID_START + n, each.transform, each.name)
            for n, each in enumerate(own.fields)
        )
    )
