"""The key hash as Spark SQL: built-ins only, equal bit by bit to :mod:`planning.keys`.

``xxhash64`` leaves its seed as it is at a null. So a column whose values take one of two forms,
long or not, becomes two arguments of which one is null.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from planning.errors import InvalidInput
from spark_apps.session import quoted

WHOLE = {
    "double": "{x} = rint({x}) and {x} >= -9223372036854775808D and {x} < 9223372036854775808D",
    "decimal": "{x} % 1 = 0 and {x} >= -9223372036854775808 and {x} < 18446744073709551616",
}
DOUBLE = (
    "case when {whole} then try_cast({x} as bigint) end, "
    "case when not ({whole}) then nullif({x}, double('NaN')) end"
)
DECIMAL = (
    "case when {whole} then coalesce(try_cast({x} as bigint), "
    "try_cast({x} - 18446744073709551616 as bigint)) end, "
    "case when not ({whole}) then cast({x} as string) end"
)
FORMS = {
    **dict.fromkeys(("boolean", "tinyint", "smallint", "int"), "cast({x} as bigint)"),
    **dict.fromkeys(("bigint", "string", "binary", "timestamp", "timestamp_ntz", "void"), "{x}"),
    "float": DOUBLE.replace("{whole}", WHOLE["double"]).replace("{x}", "cast({x} as double)"),
    "double": DOUBLE.replace("{whole}", WHOLE["double"]),
    "decimal": DECIMAL.replace("{whole}", WHOLE["decimal"]),
    "date": "unix_date({x}) * 86400000000L",
}
"""The canonical form of a column by its type, as arguments of ``xxhash64``."""


def key_sql(columns: Mapping[str, str], salt: int | None = None) -> str:
    """Return the hash of a key as a SQL expression; ``columns`` are names with their types.

    >>> key_sql({"user": "string", "day": "date"}, salt=7)
    'xxhash64(7L, `user`, unix_date(`day`) * 86400000000L)'
    """
    forms = [] if salt is None else [f"{salt}L"]
    for name, kind in columns.items():
        form = FORMS.get(kind.partition("(")[0].partition(" ")[0])
        if form is None:
            raise InvalidInput(
                f"key column {name} must be one of {', '.join(FORMS)}, got {kind}; cast it"
            )
        forms.append(form.replace("{x}", quoted(name)))
    return f"xxhash64({', '.join(forms)})"


def key_hash(rows: DataFrame, *names: str, salt: int | None = None) -> Column:
    """Return the hash of a key of some columns of ``rows``: a long with the hash's 64 bits."""
    types = {field.name: field.dataType.simpleString() for field in rows.schema}
    absent = [name for name in names if name not in types]
    if absent or not names:
        raise InvalidInput(
            f"key columns must be of {', '.join(types)}, got {', '.join(absent) or 'none'}"
        )
    return F.expr(key_sql({name: types[name] for name in names}, salt))


def draw(hashed: Column) -> Column:
    """Return the draw of a hash, in [0, 2**32): an item is dropped iff it is below the step."""
    return F.shiftrightunsigned(hashed, 32)
