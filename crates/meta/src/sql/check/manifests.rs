//! Manifests: whole, and each of a content that is there.

use super::Checker;
use crate::sql::fault::Done;
use crate::types::MANIFEST_CHUNK_BLOCKS;
use holdfast_base::BlockId;

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    let sql = "SELECT DISTINCT content_id FROM manifest WHERE NOT EXISTS (SELECT 1 FROM content WHERE id = content_id)";
    for content in checker.ids(sql)? {
        let sql = "DELETE FROM manifest WHERE content_id = ?1";
        let message = format!("there is a manifest of content {content}, which does not exist");
        checker.mend("manifest-orphan", message, false, sql, [content], "removed it")?;
    }
    // A content on its way out loses its chunks from the end.
    let sql = format!(
        "SELECT id, blocks, bytes FROM ( \
             SELECT content.id, content.blocks, coalesce(sum(length(manifest.blocks)), 0) AS bytes, \
                 count(chunk) AS chunks, coalesce(max(chunk) + 1, 0) AS chunk_end FROM content \
             LEFT JOIN manifest ON content_id = content.id \
             WHERE inline IS NULL AND NOT EXISTS (SELECT 1 FROM spent WHERE spent.content_id = content.id) \
             GROUP BY content.id, content.blocks) AS counted \
         WHERE bytes <> {id_bytes} * blocks OR bytes % {id_bytes} <> 0 \
             OR chunks <> (blocks + {chunk} - 1) / {chunk} OR chunk_end <> chunks",
        id_bytes = BlockId::BYTES,
        chunk = MANIFEST_CHUNK_BLOCKS,
    );
    let broken: Vec<(i64, i64, i64)> = checker.rows(&sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (content, blocks, bytes) in broken {
        let listed = bytes / i64::try_from(BlockId::BYTES).unwrap_or(1);
        let message = format!("the manifest of content {content} lists {listed} blocks; there should be {blocks}");
        checker.found("manifest-blocks", message, true, None);
    }
    let sql = "SELECT id FROM content WHERE inline IS NOT NULL AND blocks <> 0 \
               OR inline IS NULL AND blocks = 0 AND refs > 0";
    for content in checker.ids(sql)? {
        checker.found("content-bytes", format!("content {content} has no bytes, or has them twice"), true, None);
    }
    Ok(())
}
