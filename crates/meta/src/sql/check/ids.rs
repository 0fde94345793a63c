//! The id counter is past every id in use.

use super::Checker;
use crate::sql::fault::Done;

pub(super) fn check(checker: &mut Checker<'_>) -> Done<()> {
    let next = checker.ids_end()?;
    let sql = "SELECT coalesce(max(id), 0) FROM (SELECT max(id) AS id FROM node UNION ALL SELECT max(id) FROM content \
               UNION ALL SELECT max(id) FROM account UNION ALL SELECT max(id) FROM space UNION ALL SELECT max(id) FROM slot \
               UNION ALL SELECT max(id) FROM passkey UNION ALL SELECT max(id) FROM identity \
               UNION ALL SELECT max(id) FROM trash UNION ALL SELECT max(id) FROM pack UNION ALL SELECT max(id) FROM node_lock \
               UNION ALL SELECT max(bond_id) FROM bond) \
               AS used";
    let highest = checker.ids(sql)?.first().copied().unwrap_or(0);
    if next > highest {
        return Ok(());
    }
    let repaired = match checker.mender {
        Some(tx) => {
            tx.skip_ids_to(highest + 1)?;
            Some(format!("set it past {highest}"))
        }
        None => None,
    };
    let message = format!("the id counter stands at {next}, but {highest} is in use");
    checker.found("id-counter", message, false, repaired);
    Ok(())
}
