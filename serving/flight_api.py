"""The query service over Flight SQL, for ADBC and JDBC: statements, prepared statements and metadata.

A ticket or a handle has its whole statement, so the server keeps no state between calls. Clients set options
as headers of their calls, which both drivers send from their settings: ``pipeline``, if several are served,
``after`` or ``at``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyarrow import flight

from serving import flight_info
from serving.flight_info import Headers, NoHandshake, TokenCheck
from serving.flight_statement import (
    Command,
    Rows,
    Statement,
    packed,
    plain,
    read_command,
    read_handle,
    read_parameters,
    with_flight_errors,
)
from serving.service import QueryService, Question
from spark_jobs.config.listener import Address
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.expressions.quoting import quoted
from spark_jobs.hot.watermark import parse_offsets, parse_watermark
from spark_jobs.protocol.errors import fault
from spark_jobs.query.query import PARAMETERS

_HEADERS = "headers"
WATERMARK_HEADER = "sluice-watermark"
# Schema and name as in DuckDB, without a catalog, since DuckDB's catalog differs for each query. A table has
# a full name, a short name and a source; the full name is listed if it has the form schema.name.
_TABLES = """
WITH every AS (
  SELECT table_catalog = 'temp' AS is_short, table_schema AS s, table_name AS t, table_type AS k
  FROM information_schema.tables
  WHERE table_catalog IN ('temp', current_database())  -- other queries' are beside it
    AND NOT contains(table_name, '.') AND NOT ends_with(table_name, ' in files')
)
SELECT '' AS c, s, t, k FROM every AS own
WHERE (NOT is_short OR t IN ('dead_letters', 'sluice_watermark')
    OR NOT EXISTS (FROM every AS other WHERE NOT other.is_short AND lower(other.t) = lower(own.t)))
  AND coalesce('' = $1, true) AND coalesce(s LIKE $2 ESCAPE '\\', true)
  AND coalesce(t LIKE $3 ESCAPE '\\', true) AND coalesce(list_contains($4, k), true)
