"""A type as it is shown is a type as it is declared, whatever its fields are called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from spark_jobs.config.iceberg_terms import PRIMITIVES, check_type_name
from spark_jobs.schema.iceberg_types import declared_type, type_text

NAMES = st.one_of(
    st.text(alphabet="ab `,:<>()[]'\"\\\n", min_size=1, max_size=6), st.text(min_size=1, max_size=6)
)
PLAIN = (
    st.sampled_from([LongType(), StringType(), BinaryType(), TimestamptzType()])
    | st.builds(DecimalType, st.integers(5, 38), st.integers(0, 5))
    | st.builds(FixedType, st.integers(1, 99))
)


def _nested(inner: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[IcebergType]:
    fields = st.dictionaries(NAMES, inner, min_size=1, max_size=4)
    return st.one_of(
        inner.map(lambda kind: ListType(1, kind, element_required=False)),
        inner.map(lambda kind: MapType(1, StringType(), 2, kind, value_required=False)),
        fields.map(
            lambda named: StructType(
                *(NestedField(n, name, kind, required=False) for n, (name, kind) in enumerate(named.items()))
            )
        ),
    )


@given(st.recursive(PLAIN, _nested, max_leaves=8))
def test_a_type_that_is_shown_can_be_declared(kind: IcebergType) -> None:
    """What preview shows passes the configuration's check and is read as the same names and types."""
    text = type_text(kind)
    check_type_name(text)
    assert type_text(declared_type(text)) == text
    assert _names(declared_type(text)) == _names(kind)


def test_names_without_signs_of_types_stay_bare() -> None:
    """Backticks are for the few who need them: `created_at`, `a b` and `größe` are written as they are."""
    bare = "struct<created_at: long, a b: list<string>, größe: int, $x: map<string, string>, a.b: date>"
    assert type_text(declared_type(bare)) == bare
    assert all(type_text(declared_type(name)) == name for name in PRIMITIVES)


def _names(kind: IcebergType) -> list[object]:
    if isinstance(kind, StructType):
        return [(field.name, _names(field.field_type)) for field in kind.fields]
    if isinstance(kind, ListType):
        return [_names(kind.element_type)]
    return [_names(kind.value_type)] if isinstance(kind, MapType) else [str(kind)]
