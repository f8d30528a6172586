"""Publications of others: PostgreSQL refuses an update whose replica identity one of them does not carry."""

from typing import Final

import asyncpg

from services.revision.schema.catalogue import Catalogue
from services.revision.schema.inventory import Inventory
from services.revision.tracker.stream import PUBLICATION

# Listed: the columns that it names, none for all; filtering: those that its condition on rows looks at. Lists are asked
# for through JSON: PostgreSQL 14 has none.
_LISTED: Final = """
SELECT p.pubname::text AS publication, c.relname::text AS relation,
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
              WHERE a.attrelid = c.oid AND to_jsonb(r) -> 'prattrs' @> to_jsonb(a.attnum)
       ) AS listed,
       ARRAY(SELECT DISTINCT a.attname::text FROM pg_catalog.pg_depend d
               JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
              WHERE d.classid = 'pg_publication_rel'::regclass AND d.objid = r.oid AND d.refobjsubid > 0
                AND to_jsonb(r) ->> 'prattrs' IS NULL) AS filtering
  FROM pg_catalog.pg_publication_rel r
  JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
  JOIN pg_catalog.pg_class c ON c.oid = r.prrelid
 WHERE c.relnamespace = 'public'::regnamespace AND (p.pubupdate OR p.pubdelete) AND p.pubname <> $1
 ORDER BY 1, 2
"""


async def narrow(connection: asyncpg.Connection, standing: Catalogue, inventory: Inventory) -> list[str]:
    """Publications of others that would make PostgreSQL refuse updates once the replica identity is ours."""
    rows = await connection.fetch(_LISTED, PUBLICATION)
    identities = {
        index.relation: frozenset(index.columns) - standing.nullable(index.relation) for index in inventory.identities
    }
    sentences = []
    for publication, relation, listed, filtering in rows:
        identity = identities.get(relation)
        if identity is None:
            continue
        if listed and (lacking := sorted(identity - set(listed))):
            sentences.append(
                f"the publication {publication} lists columns of {relation} without {', '.join(lacking)}, "
                "which the log has to tell: add them to the list"
            )
        if beyond := sorted(set(filtering) - identity):
            sentences.append(
                f"the publication {publication} chooses rows of {relation} by {', '.join(beyond)}, which the "
                "log will not tell of a row's past: choose by other columns, or publish inserts alone"
            )
    return sentences