ORDER BY k, s, t
"""
_CREATE, _CLOSE = "CreatePreparedStatement", "ClosePreparedStatement"


class FlightApi(flight.FlightServerBase):  # type: ignore[misc]
    """The Flight SQL server; listens from its creation until ``shutdown``. ``key`` signs handles."""

    def __init__(
        self,
        service: QueryService,
        address: Address,
        *,
        tokens: Sequence[str] = (),
        certificates: Sequence[tuple[bytes, bytes]] = (),
        key: bytes | None = None,
    ) -> None:
        scheme = "grpc+tls" if certificates else "grpc+tcp"
        super().__init__(
            f"{scheme}://{address}",
            auth_handler=NoHandshake(),
            tls_certificates=list(certificates),
            middleware={_HEADERS: TokenCheck(tokens)},
        )
        self._service = service
        self._key = key or secrets.token_bytes()

    @with_flight_errors
    def get_flight_info(self, context: Any, descriptor: Any) -> Any:  # noqa: ARG002
        """Return the ticket of an answer, served by this server."""
        command = read_command(descriptor.command or b"")
        ticket, schema, handle = descriptor.command, None, b""
        if command.name == "CommandStatementQuery":
            handle = _sent(command).to_handle(self._key)
        elif command.name == "CommandPreparedStatementQuery":
            handle = command.fields["prepared_statement_handle"] or b""
            read_handle(handle, self._key)
        else:
            schema = _schema_of(command)
        if schema is None:
            ticket = packed("TicketStatementQuery", statement_handle=handle)
        return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(ticket, [])], -1, -1)

    @with_flight_errors
    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """Return the columns of an answer without running the query."""
        command = read_command(descriptor.command or b"")
        if command.name == "CommandStatementQuery":
            return flight.SchemaResult(self._columns(context, _sent(command)).remove_metadata())
        return flight.SchemaResult(_schema_of(command))

    @with_flight_errors
    def do_get(self, context: Any, ticket: Any) -> Any:
        """Return the rows of an answer, over the records at the time of this call."""
        command = read_command(ticket.ticket)
        if command.name == "TicketStatementQuery":
            statement = read_handle(command.fields["statement_handle"] or b"", self._key)
            with ExitStack() as stack:
                answered = stack.enter_context(self._service.ask(*self._question(context, statement)))
                context.add_header(WATERMARK_HEADER, str(answered.watermark))
                rows = Rows(stack.pop_all(), answered.answer.batches, self._service.query_seconds)
            return flight.GeneratorStream(answered.answer.schema, rows)
        return flight.RecordBatchStream(self._metadata(context, command))

    @with_flight_errors
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ARG002
        """Bind parameters; they are in the statement's new handle."""
        command = read_command(descriptor.command or b"")
        if command.name != "CommandPreparedStatementQuery":
            raise fault("query-refused.changes", what=command.name or "this request")
        statement = read_handle(command.fields["prepared_statement_handle"] or b"", self._key)
        sent = (chunk.data for chunk in reader if chunk.data is not None)
        bound = statement.with_parameters(read_parameters(reader.schema, sent))
        handle = bound.to_handle(self._key)
        writer.write(pa.py_buffer(plain("DoPutPreparedStatementResult", prepared_statement_handle=handle)))

    @with_flight_errors
    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """Prepare a statement, which is in its handle, or close one, which does nothing."""
        if action.type == _CLOSE:
            return iter(())
        if action.type != _CREATE:
            raise fault("query-refused.changes", what=action.type or "this request")
        statement = _sent(read_command(action.body.to_pybytes()))
        columns = self._columns(context, statement)
        count = int(columns.metadata[PARAMETERS])
        parameters = pa.schema([(str(n + 1), pa.string()) for n in range(count)])
        result = packed(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=statement.to_handle(self._key),
            dataset_schema=_serialize(columns.remove_metadata()),
            parameter_schema=_serialize(parameters),
        )
        return iter([flight.Result(result)])

    def list_actions(self, context: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        """Return the actions of ``do_action``."""
        return [(_CREATE, "Prepare a statement."), (_CLOSE, "Close a statement; the server keeps no state.")]

    def _metadata(self, context: Any, command: Command) -> pa.Table:
        """Return the tables to query, or facts about the server."""
        said = command.fields
        match command.name:
            case "CommandGetSqlInfo":
                return flight_info.facts(said["info"])
            case "CommandGetTableTypes":
                return pa.Table.from_arrays([pa.array(flight_info.TABLE_TYPES)], schema=flight_info.TYPES)
            case "CommandGetCatalogs":
                return _distinct(self._tables(context, {}), flight_info.CATALOGS)
            case "CommandGetDbSchemas":
                return _distinct(self._tables(context, said), flight_info.DB_SCHEMAS)
            case "CommandGetTables":
                return self._listed(context, said)
        return _schema_of(command).empty_table()

    def _listed(self, context: Any, said: Mapping[str, Any]) -> pa.Table:
        tables = self._tables(context, said)
        if not said["include_schema"]:
            return tables
        names = (".".join(map(quoted, list(row.values())[1:3])) for row in tables.to_pylist())
        every = (self._columns(context, Statement(f"FROM {name}")) for name in names)
        schemas = [_serialize(columns.remove_metadata()) for columns in every]
        columns = [*tables.columns, pa.array(schemas, pa.binary())]
        return pa.Table.from_arrays(columns, schema=flight_info.TABLES_WITH_SCHEMAS)

    def _tables(self, context: Any, said: Mapping[str, Any]) -> pa.Table:
        patterns = (said.get("db_schema_filter_pattern"), said.get("table_name_filter_pattern"))
        asked = [said.get("catalog"), *patterns, said.get("table_types") or None]
        pipeline, _ = self._question(context, Statement(_TABLES))
        with self._service.ask(pipeline, Question(_TABLES, parameters=asked)) as answered:
            found = pa.Table.from_batches(answered.answer.batches, answered.answer.schema)
        return pa.Table.from_arrays(found.columns, schema=flight_info.TABLES)

    def _columns(self, context: Any, statement: Statement) -> pa.Schema:
        """Return the schema of a statement's answer."""
        pipeline, question = self._question(context, statement)
        with self._service.ask(pipeline, replace(question, columns_only=True)) as answered:
            next(answered.answer.batches, None)
            return answered.answer.schema

    def _question(self, context: Any, statement: Statement) -> tuple[PipelineConfig, Question]:
        headers: Headers = context.get_middleware(_HEADERS)
        said = headers.said
        after, at = said.get("after"), said.get("at")
        if after and at:
            raise fault("unreadable-request.moments")
        return self._service.pipeline(said.get("pipeline")), Question(
            statement.sql,
            parse_offsets(after) if after else {},
            parse_watermark(at) if at else None,
            parameters=statement.parameters,
            is_left=context.is_cancelled,
        )


def _sent(command: Command) -> Statement:
    if "query" not in command.fields:
        raise fault("unreadable-request.no-flight-sql")
    return Statement(command.fields["query"] or "")


def _schema_of(command: Command) -> pa.Schema:
    known = {
        "CommandGetSqlInfo": flight_info.INFO_SCHEMA,
        "CommandGetCatalogs": flight_info.CATALOGS,
        "CommandGetDbSchemas": flight_info.DB_SCHEMAS,
        "CommandGetTableTypes": flight_info.TYPES,
        "CommandGetTables": flight_info.TABLES_WITH_SCHEMAS
        if command.fields.get("include_schema")
        else flight_info.TABLES,
        "CommandGetPrimaryKeys": flight_info.PRIMARY_KEYS,
        "CommandGetExportedKeys": flight_info.FOREIGN_KEYS,
        "CommandGetImportedKeys": flight_info.FOREIGN_KEYS,
    }
    if command.name not in known:
        raise fault("query-refused.changes", what=command.name or "this request")
    return known[command.name]


def _distinct(tables: pa.Table, schema: pa.Schema) -> pa.Table:
    names = schema.names
    return tables.select(names).group_by(names, use_threads=False).aggregate([]).cast(schema)


def _serialize(schema: pa.Schema) -> bytes:
    written: bytes = schema.serialize().to_pybytes()
    return written
